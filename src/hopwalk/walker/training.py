"""How a walker learns: batches of facts as questions, walks sampled for each, the policy's gradient, the ranks of dev."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.learning.ranking import answers_to_leave_out, metrics, questions_of, rank_answers
from hopwalk.learning.training import Learner, OnBatch
from hopwalk.walker.counting import DistinctCount
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Questions, Walker, training_questions
from hopwalk.walker.forecast import questions_at_once
from hopwalk.walker.reinforce import Baseline, policy_loss
from hopwalk.walker.rollout import Rollouts, roll_out
from hopwalk.walker.scorer_logits import Opinions


class WalkerLearner(Learner):
    """A walker, its questions and its optimizer; and what the paper's figures show of its course.

    `new_to_scorer` are facts that the scorer has not learnt: those of dev, if no others are said.
    """

    name = "walker"
    remedy = "Training has diverged: set a smaller walker.learning_rate, or walker.gradient_clip=5."

    def __init__(
        self,
        walker: Walker,
        dataset: Dataset,
        settings: Settings,
        opinions: Opinions | None,
        *,
        new_to_scorer: Triples | None = None,
    ) -> None:
        if not len(dataset.train):
            raise DataError(f"{dataset.name} has no training questions")
        own = settings.walker
        self.model, self.seed = walker.policy, own.seed
        self.epochs, self.evaluate_every, self.patience = own.epochs, own.evaluate_every, own.patience
        self._walker, self._settings, self._hops, self._opinions = walker, own, settings.walk.hops, opinions
        self._train = dataset.train
        self._dev = some_questions(questions_of(dataset, "valid"), own.dev_questions)
        self._known = answers_to_leave_out(dataset, "valid")
        # Facts that training does not know, to count how often walks are wronged for finding them (the paper's figure 2).
        self._hidden = KnownAnswers([dataset.valid, dataset.test], len(dataset.entities), len(dataset.relations))
        new = dataset.valid if new_to_scorer is None else new_to_scorer
        self._honest = _opinions_of_answers(opinions, some_questions(new, own.dev_questions))
        self._decoder = Decoder(walker, settings, opinions)
        self._optimizer = Optimizer(
            walker.policy,
            "adam",
            own.learning_rate,
            with_sparse_rows=frozenset(["entities"] if walker.policy.has_sparse_rows else []),
        )
        self._baseline = Baseline(own.baseline)
        self._paths = DistinctCount()
        self._at_once = questions_at_once(walker.graph, settings, has_scorer=opinions is not None)

    def learn(self, epoch: int, generator: torch.Generator, on_batch: OnBatch) -> dict[str, float]:
        """One pass over all questions; the means of loss, reward, entropy and hits."""
        settings = self._settings
        self._optimizer.set_learning_rate(settings.learning_rate * settings.learning_rate_decay ** (epoch - 1))
        num_batches = -(-len(self._train) // self._settings.batch_size)
        sums: dict[str, float] = {}
        order = torch.randperm(len(self._train), generator=generator)
        for number, rows in enumerate(order.tensor_split(num_batches), start=1):
            values = self.learn_batch(rows, epoch, generator)
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value / num_batches
            on_batch(number, num_batches, values)
        sums["unique_paths"] = self._paths.estimate()
        if self._walker.policy.guidance is not None:
            sums["guidance"] = float(self._walker.policy.guidance.detach())
        return sums

    def learn_batch(self, rows: Tensor, epoch: int, generator: torch.Generator) -> dict[str, float]:
        """One step of the optimizer; a batch that is too large for the memory given is done in parts."""
        values: dict[str, float] = {}
        for part in rows.tensor_split(-(-len(rows) // self._at_once)):
            share = len(part) / len(rows)
            for name, value in self._learn_part(part.numpy(), share, epoch, generator).items():
                values[name] = values.get(name, 0.0) + share * value
        if self._settings.gradient_clip:
            self._optimizer.clip(self._settings.gradient_clip)
        self._optimizer.step()
        return values

    def _learn_part(self, rows: Any, share: float, epoch: int, generator: torch.Generator) -> dict[str, float]:
        settings, facts = self._settings, self._train[rows]
        questions = training_questions(
            self._walker.graph, facts.heads, facts.relations, facts.tails, hides_shortcuts=settings.hides_shortcuts
        )
        log_odds = self._opinions.log_odds(questions.heads, questions.relations) if self._opinions else None
        rollouts = roll_out(
            self._walker,
            questions,
            hops=self._hops,
            rollouts=settings.rollouts,
            action_dropout=settings.action_dropout * settings.action_dropout_decay ** (epoch - 1),
            log_odds=self._guiding(log_odds, questions, generator),
            generator=generator,
        )
        probabilities = torch.sigmoid(log_odds) if log_odds is not None and settings.reward_shaping else None
        loss, rewards = policy_loss(rollouts, questions, probabilities, settings, self._baseline)
        entropy = torch.stack(rollouts.entropies).mean()
        total = loss - settings.entropy * settings.entropy_decay ** (epoch - 1) * entropy
        (share * total).backward()
        self._paths.add(torch.cat([questions.heads[rollouts.questions][:, None], rollouts.trails], dim=1))
        return {
            "loss": float(total.detach()),
            "reward": float(rewards.mean()),
            "entropy": float(entropy.detach()),
            **self._hits(rollouts, questions),
        }

    def _guiding(self, log_odds: Tensor | None, questions: Questions, generator: torch.Generator) -> Tensor | None:
        """The scorer's opinions as they would be if it had not learnt the very facts that are asked for [Q, E].

        It all but tells their answers, so a policy that hears it would trust it too much. In the place of its opinion of the
        answer stands one that it has of an answer that is new to it, drawn at random.
        """
        if log_odds is None or self._walker.policy.guidance is None or not len(self._honest):
            return log_odds
        assert questions.answers is not None
        drawn = self._honest[torch.randint(len(self._honest), (len(questions),), generator=generator)]
        return log_odds.scatter(1, questions.answers[:, None], drawn[:, None])

    def _hits(self, rollouts: Rollouts, questions: Questions) -> dict[str, float]:
        """The share of walks that end at the answer asked, and of those at an answer that only dev or test knows."""
        ends, rows = rollouts.trails[:, -1], rollouts.questions
        assert questions.answers is not None
        hits = ends == questions.answers[rows]
        hidden = self._hidden.contains(questions.heads[rows].numpy(), questions.relations[rows].numpy(), ends.numpy())
        return {"hits": float(hits.float().mean()), "false_negative_hits": float(hidden.mean())}

    def measure(self) -> dict[str, Any]:
        """The ranks of dev's tails by their paths."""
        if not len(self._dev):
            return {}
        num_entities = self._walker.graph.num_entities
        ranks = rank_answers(self._decoder.path_scores, self._dev, self._known, num_entities=num_entities)
        return {f"valid_{name}": value for name, value in metrics(ranks).to_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """The optimizer's, the baseline and the paths counted so far."""
        own = {"baseline": torch.tensor([self._baseline.average], dtype=torch.float64), "paths": self._paths.registers}
        return {f"optimizer.{name}": value for name, value in self._optimizer.state().items()} | own

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        self._baseline.average = float(state["baseline"][0])
        self._paths.registers = state["paths"].clone()
        prefix = "optimizer."
        self._optimizer.load_state({name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)})


def _opinions_of_answers(opinions: Opinions | None, questions: Triples) -> Tensor:
    """The scorer's log-odds of the answers of questions [N]; none without a scorer."""
    if opinions is None:
        return torch.empty(0)
    heads, relations, answers = torch.from_numpy(questions.array().astype(np.int64)).t()
    found = [
        opinions.log_odds(heads[rows], relations[rows]).gather(1, answers[rows, None]).squeeze(1)
        for rows in torch.arange(len(heads)).split(128)
        if len(rows)
    ]
    return torch.cat(found) if found else torch.empty(0)


def some_questions(questions: Triples, most: int) -> Triples:
    """At most so many of the questions, always the same ones; 0: all."""
    if not most or len(questions) <= most:
        return questions
    return questions[np.sort(np.random.default_rng(0).permutation(len(questions))[:most])]
