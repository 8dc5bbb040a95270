"""Ranking of facts: true facts against false ones, as DeepPath, DIVA and PRA are compared (MAP by relation).

The list of a query `(head, relation)` has its true tails and some false ones; its average precision is taken over the true ones.
The task has two forms. *Link prediction* is the mean over the queries of a relation, *fact prediction* the average precision of
one list of all facts of the relation. Both are then means over relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DataError, DivergedError
from hopwalk.learning.metrics import average_precision
from hopwalk.learning.ranking import Floats, Ranks, filtered_answers
from hopwalk.utils.files import read_text
from hopwalk.utils.text import counted

LABELS = {"+": True, "1": True, "true": True, "-": False, "0": False, "-1": False, "false": False}
PAIRS = "*/sort_test.pairs"  # DeepPath's release: tasks/RELATION/sort_test.pairs
MOST_TASK_BYTES = 2**30  # of a file of labelled facts
FORMAT = "Lines are head, relation, tail and + or - with tabs between them; or give the folder `tasks` of DeepPath's release."


@dataclass(frozen=True, eq=False)
class FactTask:
    """Facts, whether each is true [N], how the false ones were made, and how many were left out because of unknown names."""

    facts: Triples
    is_true: NDArray[np.bool_]
    negatives: str
    left_out: int = 0


@dataclass(frozen=True)
class RelationFacts:
    """The ranking of the facts of a relation: MAP over its queries, and the average precision of one list of all its facts."""

    num_queries: int
    num_true: int
    num_false: int
    link_map: float
    fact_precision: float


@dataclass(frozen=True)
class FactEvaluation:
    """The ranking of facts; `link_map` and `fact_map` are means over relations.

    `left_out` counts facts with unknown names, and those of queries that lack either true or false facts.
    """

    dataset: str
    split: str
    negatives: str
    left_out: int
    link_map: float
    fact_map: float
    relations: dict[str, RelationFacts]

    @property
    def num_true(self) -> int:
        """The number of true facts."""
        return sum(found.num_true for found in self.relations.values())

    @property
    def num_false(self) -> int:
        """The number of false facts."""
        return sum(found.num_false for found in self.relations.values())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("dataset", "split", "negatives", "left_out", "num_true", "num_false", "link_map", "fact_map")
        own = {name: getattr(self, name) for name in names}
        return own | {"relations": {name: asdict(found) for name, found in self.relations.items()}}

    def lines(self) -> list[str]:
        """The result in sentences."""
        left_out = f" {counted(self.left_out, 'fact')} left out." if self.left_out else ""
        return [
            f"MAP {100 * self.link_map:.1f} over queries, {100 * self.fact_map:.1f} over all facts of a relation in one list; "
            f"both are means over {counted(len(self.relations), 'relation')}.",
            f"{counted(self.num_true, 'true fact')}, {counted(self.num_false, 'false fact')}: {self.negatives}.{left_out}",
        ]


def sampled_task(dataset: Dataset, split: str = "test", *, num_negatives: int = 10, seed: int = 0) -> FactTask:
    """The facts of a split, and `num_negatives` false ones for each: other tails of the relation in the graph.

    Tails are drawn without replacement for each query, and none is a known answer in any split; where there are fewer, all of
    them are taken.
    """
    queries, known = dataset.splits[split], filtered_answers(dataset, split, complete=True)
    if not len(queries):
        raise DataError(
            f"{dataset.name} has no {split} queries",
            remedy="Split the facts with `hopwalk data split`, and train on the folder it writes.",
        )
    generator, facts = np.random.default_rng(seed), dataset.facts
    asked = np.unique(queries.relations).tolist()
    tails_of = {relation: np.unique(facts.tails[facts.relations == relation]) for relation in asked}
    pairs, counts = np.unique(np.stack([queries.heads, queries.relations], axis=1), axis=0, return_counts=True)
    offsets, answers = known.answers(pairs[:, 0], pairs[:, 1])
    drawn = []
    for row, (relation, count) in enumerate(zip(pairs[:, 1].tolist(), counts.tolist(), strict=True)):
        others = np.setdiff1d(tails_of[relation], answers[offsets[row] : offsets[row + 1]], assume_unique=True)
        drawn.append(generator.permutation(others)[: num_negatives * count])
    sizes = [len(tails) for tails in drawn]
    heads, relations = (np.repeat(pairs[:, column], sizes) for column in (0, 1))
    negatives = Triples(heads, relations, np.concatenate(drawn).astype(np.int32))
    made = f"at most {num_negatives} for each true one, other tails of its relation in the graph, seed {seed}"
    is_true = np.arange(len(queries) + len(negatives)) < len(queries)
    return FactTask(Triples.concatenate([queries, negatives]), is_true, made)


def read_task(path: Path, dataset: Dataset) -> FactTask:
    """The facts and labels of a file, or of DeepPath's released folder of tasks."""
    rows, labels, left_out = [], [], 0
    for *names, is_true in _labelled_facts(path):
        head, relation, tail = names
        if head in dataset.entities and relation in dataset.relations and tail in dataset.entities:
            rows.append((dataset.entities.id(head), dataset.relations.id(relation), dataset.entities.id(tail)))
            labels.append(is_true)
        else:
            left_out += 1
    if not rows:
        raise DataError(f"none of the {left_out} facts has names of {dataset.name} only", path=path, remedy=FORMAT)
    _, distinct = np.unique(Triples.of(rows).array(), axis=0, return_index=True)
    return FactTask(Triples.of(rows)[distinct], np.array(labels)[distinct], f"those of {path.name}", left_out)


