"""The `Dataset`: facts as ids, sorted, without duplicates, and with no held-out fact in training."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hopwalk.data.findings import Finding
from hopwalk.data.inverses import fold_inverse_relations, named_inverses
from hopwalk.data.reading import LabelledFacts
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Keys, KeySet, TriplePacking, Triples, sorted_unique
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import DataError
from hopwalk.utils.arrays import ArrayFile, save_arrays
from hopwalk.utils.text import counted

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A knowledge graph to learn from, and queries to answer over it.

    `facts` is the graph to walk and to learn from. `train`, `valid` and `test` are queries with their answers; in most data sets
    `train` and `facts` are the same, in NELL-995 the queries cover 12 of the 200 relations. `held_back` are true facts that are
    neither in the graph nor queries; only NELL-995 has them.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    facts: Triples
    train: Triples
    valid: Triples
    test: Triples
    held_back: Triples
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        for triples in (self.facts, *self.splits.values(), self.held_back):
            for column in (triples.heads, triples.relations, triples.tails):
                column.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {counted(len(self.entities), 'entity')}, {counted(len(self.relations), 'relation')}, "
            f"{counted(len(self.facts), 'fact')}; {len(self.train):,} / {len(self.valid):,} / {len(self.test):,} queries)"
        )

    @property
    def splits(self) -> dict[str, Triples]:
        """The queries by the name of their split."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def has_own_facts(self) -> bool:
        """Whether the graph to walk is more than the training queries (as in NELL-995)."""
        return self.facts is not self.train

    @property
    def relation_ids(self) -> RelationIds:
        """The ids of relations, inverses, stay and start."""
        return RelationIds(len(self.relations))

    @property
    def packing(self) -> TriplePacking:
        """The packing of this data set's triples into integer keys."""
        return TriplePacking(len(self.entities), len(self.relations))

    def with_valid_in_training(self) -> Dataset:
        """The same data with the dev facts in the graph and among the training queries, and no dev queries.

        For a final test model, as the paper has on NELL-995.
        """
        facts, train = (self.packing.merged([part, self.valid]) for part in (self.facts, self.train))
        return replace(self, facts=facts, train=train, valid=self.valid[:0])

    def with_facts(self, facts: Triples) -> Dataset:
        """The same data with more facts in the graph."""
        return replace(self, facts=self.packing.merged([self.facts, facts]))

    def with_entities(self, labels: Iterable[str]) -> Dataset:
        """The same data with more entities, which have no facts yet. Ids change, since they follow the order of labels."""
        entities, new_ids = self.entities.with_labels(labels)

        def moved(triples: Triples) -> Triples:
            return Triples(new_ids[triples.heads], triples.relations, new_ids[triples.tails])

        train = moved(self.train)
        return replace(
            self,
            entities=entities,
            facts=moved(self.facts) if self.has_own_facts else train,
            train=train,
            valid=moved(self.valid),
            test=moved(self.test),
            held_back=moved(self.held_back),
        )

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of facts of every entity, as head or tail [E]."""
        return np.bincount(np.concatenate([self.facts.heads, self.facts.tails]), minlength=len(self.entities))

    @cached_property
    def loop_relations(self) -> frozenset[int]:
        """The relations with a fact whose head is its tail."""
        return frozenset(np.unique(self.facts.relations[self.facts.heads == self.facts.tails]).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the labels and all facts: equal for equal data, whatever file it came from. Readable names are not hashed."""
        digest = hashlib.sha256(self.entities.labels_hash() + self.relations.labels_hash())
        for triples in (self.facts, *self.splits.values(), self.held_back):
            digest.update(len(triples).to_bytes(8, "little"))  # so that a fact cannot move to the next part unnoticed
            digest.update(self.packing.pack_all(triples).data)
        return digest.hexdigest()

    def all_facts(self) -> Triples:
        """Every fact of every part, once."""
        return self.packing.merged([self.facts, *self.splits.values(), self.held_back])

    def labels_of(self, triples: Triples) -> list[tuple[str, str, str]]:
        """The facts as triples of labels."""
        return [
            (self.entities[head], self.relations[relation], self.entities[tail])
            for head, relation, tail in triples.array().tolist()
        ]

    def texts_of(self, triples: Triples) -> list[str]:
        """The facts as text, with readable names where there are any."""
        entity, relation = self.entities.name, self.relations.name
        return [f"{entity(head)} {relation(link)} {entity(tail)}" for head, link, tail in triples.array().tolist()]

    def save(self, path: str | Path) -> int:
        """Save the data set to one file; returns the checksum."""
        arrays = self.entities.to_arrays("entities") | self.relations.to_arrays("relations")
        parts = self.splits | {"held_back": self.held_back} | ({"facts": self.facts} if self.has_own_facts else {})
        for name, triples in parts.items():
            arrays |= {f"{name}.{column}": getattr(triples, column) for column in ("heads", "relations", "tails")}
        findings = [finding.to_dict() for finding in self.findings]
        return save_arrays(Path(path), arrays, {"kind": "dataset", "name": self.name, "findings": findings})

    @classmethod
    def load(cls, path: str | Path) -> Dataset:
        """Load a file that `save` wrote, memory-mapped."""
        return cls.from_file(ArrayFile(Path(path), kind="dataset"))

    @classmethod
    def from_file(cls, file: ArrayFile) -> Dataset:
        """Load an open file that `save` wrote."""
        entities, relations = (Vocabulary.from_file(file, name) for name in ("entities", "relations"))

        def triples(name: str) -> Triples:
            columns = [file.take(f"{name}.{column}", np.int32) for column in ("heads", "relations", "tails")]
            file.require(len({len(column) for column in columns}) == 1, f"the columns of {name} differ in length")
            for column, known in zip(columns, (entities, relations, entities), strict=True):
                file.require_ids(name, column, len(known))
            return Triples(*columns)

        train = triples("train")
        facts = triples("facts") if "facts.heads" in file else train
        try:
            findings = tuple(Finding.from_dict(fields) for fields in file.metadata["findings"])
        except (TypeError, KeyError, ValueError):
            file.require(False, "its findings cannot be read")
        parts = facts, train, triples("valid"), triples("test"), triples("held_back")
        return cls(str(file.metadata.get("name")), entities, relations, *parts, findings)


