"""What a scorer is trained on: every distinct question (head, relation, ?) of the facts, both ways, with all its answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import TriplePacking, sorted_unique


@dataclass(frozen=True, eq=False)
class Batch:
    """Q questions, and their answers one after the other: answer i belongs to question `queries[i]` and is `answers[i]`."""

    heads: Tensor
    relations: Tensor
    queries: Tensor
    answers: Tensor


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """All questions; those of one head stand together. The answers of question q are `answers[offsets[q]:offsets[q + 1]]`."""

    heads: Tensor
    relations: Tensor
    offsets: Tensor
    answers: Tensor

    def __len__(self) -> int:
        return len(self.heads)

    @staticmethod
    def of(dataset: Dataset) -> TrainingQueries:
        """The questions of the data set's facts and, turned round, of their inverses."""
        facts, ids = dataset.facts, dataset.relation_ids
        packing = TriplePacking(len(dataset.entities), ids.num_directed)
        turned = packing.pack(facts.tails, ids.inverse(facts.relations), facts.heads)
        triples = packing.unpack(sorted_unique(np.concatenate([packing.pack_all(facts), turned])))
        pairs = triples.heads.astype(np.int64) * ids.num_directed + triples.relations
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        columns = (triples.heads[starts], triples.relations[starts], np.append(starts, len(pairs)), triples.tails)
        return TrainingQueries(*(torch.from_numpy(column.astype(np.int64)) for column in columns))

    def num_batches(self, size: int) -> int:
        """How many batches of at most `size` questions there are."""
        return -(-len(self) // size)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """All questions once, in a random order, in batches of at most `size` that are all about as large."""
        for chosen in torch.randperm(len(self), generator=generator).tensor_split(self.num_batches(size)):
            starts = self.offsets[chosen]
            counts = self.offsets[chosen + 1] - starts
            queries = torch.repeat_interleave(counts)
            firsts = torch.cumsum(counts, 0) - counts
            rows = torch.arange(len(queries)) + (starts - firsts)[queries]
            yield Batch(self.heads[chosen], self.relations[chosen], queries, self.answers[rows])


@dataclass(frozen=True, eq=False)
class Candidates:
    """Among which entities a batch looks for its answers: None for all of them.

    Each candidate stands for `weights` entities. The batch's `heads` and `answers` are rows of the table of embeddings that the
    batch works with: of all entities, or of the candidates followed by the other heads.
    """

    entities: Tensor | None
    weights: Tensor | None
    heads: Tensor
    answers: Tensor

    @staticmethod
    def all(batch: Batch) -> Candidates:
        """All entities are candidates."""
        return Candidates(None, None, batch.heads, batch.answers)


def sample_candidates(batch: Batch, num_sampled: int, num_entities: int, generator: torch.Generator) -> tuple[Tensor, Candidates]:
    """All answers of the batch, and `num_sampled` of the other entities, drawn without replacement.

    The first result are the entities whose embeddings the batch works with. With the weights, sums over the candidates estimate
    sums over all entities without bias.
    """
    answers = batch.answers.unique()
    is_candidate = torch.zeros(num_entities, dtype=torch.bool)
    is_candidate[answers] = True
    shuffled = torch.randperm(num_entities, generator=generator)
    others = shuffled[~is_candidate[shuffled]][:num_sampled]
    is_candidate[others] = True
    weights = torch.ones(len(answers) + len(others))
    weights[len(answers) :] = (num_entities - len(answers)) / max(len(others), 1)
    heads = batch.heads.unique()
    rows = torch.cat([answers, others, heads[~is_candidate[heads]]])
    place = torch.empty(num_entities, dtype=torch.int64)
    place[rows] = torch.arange(len(rows))
    return rows, Candidates(rows[: len(weights)], weights, place[batch.heads], place[batch.answers])
