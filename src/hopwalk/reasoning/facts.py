"""Facts that are added to a trained run when it is asked: read from a file, and turned into ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data.findings import Finding
from hopwalk.data.reading import read_path
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.reasoning.names import Names
from hopwalk.utils.text import shorten

LabelledFact = tuple[str, str, str]


def read_facts(path: Path) -> tuple[list[LabelledFact], list[Finding]]:
    """The facts of a file or folder of triples, of all its splits, and the reader's findings."""
    labelled = read_path(path, ReadSettings())
    return [row for frame in labelled.splits.values() for row in _rows(frame)], labelled.findings


def _rows(frame: pl.DataFrame) -> Iterable[LabelledFact]:
    return frame.select("head", "relation", "tail").iter_rows()


def facts_to_ids(names: Names, facts: Iterable[LabelledFact], source: Path | None) -> Triples:
    """The facts as ids; facts of inverse relations are turned round. `source` is the file that errors name."""
    entity: Callable[[str], int] = cache(names.entity_id)
    relation: Callable[[str], int] = cache(names.relation_id)
    ids, rows = names.dataset.relation_ids, []
    for number, fact in enumerate(facts, start=1):
        if len(fact) != 3 or not all(isinstance(part, str) for part in fact):
            raise DataError(f"fact {number} is not a (head, relation, tail) of texts: {shorten(repr(fact))}", path=source)
        try:
            head, link, tail = entity(fact[0]), relation(fact[1]), entity(fact[2])
        except UnknownNameError as error:
            raise UnknownNameError(
                f"fact {number} ({shorten(' '.join(fact))}): {error.problem}",
                path=source,
                remedy=error.remedy or "New facts can only be about entities and relations that the run was trained with.",
            ) from None
        rows.append((tail, ids.inverse(link), head) if ids.is_inverse(link) else (head, link, tail))
    return Triples.of(rows)