def assemble(name: str, labelled: LabelledFacts, *, fold_inverses: bool = True) -> Dataset:
    """A `Dataset` from labelled facts; its findings list what was changed and what to know about the data."""
    findings, frames = list(labelled.findings), labelled.splits
    if fold_inverses:
        frames, folded = fold_inverse_relations(frames)
        findings += folded
    names = _name_table(labelled.names)
    entities, relations = _distinct(frames, "head", "tail"), _distinct(frames, "relation")
    packing = TriplePacking(len(entities), len(relations))
    keys: dict[str, Keys] = {}
    for split, frame in frames.items():
        keys[split] = sorted_unique(_pack(frame, entities, relations, packing))
        findings += _duplicates(split, len(frame) - len(keys[split]))
    findings += _separate(keys)
    findings += _remove_inverses(keys, packing, relations)
    findings += _unused_names(names, entities, relations)
    if not len(keys["train"]) or not len(keys.get("facts", keys["train"])):
        raise DataError(
            f"no facts are left to train on in {name}: all of them are held out",
            remedy="Give training facts that are in neither valid nor test.",
        )
    train = packing.unpack(keys["train"])
    empty = np.empty(0, dtype=np.int64)
    return Dataset(
        name,
        Vocabulary.from_sorted(entities, names),
        Vocabulary.from_sorted(relations, names),
        facts=packing.unpack(keys["facts"]) if "facts" in keys else train,
        train=train,
        valid=packing.unpack(keys.get("valid", empty)),
        test=packing.unpack(keys.get("test", empty)),
        held_back=packing.unpack(keys.get("held_back", empty)),
        findings=tuple(findings),
    )


def _name_table(names: Mapping[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"label": list(names), "name": list(names.values())}, schema={"label": pl.String, "name": pl.String})


def _distinct(frames: Mapping[str, pl.DataFrame], *columns: str) -> pl.Series:
    """The distinct labels of the columns, sorted by their bytes."""
    parts = [frame.lazy().select(pl.col(column).alias("label")) for frame in frames.values() for column in columns]
    return pl.concat(parts).unique().collect(engine="streaming").get_column("label").sort()


