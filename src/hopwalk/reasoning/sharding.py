"""Completion and evaluation in shards, by processes that each hold the loaded run.

The run travels once to every node, as the files of its folder. A shard of queries goes to a process, its rows or ranks come
back, and this process writes them: a file per shard in a folder beside the target, joined in the end. Shards are whole batches
of the computation in one process, so that the joined result has the same bits.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.learning.ranking import Ranks, ScoreAllTails, filtered_answers, rank_answers, tell_progress
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import PathLabels
from hopwalk.reasoning.completing import COLUMNS, FORMATS, Completed, OnProgress, finish, new_rows, queries_of
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.utils.files import append_text, locked, parse_json, read_text, remove, storing, write_text
from hopwalk.utils.packing import Packed, pack, unpack
from hopwalk.utils.places import Place, Report
from hopwalk.walker.runs import untrained

BATCHES_OF_SHARD = 4  # a shard is lost with its process, and a file; so neither many nor few
QUERIES_OF_SHARD = 1024  # of an evaluation
RECORD = "record.json"
NOT_SENT = frozenset({"checkpoint.safetensors", "tensorboard"})  # of a run folder


@dataclass(frozen=True)
class Shard:
    """Queries of a completion: the number of the shard, and their heads and relations."""

    number: int
    heads: NDArray[np.int32]
    relations: NDArray[np.int32]


@dataclass(frozen=True)
class LoadedRun:
    """A run as the files of its folder, which loads itself wherever it arrives."""

    files: Packed

    @staticmethod
    def of(run: Run) -> LoadedRun:
        """That of a run folder."""
        return LoadedRun(pack(run.path, without=NOT_SENT))

    def load(self) -> tuple[Run, AnswerModel]:
        """The run and its model; the files are removed when they are read."""
        with tempfile.TemporaryDirectory(prefix="hopwalk-") as folder:
            unpack(self.files, Path(folder) / "run")
            run = Run.open(Path(folder) / "run")
            model = load_model(run)
            _ = run.settings, run.dataset  # kept by the run
            return run, model


@dataclass(frozen=True)
class CompletionWork:
    """Makes the work on shards of a completion."""

    run: LoadedRun
    above: float

    def __call__(self) -> CompletionWork.Of:
        """Load the run."""
        _, model = self.run.load()
        return CompletionWork.Of(model, PathLabels(model.dataset), self.above)

    @dataclass(frozen=True)
    class Of:
        """A loaded run that answers shards."""

        model: AnswerModel
        labels: PathLabels
        above: float

        def __call__(self, shard: Shard, report: Report) -> tuple[str, int]:
            """The rows of the table for the queries of a shard, as text, and their number."""
            queries, at_once = Triples(shard.heads, shard.relations, shard.heads), self.model.queries_at_once
            rows: list[tuple[str, ...]] = []
            for first in range(0, len(queries), at_once):
                rows += new_rows(self.model, self.labels, queries[first : first + at_once], self.above)
                report(len(rows))
            return "".join("\t".join(row) + "\n" for row in rows), len(rows)


def complete_on(
    place: Place,
    run: Run,
    model: AnswerModel,
    target: Path,
    *,
    relation_ids: list[int],
    above: float = 0.5,
    resume: bool = False,
    on_progress: OnProgress = lambda *_: None,
    queries_of_shard: int = 0,
) -> Completed:
    """What `complete_into` writes, made in shards at a place. The model is that of the run; it only says what a batch is.

    `TARGET.shards` keeps the shards that are done until all are; with `resume`, only the others are made.
    """
    if not model.max_hops:
        raise HopwalkError("an embedding model has no paths", remedy="Complete with a propagation model or a walker.")
    if target.suffix not in FORMATS:
        raise SettingsError(f"the format of {target.name} is not known", remedy=f"File names end in {', '.join(FORMATS)}.")
    queries, start = queries_of(model.dataset, relation_ids), time.monotonic()
    size = queries_of_shard or BATCHES_OF_SHARD * model.queries_at_once
    options = {
        "run": model.dataset.fingerprint,
        "relations": relation_ids,
        "above": above,
        "queries": len(queries),
        "shard": size,
    }
    folder = _begin(target, options, resume)
    with locked(folder):
        numbers = range(-(-len(queries) // size))
        found = {number: _num_rows(path) for number in numbers if (path := _path(folder, number)).exists()}
        done, facts = sum(_length(queries, size, number) for number in found), sum(found.values())
        first = done

        def missing() -> Iterator[Shard]:
            for number in numbers:
                if number not in found:
                    part = queries[number * size : (number + 1) * size]
                    yield Shard(number, part.heads, part.relations)

        for shard, (text, count) in place.run(CompletionWork(LoadedRun.of(run), above), missing()):
            write_text(_path(folder, shard.number), text)
            done, facts = done + len(shard.heads), facts + count
            on_progress(done, len(queries), facts)
        _join(folder, len(numbers), target)
    return Completed(len(queries), facts, time.monotonic() - start, done - first)


def _begin(target: Path, options: dict[str, object], resume: bool) -> Path:
    """The folder of the shards, new or of an interrupted run with the same options."""
    folder = target.with_name(f"{target.name}.shards")
    record = folder / RECORD
    if target.exists():
        raise HopwalkError("there is already a file of that name", path=target, remedy="Choose another name, or remove it.")
    if record.exists():
        if not resume:
            raise HopwalkError(
                "an interrupted run has left its shards here", path=folder, remedy="Resume it, or remove the folder."
            )
        try:
            is_same = parse_json(read_text(record)) == json.loads(json.dumps(options))
        except (OSError, ValueError):
            raise HopwalkError("the record of the shards is damaged", path=record, remedy="Remove the folder.") from None
        if not is_same:
            remedy = "Use the same options, or remove the folder."
            raise HopwalkError("the shards were begun with other options or another run", path=folder, remedy=remedy)
        return folder
    if folder.exists() and any(path.name[:1] != "." for path in folder.iterdir()):
        raise HopwalkError("the folder is not empty", path=folder, remedy="Choose another name, or remove it.")
    write_text(record, json.dumps(options))
    return folder


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08}.tsv"


def _num_rows(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _length(queries: Triples, size: int, number: int) -> int:
    return len(queries[number * size : (number + 1) * size])


def _join(folder: Path, num_shards: int, target: Path) -> None:
    """Make the target from the shards, in order, and remove them."""
    part = folder / "joined.part"
    remove(part)
    append_text(part, "\t".join(COLUMNS) + "\n")
    with storing(part), part.open("ab") as joined:
        for number in range(num_shards):
            with _path(folder, number).open("rb") as shard:
                shutil.copyfileobj(shard, joined)
    finish(part, target)
    with storing(folder):
        shutil.rmtree(folder)


@dataclass(frozen=True)
class QueriesToRank:
    """Rows of a split's queries to be ranked, by the run itself or by its untrained control."""

    by_untrained: bool
    rows: NDArray[np.int64]
    queries: Triples


