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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError
from hopwalk.learning.ranking import Ranks, ScoreAllTails, filtered_answers, rank_answers, tell_progress
from hopwalk.learning.run import Run
from hopwalk.reasoning.completing import (
    ASKING,
    EXPLAINING,
    STAGES,
    Completed,
    CompletionTask,
    OnProgress,
    Pieces,
    completed_before,
    pieces_of,
    require_table,
    sorted_path,
    work_on,
    write_completed,
    write_table,
)
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.probabilities import POOL, asked_scores
from hopwalk.reasoning.proposals import FOUND, Proposer
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.utils.files import locked, parse_json, read_text, remove, storing, write_bytes, write_text
from hopwalk.utils.packing import Packed, pack, unpack
from hopwalk.utils.places import Place, Report
from hopwalk.walker.runs import untrained

BATCHES_OF_SHARD = 4  # a shard is lost with its process, and a file; so neither many nor few
QUERIES_OF_SHARD = 1024  # of an evaluation
RECORD = "record.json"
RankedBy = Literal["scores", "probability", "untrained"]
NOT_SENT = frozenset({"checkpoint.safetensors", "tensorboard"})  # of a run folder


@dataclass(frozen=True, eq=False)
class Shard:
    """Queries of a stage of a completion, and the number of the shard."""

    number: int
    pieces: Pieces


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
    task: CompletionTask

    def __call__(self) -> CompletionWork.Of:
        """Load the run."""
        _, model = self.run.load()
        return CompletionWork.Of(self.task.proposer(model))

    @dataclass(frozen=True)
    class Of:
        """A loaded run that works on shards."""

        proposer: Proposer

        def __call__(self, shard: Shard, report: Report) -> tuple[bytes, int]:
            """What the queries of a shard give, and the number of facts in it."""
            size, at_once = len(shard.pieces.groups), self.proposer.model.queries_at_once
            parts, facts = [], 0
            for first in range(0, size, at_once):
                content, count = work_on(self.proposer, shard.pieces, first, min(first + at_once, size))
                parts.append(content)
                facts += count
                report(facts)
            return b"".join(parts), facts


def complete_on(
    place: Place,
    run: Run,
    model: AnswerModel,
    target: Path,
    task: CompletionTask,
    *,
    resume: bool = False,
    on_progress: OnProgress = lambda *_: None,
    queries_of_shard: int = 0,
) -> Completed:
    """What `complete_into` writes, made in shards at a place. The model is that of the run; it only says what there is to do.

    `TARGET.shards` keeps the shards that are done until all are; with `resume`, only the others are made.
    """
    proposer, start = task.proposer(model), time.monotonic()
    require_table(target)
    queries, size = proposer.queries(), queries_of_shard or BATCHES_OF_SHARD * model.queries_at_once
    options = task.options(model, queries)
    if resume and (before := completed_before(target, options)):
        _remove_folder(_folder(target))
        return before
    folder = _begin(target, options | {"shard": size}, resume)
    work, facts, found, asked_before = CompletionWork(LoadedRun.of(run), task), 0, b"", 0
    with locked(folder):
        for stage, name in enumerate(STAGES):
            pieces = pieces_of(proposer, stage, queries, np.frombuffer(found, dtype=FOUND) if stage else None)
            shards = _shards(pieces, size)
            missing = [shard for shard in shards if not _path(folder, stage, shard.number).exists()]
            done = len(pieces.groups) - sum(len(shard.pieces.groups) for shard in missing)
            asked_before = done if stage == ASKING else asked_before
            for shard, (content, count) in place.run(work, iter(missing)):
                write_bytes(_path(folder, stage, shard.number), [content])
                done, facts = done + len(shard.pieces.groups), facts + count
                on_progress(done, len(pieces.groups), facts, name)
            paths = [_path(folder, stage, shard.number) for shard in shards]
            if stage == EXPLAINING:
                facts = _join(folder, paths, target, options)
            else:
                found += b"".join(path.read_bytes() for path in paths)
    return Completed(len(queries), facts, time.monotonic() - start, len(queries) - asked_before)


def _shards(pieces: Pieces, size: int) -> list[Shard]:
    """The queries of a stage in whole batches."""
    count = len(pieces.groups)
    return [Shard(number, pieces.part(first, min(first + size, count))) for number, first in enumerate(range(0, count, size))]


def _begin(target: Path, options: dict[str, object], resume: bool) -> Path:
    """The folder of the shards, new or of an interrupted run with the same options."""
    folder = _folder(target)
    record = folder / RECORD
    if target.exists() and not (resume and record.exists()):
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


def _folder(target: Path) -> Path:
    return target.with_name(f"{target.name}.shards")


def _path(folder: Path, stage: int, number: int) -> Path:
    return folder / f"{stage}-{number:08}"


def _join(folder: Path, paths: Sequence[Path], target: Path, options: Mapping[str, Any]) -> int:
    """Make the target from the rows in shards, record that it is complete, remove the shards, and give the number of rows."""
    joined = folder / "joined"
    with storing(joined), joined.open("wb") as file:
        for path in paths:
            file.write(path.read_bytes())
    with joined.open("rb") as lines:
        count = sum(1 for _ in lines)
    write_table(joined, 0, target)
    write_completed(target, options, count)
    remove(sorted_path(target))
    _remove_folder(folder)
    return count


def _remove_folder(folder: Path) -> None:
    with storing(folder):
        if folder.exists():
            shutil.rmtree(folder)


def scores_by(by: RankedBy, model: AnswerModel, dataset: Dataset) -> ScoreAllTails:
    """The scores by which the answers of a model are ranked: its own, by probability as `ask` does, or of a random policy."""
    if by == "probability":
        return partial(asked_scores, model)
    if by == "untrained":
        assert isinstance(model, WalkerModel)
        return untrained(model.decoder, dataset).scores
    return model.score_all_tails


@dataclass(frozen=True)
class QueriesToRank:
    """Rows of a split's queries to be ranked."""

    by: RankedBy
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
            score = scores_by(piece.by, self.model, self.dataset)
            report(0)
            ranks = rank_answers(score, piece.queries, self.known, num_entities=len(self.dataset.entities))
            return ranks.optimistic, ranks.pessimistic


def ranks_on(
    place: Place, run: Run, queries: Triples, split: str, *, complete_filter: bool = False, by: RankedBy = "scores"
) -> Ranks:
    """The ranks of the answers of a split's queries, made in shards at a place; queries of one head stay together."""
    order = np.lexsort((queries.relations, queries.heads))
    ranks = Ranks(queries, np.full(len(queries), np.nan), np.full(len(queries), np.nan))
    size = -(-QUERIES_OF_SHARD // POOL) if by == "probability" else QUERIES_OF_SHARD
    parts = [order[first : first + size] for first in range(0, len(order), size)]
    pieces = (QueriesToRank(by, rows, queries[rows]) for rows in parts)
    done = 0
    for piece, (optimistic, pessimistic) in place.run(RankingWork(LoadedRun.of(run), split, complete_filter), pieces):
        ranks.optimistic[piece.rows], ranks.pessimistic[piece.rows] = optimistic, pessimistic
        done += len(piece.rows)
        tell_progress(done, len(queries))
    return ranks
