"""The paper's walker in plain PyTorch and in the paper's letters: the place to start reading, and the reference for our speed.

Given a query (e_s, r_q, ?), an agent starts at the entity e_s and takes T actions. In the state s_t = (e_t, (e_s, r_q)) an action
is an edge (r', e') that leads away from e_t, or staying there; the entity e_T where it ends is its answer. `train_minibatch` and
`decode` are what one does with it; what they need stands below them. The equations have the paper's numbers:

     1   R_b(s_T) = 1{(e_s, r_q, e_T) ∈ G}                         binary reward             `PlainWalker.reward`
     2   h_0 = LSTM(0, [r_0; e_s])                                 history at the start      `PlainWalker.policy`
     3   h_t = LSTM(h_{t−1}, a_{t−1})                              and after t actions       `PlainWalker.policy`
     4   π(a_t | s_t) = softmax(A_t × W2 ReLU(W1 [e_t; h_t; r_q])) policy                    `PlainWalker.policy`
     5   J(θ) = E[R(s_T | e_s, r_q)]                               objective                 `PlainWalker.train_minibatch`
     6   ∇J(θ) ≈ ∇ Σ_t R(s_T | e_s, r_q) log π(a_t | s_t)          its gradient, REINFORCE   `PlainWalker.train_minibatch`
     7   R(s_T) = R_b(s_T) + (1 − R_b(s_T)) f(e_s, r_q, e_T)       shaped reward             `PlainWalker.reward`
     8   π~(a_t | s_t) ∝ π(a_t | s_t) · m + ε                      action dropout            `PlainWalker.sample`
     9   m_i ~ Bernoulli(1 − α)                                    and its mask              `PlainWalker.sample`

In shapes, W is the number of walks: Q queries times K rollouts or beam slots. A is the largest number of actions of a walk; the
actions of the others are padded to it. Dropout and sampling draw from torch's global generator.

Nothing is slowed down on purpose: masks are look-ups in whole tensors, and the LSTM does not run after the last hop. But all
rollouts of a query are computed from the first hop on, the embeddings of all actions are gathered to a tensor [W, A, 2D] with
dropout of their own, and every test triple is decoded for itself. `hopwalk.walker` needs less for the same walker.

With `bucket_interval`, walks at entities of similar out-degree are scored together, each group padded to its own largest.
Benchmarks use BENCHMARK_BUCKET_INTERVAL, because buckets are faster: a minibatch of 128 queries took 7 s of one core (of a busy
machine) and 3.6 GB on UMLS, 11 s and 4.6 GB on FB15k-237; padded to the batch, 21 s and 7.0 GB, 54 s and 12.5 GB
(`python -m benchmarks.plain_walker umls --bucket-interval 10`).
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
ILLEGAL_LOGIT = -1e30  # the logit of an illegal action: its probability is 0, and 0 times its logarithm is 0 and not NaN
EPSILON = 1e-20  # ε of equation 8: if all actions are masked, the legal ones are equally likely

FactProbability = Callable[[Tensor, Tensor, Tensor], Tensor]  # f of equation 7: (e_s, r_q, e_T) [W] → probability [W]
LSTMState = tuple[Tensor, Tensor]  # (h, c) of all layers, [layers, W, D] each


@dataclass(frozen=True)
class PlainSettings:
    """Settings, by default those of the paper's UMLS model; `bucket_interval` None pads actions to the whole batch.

    Decoding four triples at once is faster than 16 or 64: smaller tensors stay nearer to the processor.
    """

    hops: int = 2  # T
    rollouts: int = 20  # K
    dimension: int = 200  # D
    layers: int = 3
    embedding_dropout: float = 0.1
    feed_forward_dropout: float = 0.0
    action_dropout: float = 0.95  # α
    entropy_weight: float = 0.05  # β
    learning_rate: float = 0.001
    max_gradient_norm: float | None = 5.0
    bucket_interval: int | None = None
    decode_batch_size: int = 4


RELEASED = {  # settings of the paper's released models
    "umls": PlainSettings(),
    "fb15k-237": PlainSettings(
        hops=3, embedding_dropout=0.3, feed_forward_dropout=0.1, action_dropout=0.5, entropy_weight=0.02, max_gradient_norm=None
    ),
}


@dataclass(frozen=True, eq=False)
class Queries:
    """Q facts (e_s, r_q, e_o) to be found, int64 [Q] each, and the other known answers of (e_s, r_q, ?), bool [Q, E]."""

    e_s: Tensor
    r_q: Tensor
    e_o: Tensor
    is_other_answer: Tensor


@dataclass(frozen=True, eq=False)
class States:
    """The states s_t of W walks, [W] each: the row of the query, the relation r_t taken last, the entity e_t it led to.

    `lstm` is the state of the LSTM before it has read (r_t, e_t); None at the start.
    """

    rows: Tensor
    r_t: Tensor
    e_t: Tensor
    lstm: LSTMState | None = None


@dataclass(frozen=True, eq=False)
class ActionSpace:
    """The actions A_t = {(r', e')} of W walks, which of them are legal, and log π(a_t | s_t), [W, A] each."""

    relations: Tensor
    tails: Tensor
    is_legal: Tensor
    log_pi: Tensor


class PlainWalker(nn.Module):
    """The policy with its training and decoding. `known_answers` are those of the training facts; without `f`, R is R_b."""

    degrees: Tensor
    action_relations: Tensor
    action_tails: Tensor

    def __init__(
        self, graph: Graph, known_answers: KnownAnswers, settings: PlainSettings | None = None, f: FactProbability | None = None
    ) -> None:
        super().__init__()
        self.settings = settings = settings or PlainSettings()
        self.relation_ids, self.num_entities = graph.relation_ids, graph.num_entities
        self.known_answers, self.f = known_answers, f
        self._pad_actions(graph)

        width = settings.dimension
        self.entity_embeddings = nn.Embedding(graph.num_entities, width)
        self.relation_embeddings = nn.Embedding(graph.relation_ids.num_all, width)
        self.lstm = nn.LSTM(2 * width, width, settings.layers, batch_first=True)
        self.w1 = nn.Linear(3 * width, 2 * width)
        self.w2 = nn.Linear(2 * width, 2 * width)
        self.embedding_dropout = nn.Dropout(settings.embedding_dropout)
        self.feed_forward_dropout = nn.Dropout(settings.feed_forward_dropout)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_normal_(parameter)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=settings.learning_rate)

    # Training (§2.4): sample walks, reward their ends, make rewarded walks likelier.

    def train_minibatch(self, heads: Ids, relations: Ids, tails: Ids) -> float:
        """One step of REINFORCE on facts, K walks for each: up the gradient of J (equations 5 and 6); the loss."""
        self.train()
        queries = self.queries(heads, relations, tails)
        states = self.start(queries, self.settings.rollouts)
        log_pi = torch.zeros(len(states.rows))  # Σ_t log π(a_t | s_t)
        entropy = torch.zeros(len(states.rows))  # the mean of H(π(· | s_t)) over t
        for t in range(self.settings.hops):
            actions, lstm = self.policy(queries, states, is_last=t == self.settings.hops - 1)
            a_t = self.sample(actions)
            log_pi = log_pi + actions.log_pi.gather(1, a_t).squeeze(1)
            entropy = entropy - (actions.log_pi.exp() * actions.log_pi).sum(dim=1) / self.settings.hops
            r_next, e_next = actions.relations.gather(1, a_t).squeeze(1), actions.tails.gather(1, a_t).squeeze(1)
            states = States(states.rows, r_next, e_next, lstm)
        loss = -(self.reward(queries, states.rows, states.e_t) * log_pi + self.settings.entropy_weight * entropy).mean()

        self.optimizer.zero_grad()
        loss.backward()
        if self.settings.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()
        return loss.item()

    # Decoding (§4.3): the likeliest walks by beam search; an entity has the score of its best walk.

    def decode(self, heads: Ids, relations: Ids, tails: Ids, beam: int) -> tuple[Tensor, Tensor]:
        """The best entities of every triple's query and their log-probabilities, [Q, beam] each, best first.

        Answers known from training, other than the triple's tail, are blocked on the last hop. Entity −1 with score −∞ fills rows
        that reach fewer entities.
        """
        self.eval()
        starts = range(0, len(heads), self.settings.decode_batch_size)
        batches = [slice(start, start + self.settings.decode_batch_size) for start in starts]
        with torch.no_grad():
            decoded = [self.beam_search(self.queries(heads[rows], relations[rows], tails[rows]), beam) for rows in batches]
        return torch.cat([entities for entities, _ in decoded]), torch.cat([scores for _, scores in decoded])

    def beam_search(self, queries: Queries, beam: int) -> tuple[Tensor, Tensor]:
        """The same of some queries at once."""
        num_queries = len(queries.e_s)
        states, scores = self.start(queries), torch.zeros(num_queries)
        for t in range(self.settings.hops):
            is_last = t == self.settings.hops - 1
            actions, lstm = self.policy(queries, states, is_last=is_last)
            extended = scores[:, None] + actions.log_pi.masked_fill(~actions.is_legal, -torch.inf)  # [W, A]
            if is_last:
                break
            # Of all actions of all walks of a query, its `beam` best are the walks that go on.
            of_queries = extended.view(num_queries, -1)
            scores, places = of_queries.topk(min(beam, of_queries.shape[1]))
            slots, num_actions = len(states.rows) // num_queries, extended.shape[1]
            walks = (torch.arange(num_queries)[:, None] * slots + places // num_actions).flatten()
            a_t = (places % num_actions).flatten()
            scores, lstm = scores.flatten(), (lstm[0][:, walks], lstm[1][:, walks])
            states = States(states.rows[walks], actions.relations[walks, a_t], actions.tails[walks, a_t], lstm)
        best = torch.full((num_queries, self.num_entities), -torch.inf)
        best.scatter_reduce_(1, actions.tails.view(num_queries, -1), extended.view(num_queries, -1), "amax")
        scores, entities = best.topk(min(beam, self.num_entities))
        missing = (0, beam - scores.shape[1])
        scores, entities = functional.pad(scores, missing, value=-torch.inf), functional.pad(entities, missing)
        return entities.masked_fill(scores == -torch.inf, -1), scores

    # States, actions and rewards (§2.2).

    def queries(self, heads: Ids, relations: Ids, tails: Ids) -> Queries:
        """Facts as queries, with their other known answers looked up."""
        offsets, answers = self.known_answers.answers(heads, relations)
        is_other_answer = torch.zeros(len(heads), self.num_entities, dtype=torch.bool)
        for row, tail in enumerate(tails):
            is_other_answer[row, answers[offsets[row] : offsets[row + 1]]] = True
            is_other_answer[row, tail] = False
        e_s, r_q, e_o = (torch.from_numpy(column.astype(np.int64)) for column in (heads, relations, tails))
        return Queries(e_s, r_q, e_o, is_other_answer)

    def start(self, queries: Queries, walks_per_query: int = 1) -> States:
        """s_0 of every walk: at e_s, after the start relation r_0; the walks of a query are adjacent."""
        rows = torch.arange(len(queries.e_s)).repeat_interleave(walks_per_query)
        return States(rows, torch.full_like(rows, self.relation_ids.start_id), queries.e_s[rows])

    def reward(self, queries: Queries, rows: Tensor, e_T: Tensor) -> Tensor:  # noqa: N803
        """R(s_T) of walks of the queries `rows` that end at e_T, with f if there is one (equations 1 and 7) [W].

        Other known answers are blocked on the last hop, so (e_s, r_q, e_T) ∈ G where e_T is the answer asked for.
        """
        r_b = (e_T == queries.e_o[rows]).float()
        if self.f is None:
            return r_b
        with torch.no_grad():
            return r_b + (1 - r_b) * self.f(queries.e_s[rows], queries.r_q[rows], e_T)

    def _is_legal(self, queries: Queries, states: States, relations: Tensor, tails: Tensor, *, is_last: bool) -> Tensor:
        """Which actions exist and may be taken, bool [W, A]; a walk that may take none stays.

        The fact that is asked for and its inverse may not; on the last hop, neither may edges to other known answers (footnote).
        """
        e_s, r_q, e_o = queries.e_s[states.rows, None], queries.r_q[states.rows, None], queries.e_o[states.rows, None]
        e_t, degrees = states.e_t[:, None], self.degrees[states.e_t]
        is_query = (e_t == e_s) & (relations == r_q) & (tails == e_o)
        is_inverse = (e_t == e_o) & (relations == self.relation_ids.inverse(r_q)) & (tails == e_s)
        is_legal = (torch.arange(relations.shape[1]) < degrees[:, None]) & ~is_query & ~is_inverse
        if is_last:
            is_legal &= ~queries.is_other_answer[states.rows[:, None], tails]
        is_stuck = ~is_legal.any(dim=1)
        is_legal[is_stuck, degrees[is_stuck] - 1] = True  # the stay edge is the last one
        return is_legal

    # The policy network (§2.3).

    def policy(self, queries: Queries, states: States, *, is_last: bool) -> tuple[ActionSpace, LSTMState]:
        """A_t with π(a_t | s_t) of every walk (equation 4), and the LSTM's state, in which h_t is (equations 2 and 3)."""
        e_t = self._embed(self.entity_embeddings, states.e_t)
        r_t = self._embed(self.relation_embeddings, states.r_t)
        h_t, lstm = self.lstm(torch.cat([r_t, e_t], dim=1)[:, None], states.lstm)  # without a state, from 0
        r_q = self._embed(self.relation_embeddings, queries.r_q[states.rows])
        hidden = self.feed_forward_dropout(self.w1(torch.cat([e_t, h_t[:, 0], r_q], dim=1)).relu())
        action_query = self.feed_forward_dropout(self.w2(hidden))

        width = int(self.degrees[states.e_t].max())
        relations, tails = self.action_relations[states.e_t, :width], self.action_tails[states.e_t, :width]
        is_legal = self._is_legal(queries, states, relations, tails, is_last=is_last)
        if self.settings.bucket_interval is None:
            logits = self._logits(action_query, relations, tails)
        else:
            logits = self._bucketed_logits(action_query, self.degrees[states.e_t], relations, tails)
        log_pi = logits.masked_fill(~is_legal, ILLEGAL_LOGIT).log_softmax(dim=1)
        return ActionSpace(relations, tails, is_legal, log_pi), lstm

    def _logits(self, action_query: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """A_t × action_query [W, A]: the rows of A_t are the actions [r'; e'], action_query is W2 ReLU(W1 [e_t; h_t; r_q])."""
        actions = [self._embed(self.relation_embeddings, relations), self._embed(self.entity_embeddings, tails)]
        return torch.bmm(torch.cat(actions, dim=2), action_query[:, :, None]).squeeze(2)

    def _bucketed_logits(self, action_query: Tensor, degrees: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The same for one bucket of out-degrees after the other; 0 beyond the largest of the bucket."""
        buckets = (degrees - 1) // (self.settings.bucket_interval or 1)
        members = [torch.nonzero(buckets == bucket).squeeze(1) for bucket in buckets.unique()]
        parts = []
        for walks in members:
            most = int(degrees[walks].max())
            logits = self._logits(action_query[walks], relations[walks, :most], tails[walks, :most])
            parts.append(functional.pad(logits, (0, relations.shape[1] - most)))
        return torch.cat(parts)[torch.cat(members).argsort()]

    def _embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        embeddings: Tensor = self.embedding_dropout(table(ids))
        return embeddings

    # Action dropout (§2.6).

    def sample(self, actions: ActionSpace) -> Tensor:
        """A legal action of each walk, a_t ~ π~ ∝ π(a_t | s_t) · m + ε with m_i ~ Bernoulli(1 − α) (equations 8 and 9) [W, 1].

        Only the sampling is changed: the gradient of equation 6 is that of log π.
        """
        pi = actions.log_pi.detach().exp()
        m = torch.rand_like(pi) >= self.settings.action_dropout
        return torch.multinomial((pi * m + EPSILON) * actions.is_legal, 1)

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


def main(arguments: list[str] | None = None) -> None:
    """Time minibatches of random facts of a data set with the paper's released settings, and decoding of test triples."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("data", choices=tuple(RELEASED))
    parser.add_argument("--bucket-interval", type=int)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--queries", type=int, default=128, help="in a minibatch")
    parser.add_argument("--decode", type=int, default=0, metavar="TRIPLES")
    given = parser.parse_args(arguments)
    dataset = load_dataset(given.data)
    graph = graph_of(dataset, settings_for(given.data))
    settings = replace(RELEASED[given.data], bucket_interval=given.bucket_interval)
    known_answers = KnownAnswers([dataset.facts], graph.num_entities, graph.num_relations)
    torch.manual_seed(0)
    walker, random = PlainWalker(graph, known_answers, settings), np.random.default_rng(0)
    works: list[tuple[str, Triples, int, Callable[..., Any]]]
    works = [("minibatch", dataset.facts, given.queries, walker.train_minibatch)] * given.minibatches
    works += [("decoding", dataset.test, given.decode, partial(walker.decode, beam=128))] if given.decode else []
    for name, triples, size, work in works:
        chosen = triples[random.choice(len(triples), size)]
        start, cpu_start = perf_counter(), process_time()
        work(chosen.heads, chosen.relations, chosen.tails)
        seconds, cpu_seconds = perf_counter() - start, process_time() - cpu_start
        print(f"{name} of {size}: {seconds:.2f} s, {cpu_seconds:.2f} s CPU, peak {peak_memory_bytes() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
