"""The paper's walker as one would write it in plain PyTorch (§2.2–2.6, §4.3): what our engine is measured against.

Every walk has its actions padded, their embeddings gathered to a tensor [W, A, 2D] with dropout of its own, and multiplied with a
vector. All rollouts of a question are walked from the first hop on, and every test triple is decoded for itself. Nothing is
slowed down on purpose: masks are look-ups in whole tensors, and the path encoder is not run after the last hop.

Actions are padded to the largest out-degree among the walks of the batch; with `bucket_interval`, walks at entities of similar
out-degree are scored together, each group padded to its own largest. Benchmarks use BENCHMARK_BUCKET_INTERVAL, for buckets are
faster: a minibatch of 128 questions took 7 s of one core (of a busy machine) and 3.6 GB on UMLS, 11 s and 4.6 GB on FB15k-237;
padded to the batch, 21 s and 7.0 GB, 54 s and 12.5 GB (`python -m benchmarks.plain_walker umls --bucket-interval 10`).

Dropout and sampling draw from torch's global generator. W is the number of walks: Q questions times K rollouts or beam slots.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.ingest import peak_memory_bytes
from hopwalk.api import graph_of, load_dataset, settings_for
from hopwalk.data.graph import Graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples

BENCHMARK_BUCKET_INTERVAL = 10
NO_CHANCE = -1e30  # the score of an illegal action: its probability is 0, and 0 times its logarithm is 0 and not NaN
EPSILON = 1e-20  # ε of equation 8: when all actions are dropped, the legal ones are equally likely

Reward = Callable[[Tensor, Tensor, Tensor], Tensor]  # heads, relations, tails [W] → f, the probability of each fact [W]
State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class PlainSettings:
    """Those of the paper's UMLS model. `bucket_interval` is None for padding to the whole batch.

    Decoding four triples at once is faster than 16 or 64: smaller tensors stay nearer to the processor.
    """

    hops: int = 2
    rollouts: int = 20
    dimension: int = 200
    layers: int = 3
    embedding_dropout: float = 0.1
    feed_forward_dropout: float = 0.0
    action_dropout: float = 0.95
    entropy_weight: float = 0.05
    learning_rate: float = 0.001
    max_gradient_norm: float | None = 5.0
    bucket_interval: int | None = None
    decode_batch_size: int = 4


RELEASED = {  # of the paper's models
    "umls": PlainSettings(),
    "fb15k-237": PlainSettings(
        hops=3, embedding_dropout=0.3, feed_forward_dropout=0.1, action_dropout=0.5, entropy_weight=0.02, max_gradient_norm=None
    ),
}


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions with the answer that is asked for, int64 [Q] each, and their other known answers, bool [Q, E]."""

    heads: Tensor
    relations: Tensor
    tails: Tensor
    is_other_answer: Tensor


@dataclass(frozen=True, eq=False)
class Choice:
    """What each walk can do next: relations, tails, whether that is allowed, and log π, all [W, A]."""

    relations: Tensor
    tails: Tensor
    is_legal: Tensor
    log_probs: Tensor


