"""Facts that are added when a walker is asked: to the graph it walks, to what is known, and to what rules are counted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data.findings import Finding, shorten
from hopwalk.data.graph import with_facts as graph_with_facts
from hopwalk.data.reading import read_path
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.reasoning.asking import directed_relation_id, entity_id
from hopwalk.walker.environment import Walker
from hopwalk.walker.runs import TrainedWalker

LabelledFact = tuple[str, str, str]
Trained = TypeVar("Trained", bound=TrainedWalker)


def read_facts(path: Path) -> tuple[list[LabelledFact], list[Finding]]:
    """The facts of a file or folder of triples, whatever split they are in, and what is worth knowing about it."""
    labelled = read_path(path, ReadSettings())
    return [row for frame in labelled.splits.values() for row in _rows(frame)], labelled.findings


def _rows(frame: pl.DataFrame) -> Iterable[LabelledFact]:
    return frame.select("head", "relation", "tail").iter_rows()


def extended(trained: Trained, facts: Iterable[LabelledFact], *, source: Path | None = None) -> Trained:
    """The walker with more facts about entities and relations that it knows; the one given stays as it is.

    What it has learnt stays the same: only what it walks on, and what counts as known, is more. `source` is for errors.
    """
    added = _in_ids(trained, facts, source)
    dataset = replace(trained.dataset, facts=trained.dataset.packing.merged([trained.dataset.facts, added]))
    before = trained.walker
    walker = Walker(graph_with_facts(before.graph, added), before.policy, before.known.with_facts(added))
    return replace(trained, dataset=dataset, walker=walker)


def _in_ids(trained: TrainedWalker, facts: Iterable[LabelledFact], source: Path | None) -> Triples:
    entity: Callable[[str], int] = cache(lambda text: entity_id(trained, text))
    relation: Callable[[str], int] = cache(lambda text: directed_relation_id(trained, text))
    ids, rows = trained.dataset.relation_ids, []
    for number, fact in enumerate(facts, start=1):
        if len(fact) != 3 or not all(isinstance(part, str) for part in fact):
            raise DataError(f"fact {number} is not (head, relation, tail) in words: {shorten(repr(fact))}", path=source)
        try:
            head, link, tail = entity(fact[0]), relation(fact[1]), entity(fact[2])
        except UnknownNameError as error:
            told = shorten(" ".join(fact))
            raise UnknownNameError(
                f"fact {number} ({told}): {error.problem}",
                path=source,
                remedy=error.remedy or "Only entities and relations that the run was trained with can be in new facts.",
            ) from None
        rows.append((tail, ids.inverse(link), head) if ids.is_inverse(link) else (head, link, tail))
    return Triples.of(rows)
