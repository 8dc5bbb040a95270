"""Completion of a whole graph: every query of the chosen relations is answered, and likely answers are written.

Rows are appended to a text table beside the target as they are found, with a record of the progress. So an interrupted run
resumes where it stopped, and memory does not grow with the graph. In the end the table is converted to the target's format.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.reasoning.asking import PathLabels, may_be_itself
from hopwalk.reasoning.models import AnswerModel
from hopwalk.utils.files import (
    append_text,
    atomic_path,
    locked,
    parse_json,
    read_text,
    remove,
    replace_synced,
    storing,
    write_text,
)

COLUMNS = ("head", "relation", "tail", "probability", "path")
FORMATS = (".tsv", ".parquet", ".nt")
SECONDS_BETWEEN_RECORDS = 2.0

OnProgress = Callable[[int, int, int], None]  # queries done, queries in all, facts found


@dataclass(frozen=True)
class Completed:
    """The number of queries and of proposed facts; the seconds and queries of this session, without those before resuming."""

    queries: int
    facts: int
    seconds: float
    queries_of_session: int


def complete_into(
    model: AnswerModel,
    target: Path,
    *,
    relation_ids: Sequence[int] = (),
    above: float = 0.5,
    resume: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Completed:
    """Answer `(head, relation, ?)` for every head of a fact of the relation, for all relations or some.

    New answers that a path reaches are written if their probability, which is calibrated on dev, is at least `above`.
    """
    dataset = model.dataset
    if not model.max_hops:
        raise HopwalkError("an embedding model has no paths", remedy="Complete with a propagation model or a walker.")
    if target.suffix not in FORMATS:
        raise SettingsError(f"the format of {target.name} is not known", remedy=f"File names end in {', '.join(FORMATS)}.")
    part, record = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.progress.json")
    queries = _queries(dataset, relation_ids)
    options = {"run": dataset.fingerprint, "relations": list(relation_ids), "above": above, "queries": len(queries)}
    at_once, labels = model.queries_at_once, PathLabels(dataset)
    _touch(target, part, record, resume)
    with locked(part):
        done, facts = _begin(target, part, record, options, resume)
        start, first, last_record = time.monotonic(), done, time.monotonic()
        while done < len(queries):
            batch = queries[done : done + at_once]
            rows = _new_facts(model, labels, batch, above)
            append_text(part, "".join("\t".join(row) + "\n" for row in rows))
            done, facts = done + len(batch), facts + len(rows)
            on_progress(done, len(queries), facts)
            if time.monotonic() - last_record >= SECONDS_BETWEEN_RECORDS or done == len(queries):
                write_text(record, json.dumps(options | {"done": done, "facts": facts, "bytes": part.stat().st_size}))
                last_record = time.monotonic()
        _finish(part, target)
        remove(part)
        remove(record)
    return Completed(len(queries), facts, time.monotonic() - start, done - first)


def _queries(dataset: Dataset, relation_ids: Sequence[int]) -> Triples:
    """The distinct (head, relation) of the facts, by relation; the tails are not used."""
    ids, facts = dataset.relation_ids, dataset.facts
    both = Triples.concatenate([facts, Triples(facts.tails, ids.inverse(facts.relations), facts.heads)])
    both = both[np.isin(both.relations, relation_ids or range(len(dataset.relations)))]
    _, rows = np.unique(both.relations.astype(np.int64) << 32 | both.heads, return_index=True)
    return both[rows]


def _touch(target: Path, part: Path, record: Path, resume: bool) -> None:
    """Make the table if it is not there, so that it can be locked; errors if the names are taken."""
    if target.exists() and not (resume and record.exists()):
        raise HopwalkError("there is already a file of that name", path=target, remedy="Choose another name, or remove it.")
    if record.exists() and part.exists() and not resume:
        raise HopwalkError("an interrupted run has left its table here", path=part, remedy="Resume it, or remove the file.")
    with storing(part):
        part.parent.mkdir(parents=True, exist_ok=True)
    append_text(part, "")


def _begin(target: Path, part: Path, record: Path, options: dict[str, object], resume: bool) -> tuple[int, int]:
    """The number of queries done and of facts found; the table is cut to the length in the record."""
    if resume and record.exists():
        try:
            before = parse_json(read_text(record))
            is_same = {name: before[name] for name in options} == options
            done, facts, size = int(before["done"]), int(before["facts"]), int(before["bytes"])
        except (OSError, ValueError, KeyError, TypeError):
            raise HopwalkError(
                "the record of the progress is damaged", path=record, remedy="Remove it and start again."
            ) from None
        if not is_same:
            remedy = "Use the same options, or remove the file."
            raise HopwalkError("the table was begun with other options or another run", path=part, remedy=remedy)
        if part.stat().st_size >= size or target.exists():  # else the table was removed: begin again
            with storing(part):
                os.truncate(part, min(size, part.stat().st_size))
            return done, facts
    header = "\t".join(COLUMNS) + "\n"
    write_text(record, json.dumps(options | {"done": 0, "facts": 0, "bytes": len(header)}))
    with storing(part):
        os.truncate(part, 0)
    append_text(part, header)
    return 0, 0


def _new_facts(model: AnswerModel, labels: PathLabels, batch: Triples, above: float) -> list[tuple[str, ...]]:
    """The rows of the table for a batch of queries."""
    dataset, queries = model.dataset, list(zip(batch.heads.tolist(), batch.relations.tolist(), strict=True))
    ranking = model.rank(queries, only_new=True)
    likely: list[list[tuple[int, float]]] = []
    for (head, relation), found in zip(queries, ranking.candidates, strict=True):
        if found.probabilities is None:
            raise HopwalkError("the run has no calibrated probabilities", remedy="Train it again with this version of hopwalk.")
        is_likely = (found.probabilities >= above) & ((found.entities != head) | may_be_itself(dataset, relation))
        likely.append(list(zip(found.entities[is_likely].tolist(), found.probabilities[is_likely].tolist(), strict=True)))
    paths = ranking.paths([[entity for entity, _ in found] for found in likely], 1)
    facts = []
    for (head, relation), tails, of_entities in zip(queries, likely, paths, strict=True):
        is_inverse = bool(dataset.relation_ids.is_inverse(relation))
        name = dataset.relations[dataset.relation_ids.inverse(relation) if is_inverse else relation]
        for (tail, probability), best in zip(tails, of_entities, strict=True):
            if not best:  # an ensemble also ranks what no path reaches
                continue
            subject, object_ = (tail, head) if is_inverse else (head, tail)
            named = dataset.entities[subject], name, dataset.entities[object_]
            path = " ".join(str(shown) for shown in labels.paths(head, best[:1]))
            facts.append((*(_one_line(label) for label in named), f"{probability:.6f}", _one_line(path)))
    return facts


def _one_line(text: str) -> str:
    """The text without line breaks and tabs."""
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def _finish(part: Path, target: Path) -> None:
    """Convert the table to the target, in the format of its name."""
    if target.exists():  # a run that was stopped between its last two steps
        return
    if target.suffix == ".tsv":
        replace_synced(part, target)
        return
    import polars as pl

    with atomic_path(target) as made:
        if target.suffix == ".parquet":
            types = {"probability": pl.Float64}
            pl.scan_csv(part, separator="\t", quote_char=None, schema_overrides=types).sink_parquet(made)
        else:
            with made.open("w", encoding="utf-8") as file, part.open(encoding="utf-8") as rows:
                next(rows)
                file.writelines(_n_triple(line.rstrip("\n").split("\t")) for line in rows)


def _n_triple(row: list[str]) -> str:
    """A line of N-Triples with probability and path as a comment. Labels that are not IRIs become urn:hopwalk:LABEL."""
    terms = (term if "://" in term and " " not in term else f"urn:hopwalk:{quote(term, safe='')}" for term in row[:3])
    return f"{' '.join(f'<{term}>' for term in terms)} . # {row[3]} {row[4]}\n"


# The steps of `complete_into`, for `sharding`: the queries, the rows of a batch, and the target from a table.
queries_of, new_rows, finish = _queries, _new_facts, _finish