class PlainWalker(nn.Module):
    """The policy with its training and decoding. `known_answers` are those of the training facts."""

    degrees: Tensor
    action_relations: Tensor
    action_tails: Tensor

    def __init__(
        self, graph: Graph, known_answers: KnownAnswers, settings: PlainSettings | None = None, reward: Reward | None = None
    ) -> None:
        super().__init__()
        self.settings = settings = settings or PlainSettings()
        self.relation_ids, self.num_entities = graph.relation_ids, graph.num_entities
        self.known_answers, self.reward = known_answers, reward
        self._pad_actions(graph)

        width = settings.dimension
        self.entity_table = nn.Embedding(graph.num_entities, width)
        self.relation_table = nn.Embedding(graph.relation_ids.num_all, width)
        self.path_encoder = nn.LSTM(2 * width, width, settings.layers, batch_first=True)
        self.w1 = nn.Linear(3 * width, 2 * width)
        self.w2 = nn.Linear(2 * width, 2 * width)
        self.embedding_dropout = nn.Dropout(settings.embedding_dropout)
        self.feed_forward_dropout = nn.Dropout(settings.feed_forward_dropout)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_normal_(parameter)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=settings.learning_rate)

    def train_minibatch(self, heads: Ids, relations: Ids, tails: Ids) -> float:
        """One step of REINFORCE (equation 6) on the facts; the loss."""
        self.train()
        asked = self._ask(heads, relations, tails)
        rows = torch.arange(len(heads)).repeat_interleave(self.settings.rollouts)
        entities, taken, state = asked.heads[rows], torch.full_like(rows, self.relation_ids.start_id), None
        path_log_probs, entropy = torch.zeros(len(rows)), torch.zeros(len(rows))
        for hop in range(self.settings.hops):
            choice, state = self._look(asked, rows, taken, entities, state, is_last=hop == self.settings.hops - 1)
            actions = self._sample(choice)
            path_log_probs = path_log_probs + choice.log_probs.gather(1, actions).squeeze(1)
            entropy = entropy - (choice.log_probs.exp() * choice.log_probs).sum(dim=1) / self.settings.hops
            taken, entities = choice.relations.gather(1, actions).squeeze(1), choice.tails.gather(1, actions).squeeze(1)
        rewards = self._rewards(asked, rows, entities)
        loss = -(rewards * path_log_probs + self.settings.entropy_weight * entropy).mean()

        self.optimizer.zero_grad()
        loss.backward()
        if self.settings.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()
        return loss.item()

    def decode(self, heads: Ids, relations: Ids, tails: Ids, beam: int) -> tuple[Tensor, Tensor]:
        """The best entities of every triple's question and their log-probabilities, [Q, beam] each, best first.

        Answers known from training, other than the triple's tail, are blocked on the last hop. Entity −1 with score −∞ fills rows
        that reach fewer entities.
        """
        self.eval()
        starts = range(0, len(heads), self.settings.decode_batch_size)
        batches = [slice(start, start + self.settings.decode_batch_size) for start in starts]
        with torch.no_grad():
            decoded = [self._search(self._ask(heads[rows], relations[rows], tails[rows]), beam) for rows in batches]
        return torch.cat([entities for entities, _ in decoded]), torch.cat([scores for _, scores in decoded])

    def _search(self, asked: Asked, beam: int) -> tuple[Tensor, Tensor]:
        """Beam search; in the end every entity that is reached has the score of its best path (§4.3)."""
        queries = torch.arange(len(asked.heads))
        rows, state, scores = queries, None, torch.zeros(len(queries))
        entities, taken = asked.heads, torch.full_like(asked.heads, self.relation_ids.start_id)
        for hop in range(self.settings.hops):
            is_last = hop == self.settings.hops - 1
            choice, state = self._look(asked, rows, taken, entities, state, is_last=is_last)
            extended = scores[:, None] + choice.log_probs.masked_fill(~choice.is_legal, -torch.inf)  # [W, A]
            if is_last:
                break
            scores, picked = extended.view(len(queries), -1).topk(min(beam, extended.numel() // len(queries)))
            slots, num_actions = len(rows) // len(queries), extended.shape[1]
            walks = (queries[:, None] * slots + picked // num_actions).flatten()
            actions = (picked % num_actions).flatten()
            scores, rows, state = scores.flatten(), rows[walks], (state[0][:, walks], state[1][:, walks])
            taken, entities = choice.relations[walks, actions], choice.tails[walks, actions]
        best = torch.full((len(queries), self.num_entities), -torch.inf)
        best.scatter_reduce_(1, choice.tails.view(len(queries), -1), extended.view(len(queries), -1), "amax")
        scores, entities = best.topk(min(beam, self.num_entities))
        missing = (0, beam - scores.shape[1])
        scores, entities = functional.pad(scores, missing, value=-torch.inf), functional.pad(entities, missing)
        return entities.masked_fill(scores == -torch.inf, -1), scores

    def _look(
        self, asked: Asked, rows: Tensor, taken: Tensor, entities: Tensor, state: State | None, *, is_last: bool
    ) -> tuple[Choice, State]:
        """The policy (equations 2–4) of walks that took the relations `taken` to `entities`; `rows` are their questions."""
        here = self._embedded(self.entity_table, entities)
        history, state = self.path_encoder(torch.cat([self._embedded(self.relation_table, taken), here], dim=1)[:, None], state)
        query = self._embedded(self.relation_table, asked.relations[rows])
        hidden = self.feed_forward_dropout(self.w1(torch.cat([here, history[:, 0], query], dim=1)).relu())
        wanted = self.feed_forward_dropout(self.w2(hidden))

        width = int(self.degrees[entities].max())
        relations, tails = self.action_relations[entities, :width], self.action_tails[entities, :width]
        is_legal = self._legal(asked, rows, entities, relations, tails, is_last=is_last)
        score = self._scores if self.settings.bucket_interval is None else self._bucketed_scores
        scores = score(wanted, entities, relations, tails).masked_fill(~is_legal, NO_CHANCE)
        return Choice(relations, tails, is_legal, scores.log_softmax(dim=1)), state

    def _scores(self, wanted: Tensor, entities: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every action, [W, A]: the product of its embedding and what the policy wants, `wanted` [W, 2D]."""
        actions = [self._embedded(self.relation_table, relations), self._embedded(self.entity_table, tails)]
        return torch.bmm(torch.cat(actions, dim=2), wanted[:, :, None]).squeeze(2)

    def _bucketed_scores(self, wanted: Tensor, entities: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The same for one bucket of out-degrees after the other; what is beyond the bucket's largest gets 0."""
        degrees, width = self.degrees[entities], relations.shape[1]
        buckets = (degrees - 1) // (self.settings.bucket_interval or 1)
        members = [torch.nonzero(buckets == bucket).squeeze(1) for bucket in buckets.unique()]
        parts = []
        for walks in members:
            most = int(degrees[walks].max())
            scores = self._scores(wanted[walks], entities[walks], relations[walks, :most], tails[walks, :most])
            parts.append(functional.pad(scores, (0, width - most)))
        return torch.cat(parts)[torch.cat(members).argsort()]

    def _legal(self, asked: Asked, rows: Tensor, entities: Tensor, relations: Tensor, tails: Tensor, *, is_last: bool) -> Tensor:
        """Which actions exist and may be taken, bool [W, A]; where none may be, the walk stays."""
        heads, answers = asked.heads[rows, None], asked.tails[rows, None]
        asked_relations, here, degrees = asked.relations[rows, None], entities[:, None], self.degrees[entities]
        is_asked = (here == heads) & (relations == asked_relations) & (tails == answers)
        is_inverse = (here == answers) & (relations == self.relation_ids.inverse(asked_relations)) & (tails == heads)
        is_legal = (torch.arange(relations.shape[1]) < degrees[:, None]) & ~is_asked & ~is_inverse
        if is_last:
            is_legal &= ~asked.is_other_answer[rows[:, None], tails]
        is_stuck = ~is_legal.any(dim=1)
        is_legal[is_stuck, degrees[is_stuck] - 1] = True  # the stay edge is the last one
        return is_legal

    def _sample(self, choice: Choice) -> Tensor:
        """One action of each walk, [W, 1], with action dropout (equations 8 and 9)."""
        probs = choice.log_probs.detach().exp()
        is_kept = torch.rand_like(probs) >= self.settings.action_dropout
        return torch.multinomial((probs * is_kept + EPSILON) * choice.is_legal, 1)

    def _rewards(self, asked: Asked, rows: Tensor, entities: Tensor) -> Tensor:
        """R of equation 7, [W]. Other known answers are blocked, so only the asked one is certain to be right."""
        is_right = (entities == asked.tails[rows]).float()
        if self.reward is None:
            return is_right
        with torch.no_grad():
            return is_right + (1 - is_right) * self.reward(asked.heads[rows], asked.relations[rows], entities)

    def _embedded(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        embeddings: Tensor = self.embedding_dropout(table(ids))
        return embeddings

    def _ask(self, heads: Ids, relations: Ids, tails: Ids) -> Asked:
        offsets, answers = self.known_answers.answers(heads, relations)
        is_other_answer = torch.zeros(len(heads), self.num_entities, dtype=torch.bool)
        for row, tail in enumerate(tails):
            is_other_answer[row, answers[offsets[row] : offsets[row + 1]]] = True
            is_other_answer[row, tail] = False
        head_ids, relation_ids, tail_ids = (torch.from_numpy(column.astype(np.int64)) for column in (heads, relations, tails))
        return Asked(head_ids, relation_ids, tail_ids, is_other_answer)

    def _pad_actions(self, graph: Graph) -> None:
        """Degrees [E], and the relations and tails of every entity's out-edges, [E, largest degree]; the rest is stay edges."""
        degrees = graph.degrees
        entities = np.arange(graph.num_entities)
        relations = np.full((graph.num_entities, degrees.max()), graph.relation_ids.stay_id)
        tails = np.repeat(entities[:, None], degrees.max(), axis=1)
        edges = np.repeat(entities, degrees), np.arange(graph.num_edges) - np.repeat(graph.offsets[:-1], degrees)
        relations[edges], tails[edges] = graph.relations, graph.tails
        for name, array in (("degrees", degrees), ("action_relations", relations), ("action_tails", tails)):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)


def main() -> None:
    """Time minibatches of random facts of a data set with the released settings of the paper, and decoding of test triples."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("data", choices=tuple(RELEASED))
    parser.add_argument("--bucket-interval", type=int)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--questions", type=int, default=128)
    parser.add_argument("--decode", type=int, default=0, metavar="TRIPLES")
    given = parser.parse_args()
    dataset = load_dataset(given.data)
    graph = graph_of(dataset, settings_for(given.data))
    settings = replace(RELEASED[given.data], bucket_interval=given.bucket_interval)
    known_answers = KnownAnswers([dataset.facts], graph.num_entities, graph.num_relations)
    torch.manual_seed(0)
    walker, random = PlainWalker(graph, known_answers, settings), np.random.default_rng(0)
    works: list[tuple[Triples, int, Callable[..., Any]]]
    works = [(dataset.facts, given.queries, walker.train_minibatch)] * given.minibatches
    works += [(dataset.test, given.decode, partial(walker.decode, beam=128))] if given.decode else []
    for triples, size, work in works:
        chosen = triples[random.choice(len(triples), size)]
        start, cpu_start = perf_counter(), process_time()
        work(chosen.heads, chosen.relations, chosen.tails)
        seconds, cpu_seconds = perf_counter() - start, process_time() - cpu_start
        what = f"{'minibatch' if triples is dataset.facts else 'decoding'} of {size}"
        print(f"{what}: {seconds:.2f} s, {cpu_seconds:.2f} s CPU, peak {peak_memory_bytes() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
