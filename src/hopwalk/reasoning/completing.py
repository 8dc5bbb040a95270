"""Completion of a whole graph: every entity that could have a relation is asked for it, and likely facts are written.

The work has three stages: queries in both directions, then the other direction of facts that only one has found, then the path
and the rule behind each proposed fact. What is found is appended to a file beside the target, with a record of the progress: an
interrupted run resumes where it stopped. Of the first two stages a fact takes 16 bytes in the file and about 100 in memory; of
the last, rows of text stay on the disk. In the end the rows are sorted by probability and converted to the target's format.
The record stays beside the target, with its digest: whoever resumes what is complete is told so. Records state the digest of the
rows and one of their own, so that damage to either is refused.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopwalk.data.addresses import is_address
from hopwalk.data.exporting import n_triple
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.reasoning.models import AnswerModel, Floats
from hopwalk.reasoning.proposals import FOUND, Found, Proposer, QueryGroups, labels_of
from hopwalk.utils.files import (
    append_bytes,
    atomic_path,
    digest_of,
    locked,
    parse_json,
    read_text,
    remove,
    replace_synced,
    require_regular,
    storing,
    write_bytes,
    write_text,
)

COLUMNS = ("head", "relation", "tail", "probability", "path", "rule", "rule_support", "rule_confidence")
FORMATS = (".tsv", ".parquet", ".nt")
SECONDS_BETWEEN_RECORDS = 2.0
ASKING, PAIRING, EXPLAINING = range(3)
STAGES = ("asking", "asking from the other end", "explaining")
DIGEST, CHECK = "sha256", "check"  # of the table, in the record of one that is complete; of the record

OnProgress = Callable[[int, int, int, str], None]  # queries of the stage done, of how many, facts found, the stage


@dataclass(frozen=True)
class CompletionTask:
    """What to complete: relations, or all of them; the heads to ask, or all that could have one; and the least probability."""

    relation_ids: Sequence[int] = ()
    head_ids: Sequence[int] | None = None
    above: float = 0.5
    run: str = ""  # the digest of the run

    def proposer(self, model: AnswerModel) -> Proposer:
        """The proposer of these facts by a model; an error if the model has no paths."""
        if not model.max_hops:
            raise HopwalkError("an embedding model has no paths", remedy="Complete with a propagation model or a walker.")
        return Proposer(model, self.relation_ids, self.head_ids, self.above)

    def options(self, model: AnswerModel, queries: QueryGroups) -> dict[str, Any]:
        """What a resumed run must have in common with the one before, for JSON."""
        heads = "" if self.head_ids is None else hashlib.sha256(queries.facts.heads.tobytes()).hexdigest()
        about = {"run": self.run, "facts_of": model.dataset.fingerprint, "relations": list(self.relation_ids)}
        return about | {"above": self.above, "queries": len(queries), "heads": heads}


@dataclass(frozen=True)
class Completed:
    """The number of queries and of proposed facts; the seconds and queries of this session, without those before resuming.

    `was_complete`: there was nothing left to do.
    """

    queries: int
    facts: int
    seconds: float
    queries_of_session: int
    was_complete: bool = False


def complete_into(
    model: AnswerModel,
    target: Path,
    task: CompletionTask,
    *,
    resume: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Completed:
    """Propose facts of all relations or some: ask whoever could be a head, and by the inverse whoever could be a tail.

    New facts with a path are written, each once, if they are probable enough; the most likely come first.
    """
    proposer = task.proposer(model)
    require_table(target)
    queries = proposer.queries()
    options = task.options(model, queries)
    if resume and (before := completed_before(target, options)):
        return before
    work = _Work(target, options, model.queries_at_once, on_progress)
    work.touch(resume)
    with locked(work.part):
        work.begin(resume)
        for stage in range(len(STAGES)):
            pieces = pieces_of(proposer, stage, queries, work.found(stage - 1) if stage else None)
            work.run(stage, pieces.groups, partial(work_on, proposer, pieces))
        work.finish()
    return Completed(len(queries), work.facts, time.monotonic() - work.start, work.queries_of_session)


def require_table(target: Path) -> None:
    """An error if the table cannot be written in the format of its name."""
    if is_address(str(target)):  # which is not repeated: it may have a password
        raise SettingsError("complete writes to a file, not to an address", remedy="Give a file, and export it then.")
    if target.suffix not in FORMATS:
        raise SettingsError(f"the format of {target.name} is not known", remedy=f"File names end in {', '.join(FORMATS)}.")


def completed_before(target: Path, options: Mapping[str, Any]) -> Completed | None:
    """What the record beside a table says that is complete; None if there is no such table.

    An error if it was made with other options or was changed since. What a killed process has left is removed.
    """
    if not target.exists() or not (record := record_path(target)).exists():
        return None
    before = _read_record(record)
    if DIGEST not in before:
        return None
    remedy = "Choose another name, or remove it."
    if {name: before.get(name) for name in options} != options:
        raise HopwalkError("the table was made with other options or by another run", path=target, remedy=remedy)
    if digest_of(target) != before[DIGEST]:
        raise HopwalkError("the table was changed since it was written", path=target, remedy=remedy)
    for path in (sorted_path(target), part_path(target)):
        remove(path)
    return Completed(options["queries"], before["facts"], 0.0, 0, was_complete=True)


def write_completed(target: Path, options: Mapping[str, Any], facts: int) -> None:
    """Record that a table is complete, with its digest."""
    _write_record(record_path(target), {**options, "facts": facts, DIGEST: digest_of(target)})


def _write_record(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps({**content, CHECK: _check(content)}))


def _check(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_record(path: Path) -> dict[str, Any]:
    """The record of the progress; an error if it is damaged."""
    try:
        content: dict[str, Any] = parse_json(read_text(path))
        if content.pop(CHECK) != _check(content):
            raise ValueError("it was changed")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        remedy = "Remove it and start again."
        raise HopwalkError("the record of the progress is damaged", path=path, remedy=remedy) from None
    return content


@dataclass(frozen=True, eq=False)
class Pieces:
    """The queries of a stage; in the last one, the proposed facts with their probabilities [N]."""

    stage: int
    groups: QueryGroups
    probabilities: Floats

    def part(self, first: int, last: int) -> Pieces:
        """Some of the queries."""
        rows = slice(self.groups.offsets[first], self.groups.offsets[last])
        return Pieces(self.stage, QueryGroups.of(self.groups.facts[rows]), self.probabilities[rows])


def pieces_of(proposer: Proposer, stage: int, queries: QueryGroups, found: Found | None) -> Pieces:
    """What a stage has to do, after what those before it have found."""
    if found is None:
        return Pieces(stage, queries, np.zeros(len(queries.facts)))
    if stage == PAIRING:
        others = proposer.other_direction(found)
        return Pieces(stage, others, np.zeros(len(others.facts)))
    return Pieces(stage, *proposer.proposals(found))


def work_on(proposer: Proposer, pieces: Pieces, first: int, last: int) -> tuple[bytes, int]:
    """What some queries of a stage give, and the number of facts in it: none before the last stage."""
    queries, tails = pieces.groups.batch(first, last)
    if pieces.stage == ASKING:
        return proposer.ask(queries).tobytes(), 0
    if pieces.stage == PAIRING:
        return proposer.look_up(queries, tails).tobytes(), 0
    rows, place, probabilities = [], int(pieces.groups.offsets[first]), pieces.probabilities
    for query, own, found in zip(queries, tails, proposer.reasons(queries, tails), strict=True):
        for tail, reason in zip(own, found, strict=True):
            if reason is not None:  # an ensemble also ranks what no path reaches
                evidence, named = reason.evidence, labels_of(proposer.dataset, query, tail)
                texts = *named, f"{probabilities[place]:.6f}", str(reason.path), str(reason.rule)
                rows.append((*map(_one_line, texts), str(evidence.support), f"{evidence.confidence:.6f}"))
            place += 1
    return "".join("\t".join(row) + "\n" for row in rows).encode(), len(rows)


def _one_line(text: str) -> str:
    """The text without line breaks and tabs."""
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


@dataclass
class _Work:
    """The files of a completion, and how far it has come.

    `part` has what the first two stages found, then rows of text; `ends` are its sizes at the end of each finished stage.
    """

    target: Path
    options: dict[str, Any]
    at_once: int
    on_progress: OnProgress
    stage: int = ASKING
    done: int = 0
    facts: int = 0
    ends: list[int] = field(default_factory=list)
    start: float = 0.0
    queries_of_session: int = 0
    written: Any = field(default_factory=hashlib.sha256)  # of `part`

    def __post_init__(self) -> None:
        self.part, self.record = part_path(self.target), record_path(self.target)

    def touch(self, resume: bool) -> None:
        """Make the file if it is not there, so that it can be locked; errors if the names are taken."""
        if self.target.exists() and not (resume and self.record.exists()):
            raise _name_is_taken(self.target)
        if self.record.exists() and self.part.exists() and not resume:
            remedy = "Resume it, or remove the file."
            raise HopwalkError("an interrupted run has left its table here", path=self.part, remedy=remedy)
        with storing(self.part):
            self.part.parent.mkdir(parents=True, exist_ok=True)
            if self.part.exists():
                require_regular(self.part)
        append_bytes(self.part, b"")

    def begin(self, resume: bool) -> None:
        """Begin, or go on where the record says; the file is cut to the length in the record."""
        self.start = time.monotonic()
        if resume and self.record.exists() and self._goes_on(_read_record(self.record)):
            return
        self.stage, self.done, self.facts, self.ends, self.written = ASKING, 0, 0, [], hashlib.sha256()
        with storing(self.part):
            os.truncate(self.part, 0)
        self._write_record()

    def _goes_on(self, before: dict[str, Any]) -> bool:
        """Go on from a record; not if its table was removed. Errors if it is of other work, or its rows were changed."""
        if DIGEST in before:  # it was complete
            return False
        if {name: before.get(name) for name in self.options} != self.options:
            remedy = "Use the same options, or remove the file."
            raise HopwalkError("the table was begun with other options or another run", path=self.part, remedy=remedy)
        self.stage, self.done, self.facts, self.ends = (before[name] for name in ("stage", "done", "facts", "ends"))
        if self.target.exists():
            if self.stage < len(STAGES):
                raise _name_is_taken(self.target)
            return True
        size = before["bytes"]
        if self.part.stat().st_size < size:
            return False
        with storing(self.part), self.part.open("r+b") as file:
            file.truncate(size)
            self.written = hashlib.file_digest(file, "sha256")
        if self.written.hexdigest() != before["part"]:
            raise HopwalkError(
                "the rows were changed since they were written", path=self.part, remedy="Remove it and start again."
            )
        return True

    def run(self, stage: int, queries: QueryGroups, work: Callable[[int, int], tuple[bytes, int]]) -> None:
        """Do a stage, or what is left of it: `work` gives what to append for some queries, and the number of facts in it."""
        if self.stage != stage or self.target.exists():
            return
        last_record = time.monotonic()
        while self.done < len(queries):
            last = min(self.done + self.at_once, len(queries))
            content, facts = work(self.done, last)
            append_bytes(self.part, content)
            self.written.update(content)
            if stage == ASKING:
                self.queries_of_session += last - self.done
            self.done, self.facts = last, self.facts + facts
            self.on_progress(self.done, len(queries), self.facts, STAGES[stage])
            if time.monotonic() - last_record >= SECONDS_BETWEEN_RECORDS and self.done < len(queries):
                self._write_record()
                last_record = time.monotonic()
        self.ends.append(self.part.stat().st_size)
        self.stage, self.done = stage + 1, 0
        self._write_record()

    def _write_record(self) -> None:
        state = {"stage": self.stage, "done": self.done, "facts": self.facts, "ends": self.ends}
        rows = {"bytes": self.part.stat().st_size, "part": self.written.hexdigest()}
        _write_record(self.record, self.options | state | rows)

    def found(self, stage: int) -> Found:
        """What has been found to the end of a stage."""
        if self.target.exists():
            return np.empty(0, dtype=FOUND)
        found: Found = np.fromfile(self.part, dtype=FOUND, count=self.ends[stage] // FOUND.itemsize)
        return found

    def finish(self) -> None:
        """Write the target, record that it is complete, and remove the other files."""
        if not self.target.exists():  # else the run was stopped between its last two steps
            write_table(self.part, self.ends[PAIRING], self.target)
        write_completed(self.target, self.options, self.facts)
        for path in (sorted_path(self.target), self.part):
            remove(path)


def _name_is_taken(target: Path) -> HopwalkError:
    return HopwalkError("there is already a file of that name", path=target, remedy="Choose another name, or remove it.")


def write_table(rows: Path, first: int, target: Path) -> None:
    """Sort the rows of a file, which begin at byte `first`, and convert them to the format of the target's name."""
    write_bytes(sorted_path(target), _sorted_lines(rows, first))
    _convert(sorted_path(target), target)


