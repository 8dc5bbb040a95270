"""Missing facts that `hopwalk complete` finds, against the best single rule and an embedding scorer, at as many proposals.

    python -m benchmarks.completing [--data planted umls wn18rr] [--runs FOLDER] [--minutes 2]
    python -m benchmarks.completing --tables

Each method proposes facts of the same relations, none that the graph or dev has; a proposal counts as right if test has it. The
single rule of a relation is, of those that `hopwalk rules` prints, the one with the best F1 on dev; its proposals are all pairs
that its body connects, those with more walks first, and of several relations by the confidence of their rules. ComplEx is asked
the same queries as propagation, both ways. Of each relation, as many proposals are compared as its rule makes; the curves are of
the proposals of all relations together.
On WN18RR only 300 heads of test facts are asked, drawn at random, in all relations, and the rule of a relation is chosen on as
many heads of its dev facts. Trained runs are kept in `--runs` and used again.
`--tables` measures nothing and fills in the table of docs/completing.md.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.planted import planted, write_split
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids, Keys, TriplePacking, Triples
from hopwalk.learning.run import Run
from hopwalk.propagation.budget import fit_budget
from hopwalk.reasoning.models import AnswerModel, QueryIds
from hopwalk.reasoning.proposals import FOUND, Proposer, QueryGroups
from hopwalk.reasoning.rule_mining import used_rules
from hopwalk.reasoning.rules import Rule, RuleCounter
from hopwalk.utils.charts import Series, line_chart
from hopwalk.utils.files import write_text

RESULTS = PROJECT / "results" / "completing.json"
PAGE = PROJECT / "docs" / "completing.md"
PICTURE = PROJECT / "docs" / "completing-{}.svg"
ABOVE = 0.001  # probability of the least likely proposals on the curves
ABOVE_SAMPLED = 0.01  # if only some heads are asked
NUM_HEADS = {"wn18rr": 300}  # heads that are asked; others: all that could be
EPOCHS = {"planted": 100, "umls": 100, "wn18rr": 5}  # of ComplEx
COMPLETE, RULE, COMPLEX = "hopwalk complete", "best single rule", "ComplEx alone"
METHODS = (COMPLETE, RULE, COMPLEX)
POINTS = 60  # on a curve
NUM_QUERIES = 100  # whose paths show the rules that are used


@dataclass(frozen=True, eq=False)
class Ranked:
    """Proposed facts as packed keys, the most likely first."""

    keys: Keys

    def without(self, keys: Keys) -> Ranked:
        """The proposals that are not among these facts."""
        return Ranked(self.keys[~np.isin(self.keys, keys)])


@dataclass(frozen=True, eq=False)
class BestRule:
    """A rule, its confidence, and the facts that it proposes, those with most walks first."""

    rule: Rule
    confidence: float
    keys: Keys


def ranked_by_model(model: AnswerModel, relations: Sequence[int], heads: Sequence[int] | None) -> Ranked:
    """The proposals of a model, as `hopwalk complete` ranks them."""
    proposer = Proposer(model, relations, heads, ABOVE if heads is None else ABOVE_SAMPLED)
    queries, nothing = proposer.queries(), np.empty(0, dtype=FOUND)
    found = np.concatenate([nothing, *(proposer.ask(asked) for asked, _ in _batches(queries, model))])
    others = proposer.other_direction(found)
    proposed, probabilities = proposer.proposals(
        np.concatenate([found, *(proposer.look_up(*batch) for batch in _batches(others, model))])
    )
    keys = model.dataset.packing.pack_all(proposed.facts)
    return Ranked(keys[np.argsort(-probabilities, kind="stable")])


def _batches(queries: QueryGroups, model: AnswerModel) -> Iterator[tuple[list[QueryIds], list[list[int]]]]:
    for first in range(0, len(queries), model.queries_at_once):
        yield queries.batch(first, min(first + model.queries_at_once, len(queries)))


def rule_proposals(rule: Rule, dataset: Dataset, known: Keys, heads: Sequence[int] | None) -> tuple[Keys, NDArray[np.int64]]:
    """The new facts that a rule predicts, of some heads or all, those with most walks first, and the number of walks of each."""
    counter = RuleCounter(dataset.facts, dataset)
    rows = np.arange(len(dataset.entities)) if heads is None else np.asarray(heads)
    matrix = counter._directed(*rule.body[0]).astype(np.int64)[rows]
    for step in rule.body[1:]:
        matrix = matrix @ counter._directed(*step).astype(np.int64)
    pairs = matrix.tocoo()
    facts, walks = (rows[pairs.row], pairs.col), pairs.data
    relation = counter._ids[rule.head]
    keys = dataset.packing.pack(facts[0].astype(np.int32), np.full(len(walks), relation, np.int32), facts[1].astype(np.int32))
    is_new = ~np.isin(keys, known)
    if relation not in dataset.loop_relations:
        is_new &= facts[0] != facts[1]
    order = np.argsort(-walks[is_new], kind="stable")
    return keys[is_new][order], walks[is_new][order]


def best_rule(model: AnswerModel, relation: int, known: Keys, dev: Triples, heads: Sequence[int] | None) -> BestRule | None:
    """The printed rule with the best F1 on dev, and its proposals for the heads; None if none proposes anything right on dev."""
    found, data = [], model.dataset
    own_heads = None if heads is None else np.unique(dev.heads).tolist()
    truth = data.packing.pack_all(dev)
    for used in used_rules(model, relation, most_queries=NUM_QUERIES):
        if not used.rule.body:
            continue
        keys, _ = rule_proposals(used.rule, data, known, own_heads)
        right = int(np.isin(keys, truth).sum())
        found.append((2 * right / (len(keys) + len(truth)), used.evidence.confidence, used.rule))
    if not found or not max(found, key=lambda one: one[:2])[0]:
        return None
    _, confidence, rule = max(found, key=lambda one: one[:2])
    return BestRule(rule, confidence, rule_proposals(rule, data, known, heads)[0])


def curve(ranked: Ranked, truth: Keys) -> list[tuple[int, float, float]]:
    """Points of the precision–recall curve: proposals, precision, recall."""
    right = np.cumsum(np.isin(ranked.keys, truth))
    if not len(right):
        return []
    sizes = np.unique(np.geomspace(1, len(right), POINTS).astype(int)).tolist()
    return [(size, float(right[size - 1] / size), float(right[size - 1] / len(truth))) for size in sizes]


def data_of(name: str, folder: Path) -> Dataset:
    """The data set of that name; `planted` is made."""
    if name != "planted":
        return api.load_dataset(name)
    write_split(planted(), folder / "planted")
    return api.load_dataset(folder / "planted")


def train(dataset: Dataset, name: str, model: str, runs: Path, minutes: float) -> tuple[Path, float]:
    """A run of propagation, trained for some minutes at most, or of ComplEx; and the seconds it took."""
    folder = runs / f"{name}-{model}"
    if not Run.is_finished_in(folder):
        shutil.rmtree(folder, ignore_errors=True)  # a run that was interrupted
        overrides = [f"scorer.model={model}", *([f"scorer.epochs={EPOCHS[name]}"] if model == "complex" else [])]
        settings = api.settings_for(name, overrides=overrides, dataset=dataset)
        if model == "propagation":
            fitted = fit_budget(dataset, settings, minutes)
            settings = min(settings, fitted, key=lambda one: one.propagation.queries)
        api.train_scorer(dataset, settings, out=folder)
    return folder, float(api.load(folder).run.about["seconds"])


def measure(name: str, runs: Path, minutes: float) -> dict[str, Any]:
    """All methods on one data set."""
    dataset = data_of(name, runs)
    (propagation, seconds), (embedding, _) = (train(dataset, name, one, runs, minutes) for one in ("propagation", "complex"))
    model, other = (api.load(run).model for run in (propagation, embedding))
    heads, test, most = None, dataset.test, NUM_HEADS.get(name)
    if most is not None:
        heads = np.unique(np.random.default_rng(0).permutation(np.unique(test.heads))[:most])
        test = test[np.isin(test.heads, heads)]
    known = dataset.packing.pack_all(Triples.concatenate([dataset.facts, dataset.valid]))
    chosen = None if heads is None else heads.tolist()
    relations, rules, by_rule = [], {}, []
    for relation in np.unique(test.relations).tolist():
        dev = dataset.valid[dataset.valid.relations == relation]
        if most is not None:
            dev = dev[np.isin(dev.heads, np.random.default_rng(0).permutation(np.unique(dev.heads))[:most])]
        best = best_rule(model, relation, dataset.packing.pack_all(dataset.facts), dev, chosen) if len(dev) else None
        if best is not None:
            relations.append(relation)
            rules[dataset.relations.name(relation)] = {
                "rule": str(best.rule),
                "confidence": best.confidence,
                "proposals": len(best.keys),
            }
            by_rule.append(best)
    truth = dataset.packing.pack_all(test[np.isin(test.relations, relations)])
    started = time.perf_counter()
    lists = {COMPLETE: ranked_by_model(model, relations, chosen)}
    asking = time.perf_counter() - started
    lists[COMPLEX] = ranked_by_model(other, relations, chosen)
    lists[RULE] = Ranked(np.concatenate([best.keys for best in sorted(by_rule, key=lambda one: -one.confidence)]))
    lists = {method: ranked.without(known) for method, ranked in lists.items()}
    return {
        "relations": len(relations),
        "heads_asked": "all" if heads is None else len(heads),
        "test_facts": len(truth),
        "rules": rules,
        "seconds": {"training": round(seconds, 1), "asking": round(asking, 1)},
        **compared(lists, truth, dataset.packing),
    }


def compared(lists: dict[str, Ranked], truth: Keys, packing: TriplePacking) -> dict[str, Any]:
    """The right proposals of each method: of each relation as many as its rule makes, or the most likely of all; and curves."""
    size, methods = len(lists[RULE].keys), {}
    for method in METHODS:
        keys = lists[method].keys
        by_relation = keys[_among_first(packing.unpack(keys).relations, packing.unpack(lists[RULE].keys).relations)]
        right, pooled = (int(np.isin(chosen, truth).sum()) for chosen in (by_relation, keys[:size]))
        methods[method] = {
            "right": right,
            "precision": right / max(len(by_relation), 1),
            "recall": right / max(len(truth), 1),
            "right_of_most_likely": pooled,
            "curve": [[count, round(p, 4), round(r, 4)] for count, p, r in curve(lists[method], truth)],
        }
    return {"proposals": size, "methods": methods}


def _among_first(relations: Ids, of_rules: Ids) -> NDArray[np.bool_]:
    """Which proposals, given their relations in order, are among the first of their relation, as many as rules have of it."""
    wanted = dict(zip(*(values.tolist() for values in np.unique(of_rules, return_counts=True)), strict=True))
    chosen = np.zeros(len(relations), dtype=np.bool_)
    for relation, count in wanted.items():
        chosen[np.flatnonzero(relations == relation)[:count]] = True
    return chosen


def chart(name: str, row: dict[str, Any]) -> str:
    """Precision over recall as SVG."""
    lines = []
    for method in METHODS:
        points = [(100 * recall, 100 * precision) for size, precision, recall in row["methods"][method]["curve"] if size >= 10]
        lines.append(Series(method, points))
    title = f"{name}: proposed facts that are in test"
    return line_chart(title, lines, x_label="recall (%)", y_label="precision (%)", from_zero=True)


def table(rows: dict[str, Any]) -> list[list[str]]:
    """The rows of the table in docs/completing.md."""
    shown = [["data", "relations", "test facts", "proposals", *(f"right: {method}" for method in METHODS)]]
    for name, row in rows.items():
        counts = [f"{row[key]:,}" for key in ("relations", "test_facts", "proposals")]
        shown.append([name, *counts, *(f"{row['methods'][method]['right']:,}" for method in METHODS)])
    return shown


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "completing", markdown_table(table(load_results(RESULTS)["rows"])))


def main() -> None:
    """Measure and write results and pictures, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--data", nargs="*", default=["planted", "umls", "wn18rr"])
    parser.add_argument("--runs", type=Path, help="a folder to keep trained runs in")
    parser.add_argument("--minutes", type=float, default=2.0, help="most minutes to train propagation for")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in given.data:
            row = measure(name, given.runs or Path(folder), given.minutes)
            found = load_results(RESULTS) or {"rows": {}}
            found["rows"][name] = row | {"minutes": given.minutes, "machine": asdict(describe_machine())}
            write_results(RESULTS, found)
            write_text(Path(str(PICTURE).format(name)), chart(name, row))
            Console().print(
                {method: {**row["methods"][method], "curve": ""} for method in METHODS}, row["proposals"], row["rules"]
            )


if __name__ == "__main__":
    main()
