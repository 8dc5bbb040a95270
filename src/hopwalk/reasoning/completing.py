"""Missing facts for a whole graph: every question of the chosen relations is asked, and what is likely enough is written down.

Rows go to a table of text beside the target as they are found, with a note of how far that is. So an interrupted run goes on
where it stopped, and memory does not grow with the graph. In the end the table becomes the target, in the format of its name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch

from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.learning.run import write_text
from hopwalk.reasoning.asking import PathsInWords, directed_relation_id
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.environment import Questions
from hopwalk.walker.runs import TrainedWalker

COLUMNS = ("head", "relation", "tail", "confidence", "path_probability", "path")
FORMATS = (".tsv", ".parquet", ".nt")
QUESTIONS_AT_ONCE = 64
SECONDS_BETWEEN_NOTES = 2.0

OnProgress = Callable[[int, int, int], None]  # questions done, questions in all, facts found


@dataclass(frozen=True)
class Completed:
    """How many questions were asked and facts proposed, and how long the questions of this sitting took."""

    questions: int
    facts: int
    seconds: float
    questions_of_sitting: int


def complete_into(
    trained: TrainedWalker,
    target: Path,
    *,
    relations: Sequence[str] = (),
    above: float = 0.5,
    resume: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Completed:
    """Ask `(head, relation, ?)` for every entity that is the head of a fact of the relation, for all or some relations.

    New answers that a path reaches are written if their confidence is high enough: that is the scorer's probability, or the
    path's where the walker has no scorer.
    """
    if target.suffix not in FORMATS:
        raise SettingsError(f"{target.name} has no ending that says a format", remedy=f"Endings are {', '.join(FORMATS)}.")
    part, note = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.progress.json")
    questions = _questions(trained, relations)
    asked = {"run": trained.dataset.fingerprint, "relations": list(relations), "above": above, "questions": len(questions)}
    done, facts = _begin(target, part, note, asked, resume)
    at_once = min(QUESTIONS_AT_ONCE, trained.decoder.questions_at_once)
    start, first, last_note = time.monotonic(), done, time.monotonic()
    with part.open("r+", encoding="utf-8") as file:
        file.seek(0, 2)
        while done < len(questions):
            ends = range(done, min(done + at_once * torch.get_num_threads(), len(questions)), at_once)
            parts = [questions[end : end + at_once] for end in ends]
            rows = [row for found in on_all_threads(lambda part: _new_facts(trained, part, above), parts) for row in found]
            file.writelines("\t".join(row) + "\n" for row in rows)
            done, facts = done + sum(len(part) for part in parts), facts + len(rows)
            on_progress(done, len(questions), facts)
            if time.monotonic() - last_note >= SECONDS_BETWEEN_NOTES or done == len(questions):
                file.flush()
                write_text(note, json.dumps(asked | {"done": done, "facts": facts, "bytes": file.tell()}))
                last_note = time.monotonic()
    _finish(part, target)
    note.unlink(missing_ok=True)
    return Completed(len(questions), facts, time.monotonic() - start, done - first)


def _questions(trained: TrainedWalker, relations: Sequence[str]) -> Triples:
    """The distinct (head, relation) of the facts, by relation; tails are those of one fact each and not used."""
    dataset = trained.dataset
    chosen = {directed_relation_id(trained, relation) for relation in relations}
    ids, facts = dataset.relation_ids, dataset.facts
    both = Triples.concatenate([facts, Triples(facts.tails, ids.inverse(facts.relations), facts.heads)])
    wanted = chosen or set(range(len(dataset.relations)))
    both = both[np.isin(both.relations, list(wanted))]
    _, rows = np.unique(both.relations.astype(np.int64) << 32 | both.heads, return_index=True)
    return both[rows]


def _begin(target: Path, part: Path, note: Path, asked: dict[str, object], resume: bool) -> tuple[int, int]:
    """How many questions are done and facts found; the table is cut to what the note says of it."""
    if target.exists():
        raise HopwalkError("there is a file of that name already", path=target, remedy="Choose another name, or remove it.")
    if note.exists() and part.exists():
        if not resume:
            raise HopwalkError(
                "an interrupted run has left its table here", path=part, remedy="Go on with --resume, or remove the file."
            )
        try:
            told = json.loads(note.read_text(encoding="utf-8"))
            is_same = {name: told[name] for name in asked} == asked
            done, facts, size = int(told["done"]), int(told["facts"]), int(told["bytes"])
        except (ValueError, KeyError, TypeError):
            raise HopwalkError("the note of how far it came is damaged", path=note, remedy="Remove it and begin anew.") from None
        if not is_same:
            raise HopwalkError("that table was begun with other options or another run", path=part, remedy="Give those again.")
        with part.open("r+b") as file:
            file.truncate(size)
        return done, facts
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(part, "\t".join(COLUMNS) + "\n")
    write_text(note, json.dumps(asked | {"done": 0, "facts": 0, "bytes": part.stat().st_size}))
    return 0, 0


def _new_facts(trained: TrainedWalker, batch: Triples, above: float) -> list[tuple[str, ...]]:
    """The rows of the table that the questions give."""
    dataset = trained.dataset
    questions = Questions(*(torch.from_numpy(column.astype(np.int64)) for column in (batch.heads, batch.relations)))
    log_odds = trained.opinions.log_odds(questions.heads, questions.relations) if trained.opinions else None
    offsets, known = trained.walker.known.answers(batch.heads, batch.relations)
    rows_of_known = np.repeat(np.arange(len(batch)), np.diff(offsets))
    found = trained.decoder.searched(questions, log_odds)
    found = found.without(torch.from_numpy(rows_of_known), torch.from_numpy(known).long())
    confidence = found.scores.exp() if log_odds is None else torch.sigmoid(log_odds.gather(1, found.entities))
    is_wanted = (confidence >= above) & (found.entities != questions.heads[:, None]) & (found.scores > -torch.inf)
    reached = found.reached(is_wanted)
    paths = PathsInWords(dataset, reached)
    rows_of_wanted = is_wanted.nonzero()[:, 0].tolist()
    told = zip(rows_of_wanted, reached.entities.tolist(), confidence[is_wanted].tolist(), reached.scores.tolist(), strict=True)
    facts = []
    for place, (row, tail, sure, log_prob) in enumerate(told):
        head, relation = int(batch.heads[row]), int(batch.relations[row])
        is_inverse = bool(dataset.relation_ids.is_inverse(relation))
        name = dataset.relations[dataset.relation_ids.inverse(relation) if is_inverse else relation]
        one, other = (tail, head) if is_inverse else (head, tail)
        ends = dataset.entities[one], name, dataset.entities[other]
        (path,) = paths.to(place, head)
        facts.append((*(_one_line(end) for end in ends), f"{sure:.6f}", f"{exp(log_prob):.6g}", _one_line(str(path))))
    return facts


def _one_line(text: str) -> str:
    """The text without what divides rows and columns."""
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def _finish(part: Path, target: Path) -> None:
    """Make the target of the table, in the format of its name."""
    if target.suffix == ".tsv":
        part.replace(target)
        return
    import polars as pl

    types = {"confidence": pl.Float64, "path_probability": pl.Float64}
    table = pl.scan_csv(part, separator="\t", quote_char=None, schema_overrides=types)
    made = target.with_name(f".{target.name}.making")
    if target.suffix == ".parquet":
        table.sink_parquet(made)
    else:
        with made.open("w", encoding="utf-8") as file, part.open(encoding="utf-8") as rows:
            next(rows)
            file.writelines(_n_triple(line.rstrip("\n").split("\t")) for line in rows)
    made.replace(target)
    part.unlink()


def _n_triple(row: list[str]) -> str:
    """A line of N-Triples; confidence and path are its comment. Labels that are no IRIs become urn:hopwalk:LABEL."""
    terms = (term if "://" in term and " " not in term else f"urn:hopwalk:{quote(term, safe='')}" for term in row[:3])
    return f"{' '.join(f'<{term}>' for term in terms)} . # {row[3]} {row[5]}\n"