def part_path(target: Path) -> Path:
    """The file of what was found so far."""
    return target.with_name(f"{target.name}.part")


def record_path(target: Path) -> Path:
    """The file of the progress, and of the options of a table that is complete."""
    return target.with_name(f"{target.name}.progress.json")


def sorted_path(target: Path) -> Path:
    """The file of the sorted rows, which is left beside the target."""
    return target.with_name(f"{target.name}.sorted")


def _sorted_lines(rows: Path, first: int) -> Iterator[bytes]:
    """The header, then the rows, the most likely first; of equally likely ones in the order of queries."""
    yield ("\t".join(COLUMNS) + "\n").encode()
    if first == rows.stat().st_size:
        return
    with rows.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        content.seek(first)
        starts, probabilities = [first], []
        while line := content.readline():
            starts.append(content.tell())
            probabilities.append(float(line.split(b"\t")[3]))
        for row in np.argsort(-np.array(probabilities), kind="stable"):
            yield content[starts[row] : starts[row + 1]]


def _convert(table: Path, target: Path) -> None:
    if target.suffix == ".tsv":
        replace_synced(table, target)
        return
    import polars as pl

    with atomic_path(target) as made:
        if target.suffix == ".parquet":
            numbers = {"probability": pl.Float64(), "rule_support": pl.Int64(), "rule_confidence": pl.Float64()}
            types = {name: numbers.get(name, pl.String()) for name in COLUMNS}
            pl.scan_csv(table, separator="\t", quote_char=None, schema_overrides=types).sink_parquet(made)
        else:
            with made.open("w", encoding="utf-8") as file, table.open(encoding="utf-8") as rows:
                next(rows)
                file.writelines(n_triple(dict(zip(COLUMNS, line.rstrip("\n").split("\t"), strict=True))) for line in rows)