@dataclass(frozen=True)
class RankingWork:
    """Makes the work on shards of an evaluation."""

    run: LoadedRun
    split: str
    complete_filter: bool

    def __call__(self) -> RankingWork.Of:
        """Load the run, and what its rankings filter."""
        run, model = self.run.load()
        return RankingWork.Of(run.dataset, model, filtered_answers(run.dataset, self.split, complete=self.complete_filter))

    @dataclass(frozen=True)
    class Of:
        """A loaded run that ranks."""

        dataset: Dataset
        model: AnswerModel
        known: KnownAnswers

        def __call__(self, piece: QueriesToRank, report: Report) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            """The optimistic and the pessimistic ranks of the queries."""
            score: ScoreAllTails = self.model.score_all_tails
            if piece.by_untrained:
                assert isinstance(self.model, WalkerModel)
                score = untrained(self.model.decoder, self.dataset).scores
            report(0)
            ranks = rank_answers(score, piece.queries, self.known, num_entities=len(self.dataset.entities))
            return ranks.optimistic, ranks.pessimistic


def ranks_on(
    place: Place, run: Run, queries: Triples, split: str, *, complete_filter: bool = False, by_untrained: bool = False
) -> Ranks:
    """The ranks of the answers of a split's queries, made in shards at a place; queries of one head stay together."""
    order = np.lexsort((queries.relations, queries.heads))
    ranks = Ranks(queries, np.full(len(queries), np.nan), np.full(len(queries), np.nan))
    parts = [order[first : first + QUERIES_OF_SHARD] for first in range(0, len(order), QUERIES_OF_SHARD)]
    pieces = (QueriesToRank(by_untrained, rows, queries[rows]) for rows in parts)
    done = 0
    for piece, (optimistic, pessimistic) in place.run(RankingWork(LoadedRun.of(run), split, complete_filter), pieces):
        ranks.optimistic[piece.rows], ranks.pessimistic[piece.rows] = optimistic, pessimistic
        done += len(piece.rows)
        tell_progress(done, len(queries))
    return ranks
