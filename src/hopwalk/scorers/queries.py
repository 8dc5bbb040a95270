"""Training queries of a scorer: every distinct (head, relation, ?) of the facts and their inverses, with all its answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import TriplePacking, sorted_unique
from hopwalk.utils.products import rounded_up


@dataclass(frozen=True, eq=False)
class Batch:
    """Q queries and their answers, flat: answer i is `answers[i]` and belongs to query `queries[i]`."""

    heads: Tensor
    relations: Tensor
    queries: Tensor
    answers: Tensor


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """All queries, grouped by head. The answers of query q are `answers[offsets[q]:offsets[q + 1]]`."""

    heads: Tensor
    relations: Tensor
    offsets: Tensor
    answers: Tensor

    def __len__(self) -> int:
        return len(self.heads)

    @staticmethod
    def of(dataset: Dataset) -> TrainingQueries:
        """The queries of the data set's facts and of their inverses."""
        facts, ids = dataset.facts, dataset.relation_ids
        packing = TriplePacking(len(dataset.entities), ids.num_directed)
        inverse = packing.pack(facts.tails, ids.inverse(facts.relations), facts.heads)
        triples = packing.unpack(sorted_unique(np.concatenate([packing.pack_all(facts), inverse])))
        pairs = triples.heads.astype(np.int64) * ids.num_directed + triples.relations
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        columns = (triples.heads[starts], triples.relations[starts], np.append(starts, len(pairs)), triples.tails)
        return TrainingQueries(*(torch.from_numpy(column.astype(np.int64)) for column in columns))

    def num_batches(self, size: int) -> int:
        """The number of batches of at most `size` queries."""
        return -(-len(self) // size)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """All queries once, in random order, in batches of nearly equal size, at most `size`."""
        for chosen in torch.randperm(len(self), generator=generator).tensor_split(self.num_batches(size)):
            starts = self.offsets[chosen]
            counts = self.offsets[chosen + 1] - starts
            queries = torch.repeat_interleave(counts)
            firsts = torch.cumsum(counts, 0) - counts
            rows = torch.arange(len(queries)) + (starts - firsts)[queries]
            yield Batch(self.heads[chosen], self.relations[chosen], queries, self.answers[rows])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidate tails of a batch; `entities` is None if all entities are.

    Each candidate stands for `weights` entities. `heads` and `answers` are rows of the table of embeddings that the batch uses:
    of all entities, or of the candidates followed by the other heads.
    """

    entities: Tensor | None
    weights: Tensor | None
    heads: Tensor
    answers: Tensor

    @staticmethod
    def all(batch: Batch) -> Candidates:
        """All entities as candidates."""
        return Candidates(None, None, batch.heads, batch.answers)


def sample_candidates(batch: Batch, num_sampled: int, num_entities: int, generator: torch.Generator) -> tuple[Tensor, Candidates]:
    """All answers of the batch, and at least `num_sampled` other entities, sampled without replacement.

    The first result are the entities whose embeddings the batch uses. With the weights, sums over the candidates are unbiased
    estimates of sums over all entities.
    """
    answers = batch.answers.unique()
    is_candidate = torch.zeros(num_entities, dtype=torch.bool)
    is_candidate[answers] = True
    shuffled = torch.randperm(num_entities, generator=generator)
    num_others = rounded_up(len(answers) + num_sampled) - len(answers)
    others = shuffled[~is_candidate[shuffled]][:num_others]
    is_candidate[others] = True
    weights = torch.ones(len(answers) + len(others))
    weights[len(answers) :] = (num_entities - len(answers)) / max(len(others), 1)
    heads = batch.heads.unique()
    rows = torch.cat([answers, others, heads[~is_candidate[heads]]])
    place = torch.empty(num_entities, dtype=torch.int64)
    place[rows] = torch.arange(len(rows))
    return rows, Candidates(rows[: len(weights)], weights, place[batch.heads], place[batch.answers])
