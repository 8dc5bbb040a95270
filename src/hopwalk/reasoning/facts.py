"""Facts that are added to a trained run when it is asked: read from a file, and turned into ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.findings import Finding
from hopwalk.data.reading import read_path
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.reasoning.names import Names
from hopwalk.utils.text import shorten

LabelledFact = tuple[str, str, str]
ONLY_KNOWN_RELATIONS = "New facts can only have relations that the run was trained with."
ONLY_KNOWN_NAMES = "This run knows only the names it was trained with; a propagation model takes new entities."


@dataclass(frozen=True)
class AddedFacts:
    """A data set with more facts, these facts as its ids, and the labels of the entities that are new."""

    dataset: Dataset
    facts: Triples
    new_entities: tuple[str, ...]


def read_facts(path: Path) -> tuple[list[LabelledFact], list[Finding]]:
    """The facts of a file or folder of triples, of all its splits, and the reader's findings."""
    labelled = read_path(path, ReadSettings())
    return [row for frame in labelled.splits.values() for row in _rows(frame)], labelled.findings


def _rows(frame: pl.DataFrame) -> Iterable[LabelledFact]:
    return frame.select("head", "relation", "tail").iter_rows()


def add_facts(
    names: Names, facts: Iterable[LabelledFact], source: Path | None = None, *, takes_new_entities: bool = False
) -> AddedFacts:
    """The data set of `names` with more facts; facts of inverse relations are turned round. `source` is the file errors name.

    With `takes_new_entities`, names that match no entity become entities.
    """
    entity = cache(names.entities.find if takes_new_entities else names.entity_id)
    relation = cache(names.relation_id)
    ids, found, new = names.dataset.relation_ids, [], dict[str, None]()
    for number, fact in enumerate(facts, start=1):
        if len(fact) != 3 or not all(isinstance(part, str) for part in fact):
            raise DataError(f"fact {number} is not a (head, relation, tail) of texts: {shorten(repr(fact))}", path=source)
        try:
            link, ends = relation(fact[1]), [entity(end) for end in (fact[0], fact[2])]
        except UnknownNameError as error:
            limits = ONLY_KNOWN_RELATIONS if takes_new_entities else ONLY_KNOWN_NAMES
            remedy = " ".join(part for part in (error.remedy, limits) if part)
            problem = f"fact {number} ({shorten(' '.join(fact))}): {error.problem}"
            raise UnknownNameError(problem, path=source, remedy=remedy) from None
        new |= {text: None for text, id_ in zip((fact[0], fact[2]), ends, strict=True) if id_ is None}
        found.append((fact, link, ends))
    dataset = names.dataset.with_entities(new) if new else names.dataset
    new_ids = names.dataset.entities.with_labels(new)[1]
    rows = []
    for fact, link, ends in found:
        head, tail = (
            dataset.entities.id(text) if id_ is None else int(new_ids[id_])
            for text, id_ in zip((fact[0], fact[2]), ends, strict=True)
        )
        rows.append((tail, ids.inverse(link), head) if ids.is_inverse(link) else (head, link, tail))
    added = Triples.of(rows)
    return AddedFacts(dataset.with_facts(added), added, tuple(new))