def _labelled_facts(path: Path) -> Iterator[tuple[str, str, str, bool]]:
    files = sorted(path.glob(PAIRS)) if path.is_dir() else [path]
    if not files:
        raise DataError(f"the folder has no files {PAIRS}", path=path, remedy=FORMAT)
    for file in files:
        try:
            lines = read_text(file, MOST_TASK_BYTES).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the facts cannot be read ({error})", path=file, remedy=FORMAT) from None
        for number, line in enumerate(lines, start=1):
            if line.strip():
                fields = _released_fields(line, file) if file.suffix == ".pairs" else line.rstrip("\r").split("\t")
                label = LABELS.get(fields[3].strip().lower()) if len(fields) == 4 else None
                if label is None:
                    problem = f"expected head, relation, tail and + or -, found {line[:80]!r}"
                    raise DataError(problem, path=file, line=number, remedy=FORMAT)
                yield fields[0], fields[1], fields[2], label


def _released_fields(line: str, file: Path) -> list[str]:
    """The fields of a line `thing$HEAD,thing$TAIL: +`; the folder is the relation, with _ for its first colon."""
    pair, _, label = line.rpartition(":")
    head, _, tail = pair.partition(",")
    return [head.removeprefix("thing$"), file.parent.name.replace("_", ":", 1), tail.removeprefix("thing$"), label]


def evaluate_facts(task: FactTask, scores: Floats, dataset: Dataset, split: str = "test") -> FactEvaluation:
    """The ranking of the facts by their scores [N], which must be comparable between queries. Ties get the mean rank."""
    if np.isnan(scores).any():
        raise DivergedError("the model diverged: a score is not a number", remedy="Train it with a smaller learning rate.")
    in_query = _groups(task.facts.heads, task.facts.relations)
    num_true, num_false = (np.bincount(in_query[mask], minlength=len(in_query)) for mask in (task.is_true, ~task.is_true))
    kept = ((num_true > 0) & (num_false > 0))[in_query]
    if not kept.any():
        raise DataError("no query has both true and false facts", remedy="Sample more negatives, or give another list.")
    facts, is_true, scores = task.facts[kept], task.is_true[kept], scores[kept]
    no_heads = Triples(np.zeros_like(facts.heads), facts.relations, facts.tails)
    query_relations, by_query = average_precision(ranks_among_false(facts, is_true, scores))
    list_relations, by_list = average_precision(ranks_among_false(no_heads, is_true, scores))
    relations = {}
    for relation, precision in zip(list_relations.tolist(), by_list.tolist(), strict=True):
        own = by_query[query_relations == relation]
        truths = is_true[facts.relations == relation]
        counts = len(own), int(truths.sum()), int((~truths).sum())
        relations[dataset.relations[relation]] = RelationFacts(*counts, float(own.mean()), precision)
    return FactEvaluation(
        dataset=dataset.name,
        split=split,
        negatives=task.negatives,
        left_out=task.left_out + int((~kept).sum()),
        link_map=float(np.mean([found.link_map for found in relations.values()])),
        fact_map=float(np.mean([found.fact_precision for found in relations.values()])),
        relations=dict(sorted(relations.items())),
    )


def ranks_among_false(facts: Triples, is_true: NDArray[np.bool_], scores: Floats) -> Ranks:
    """The rank of every true fact among the false ones of its (head, relation)."""
    groups, places = _groups(facts.heads, facts.relations), np.flatnonzero(is_true)
    values = np.unique(scores, return_inverse=True)[1]  # whole numbers in the order of the scores, -inf included
    width = int(values.max()) + 1
    false = np.sort(groups[~is_true] * width + values[~is_true])
    ends = np.searchsorted(false, (groups[places] + 1) * width)
    own = groups[places] * width + values[places]
    higher, not_lower = ends - np.searchsorted(false, own, side="right"), ends - np.searchsorted(false, own, side="left")
    return Ranks(facts[places], (higher + 1).astype(np.float64), (not_lower + 1).astype(np.float64))


def _groups(heads: Ids, relations: Ids) -> NDArray[np.int64]:
    """The number of the (head, relation) of every fact [N]."""
    numbers: NDArray[np.int64] = np.unique(heads.astype(np.int64) << 32 | relations, return_inverse=True)[1]
    return numbers
