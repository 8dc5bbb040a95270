"""Splitting of facts into train, valid and test such that training has every held-out entity and relation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hopwalk.config.settings import SplitSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.findings import Finding
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.utils.text import counted

LEAST_HELD_OUT, MOST_HELD_OUT, MOST_SHARE = 100, 5_000, 0.1  # facts; of those held out for dev while training


def hold_out(dataset: Dataset, share: float, *, seed: int = 0) -> Dataset:
    """The data set with a share of its facts as dev; the same if it is split already, or the share is 0.

    At least 100 facts are held out and at most 5,000, which is enough to stop training in time and to calibrate probabilities;
    but at most a tenth of the facts, and none without which training would miss an entity or a relation.
    """
    if not share or len(dataset.valid) or len(dataset.test) or dataset.has_own_facts:
        return dataset
    number = min(max(share * len(dataset.facts), LEAST_HELD_OUT), MOST_SHARE * len(dataset.facts), MOST_HELD_OUT)
    if number < 1:
        return dataset
    held_out = split_dataset(dataset, SplitSettings(valid=number / len(dataset.facts), test=0.0, seed=seed))
    return replace(held_out, findings=dataset.findings)


def split_dataset(dataset: Dataset, settings: SplitSettings | None = None) -> Dataset:
    """The data set with its facts split into train, valid and test; the same seed gives the same split.

    In a random order of the facts, the first fact of every entity and relation stays in training. Of the others, the first are
    held out. If there are fewer than `settings` requires, all of them are held out, and a finding reports it.
    """
    settings = settings or SplitSettings()
    if settings.valid + settings.test >= 1:
        problem = (
            f"split.valid = {settings.valid} and split.test = {settings.test} are not valid: no facts would be left to train on"
        )
        raise DataError(problem, remedy="Set shares whose sum is less than 1.")
    if len(dataset.valid) or len(dataset.test) or dataset.has_own_facts:
        raise DataError(f"{dataset.name} is already split", remedy="Give a single file of triples.")
    facts = dataset.facts
    order = np.random.default_rng(settings.seed).permutation(len(facts))
    is_needed = _first_mentions(facts[order], len(dataset.entities), len(dataset.relations))
    free = order[~is_needed]
    sizes = [max(round(share * len(facts)), 1) if share else 0 for share in (settings.valid, settings.test)]
    scale = min(1.0, len(free) / max(sum(sizes), 1))
    num_test = math.ceil(scale * sizes[1])
    num_valid = min(sizes[0], len(free) - num_test)
    part = np.zeros(len(facts), dtype=np.int8)
    part[free[:num_valid]] = 1
    part[free[num_valid : num_valid + num_test]] = 2
    train, valid, test = (facts[np.flatnonzero(part == number)] for number in range(3))
    findings = dataset.findings
    if scale < 1:
        message = (
            f"only {counted(len(free), 'fact')} of {sum(sizes):,} can be held out: "
            "training needs a fact of every entity and relation"
        )
        findings = (*findings, Finding("warning", "few-to-hold-out", message, len(free)))
    return replace(dataset, facts=train, train=train, valid=valid, test=test, findings=findings)


def _first_mentions(facts: Triples, num_entities: int, num_relations: int) -> NDArray[np.bool_]:
    """A mask of the facts with an entity or relation that no earlier fact has [N]."""
    is_first = np.zeros(len(facts), dtype=np.bool_)
    both_ends = np.stack([facts.heads, facts.tails], axis=1).reshape(-1)  # head and tail of a fact side by side
    for mentions, count, per_fact in ((both_ends, num_entities, 2), (facts.relations, num_relations, 1)):
        first = np.full(count, len(mentions), dtype=np.int64)
        np.minimum.at(first, mentions, np.arange(len(mentions)))
        is_first[first[first < len(mentions)] // per_fact] = True
    return is_first