def _pack(frame: pl.DataFrame, entities: pl.Series, relations: pl.Series, packing: TriplePacking) -> Keys:
    """The packed ids of labelled facts, in no particular order.

    Labels are looked up by 64-bit hashes. That is faster than by text, and exact: every label of the facts is in a vocabulary,
    and the hashes of each vocabulary are distinct.
    """
    seed = next(seed for seed in itertools.count() if not any(_hashes_collide(labels, seed) for labels in (entities, relations)))

    def table(labels: pl.Series, role: str) -> pl.LazyFrame:
        return labels.hash(seed).alias(role).to_frame().with_row_index(f"{role}_id").lazy()

    ids = frame.lazy().select(pl.col("head", "relation", "tail").hash(seed))
    for role, labels in (("head", entities), ("relation", relations), ("tail", entities)):
        ids = ids.join(table(labels, role), on=role, how="inner")
    columns = [f"{role}_id" for role in ("head", "relation", "tail")]
    encoded = ids.select(pl.col(column).cast(pl.Int32) for column in columns).collect(engine="streaming")
    return packing.pack(*(encoded.get_column(column).to_numpy() for column in columns))


def _hashes_collide(labels: pl.Series, seed: int) -> bool:
    hashes = np.sort(labels.hash(seed).to_numpy())
    return bool((hashes[1:] == hashes[:-1]).any())


def _duplicates(split: str, count: int) -> list[Finding]:
    if not count:
        return []
    message = f"duplicate facts in {split} (one of each is kept): {count:,}"
    return [Finding("warning", "duplicate-facts", message, count)]


def _separate(keys: dict[str, Keys]) -> list[Finding]:
    """Remove held-out facts from training and the graph, and test facts from valid."""
    findings = []
    searched = {"test": ("valid", "train", "facts"), "valid": ("train", "facts"), "held_back": ("train", "facts")}
    for kept, others in searched.items():
        if not len(keys.get(kept, ())):
            continue
        held_out = KeySet(keys[kept])
        for other in others:
            is_shared = held_out.contains(keys.get(other, np.empty(0, dtype=np.int64)))
            count = int(is_shared.sum())
            if count:
                keys[other] = keys[other][~is_shared]
                message = f"facts of {kept} that are also in {other} (removed from {other}): {count:,}"
                findings.append(Finding("warning", "split-overlap", message, count))
    return findings


def _remove_inverses(keys: dict[str, Keys], packing: TriplePacking, relations: pl.Series) -> list[Finding]:
    """Remove `(t, r_inv, h)` from training where `(h, r, t)` is held out, and vice versa, folded or not."""
    ids = {label: id_ for id_, label in enumerate(relations)}
    other = np.full(len(relations), -1, dtype=np.int32)
    for inverse, base in named_inverses({*ids}).items():
        other[ids[inverse]], other[ids[base]] = ids[base], ids[inverse]
    findings = []
    for held_out in ("valid", "test", "held_back"):
        queries = packing.unpack(keys.get(held_out, np.empty(0, dtype=np.int64)))
        queries = queries[other[queries.relations] >= 0]
        if not len(queries):
            continue
        inverted = KeySet(packing.pack(queries.tails, other[queries.relations], queries.heads))
        for part in ("train", "facts"):
            is_inverted = inverted.contains(keys.get(part, np.empty(0, dtype=np.int64)))
            count = int(is_inverted.sum())
            if count:
                keys[part] = keys[part][~is_inverted]
                message = f"facts of {held_out} whose inverse is in {part} (removed from {part}): {count:,}"
                findings.append(Finding("warning", "split-overlap", message, count))
    return findings


def _unused_names(names: pl.DataFrame, entities: pl.Series, relations: pl.Series) -> list[Finding]:
    if names.is_empty():
        return []
    used = pl.col("label").is_in(entities.implode()) | pl.col("label").is_in(relations.implode())
    unused = names.filter(~used).get_column("label")
    if not len(unused):
        return []
    message = f"readable names for labels that do not occur: {len(unused):,} of {len(names):,}"
    return [Finding("note", "unused-names", message, len(unused), tuple(unused[:3]))]
