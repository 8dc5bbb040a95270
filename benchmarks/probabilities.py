"""How true the probabilities of answers are, whether both directions agree, and how well answers rank by them.

    python -m benchmarks.probabilities RUN [RUN …] [--queries 1000] [--candidates 8000] [--mixed]
    python -m benchmarks.probabilities --tables

For each run of a scorer, probabilities of facts are fitted on dev again, and measured on test. `disagreement` is the mean
distance between the probabilities of the same test fact asked from its head and from its tail: with the calibration of one
direction, which hopwalk showed before, and with probabilities of facts. The MRR is that of at most so many test queries in either
direction, by score and as `hopwalk ask` ranks. `--candidates` is the most queries that test answers whose candidates are
compared, with four times as many others. `--mixed` measures the error once more with dev and test mixed at random before the
fit: what it would be if dev were drawn like test. `--tables` fills in the table in docs/probabilities.md.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.learning.metrics import metrics
from hopwalk.learning.probability_fit import fit_probability, measure_probability
from hopwalk.learning.ranking import filtered_answers, rank_answers, sample_queries
from hopwalk.learning.run import Run
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel, Candidates
from hopwalk.reasoning.probabilities import asked_scores, probabilities

RESULTS = PROJECT / "results" / "probabilities.json"
PAGE = PROJECT / "docs" / "probabilities.md"
NUM_FACTS = 300  # of test, asked from both ends
TITLES = (
    "data",
    "error on test",
    "of likely ones",
    "by chance",
    "worst relation",
    "disagreement before",
    "now",
    "tails by score",
    "as asked",
    "heads by score",
    "as asked",
)


def asked_one_way(model: AnswerModel, facts: Triples) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The probability of each fact as an answer of its query [N]; 0 if it is not reached."""
    queries = list(zip(facts.heads.tolist(), facts.relations.tolist(), strict=True))
    found = model.rank(queries).candidates
    own: list[Candidates] = [one.part(one.entities == tail) for one, tail in zip(found, facts.tails.tolist(), strict=True)]
    chances = probabilities(model, queries, own)
    assert chances is not None
    return np.array([float(one[0]) if len(one) else 0.0 for one in chances])


def disagreement(model: AnswerModel, facts: Triples) -> float:
    """The mean distance between the probabilities of facts asked from either end."""
    turned = Triples(facts.tails, model.dataset.relation_ids.inverse(facts.relations), facts.heads)
    return float(np.abs(asked_one_way(model, facts) - asked_one_way(model, turned)).mean())


def mixed(data: Dataset) -> Dataset:
    """The same data with the facts of dev and test dealt out again at random, as many to each."""
    both = Triples.concatenate([data.valid, data.test])
    both = both[np.random.default_rng(0).permutation(len(both))]
    return replace(data, valid=both[: len(data.valid)], test=both[len(data.valid) :])


def without_known(data: Dataset) -> dict[str, float]:
    """The share of facts whose head has no known fact of the relation, in dev and in test."""
    known = KnownAnswers([data.facts, data.train], len(data.entities), len(data.relations))
    return {
        split: float((known.counts(data.splits[split].heads, data.splits[split].relations) == 0).mean())
        for split in ("valid", "test")
    }


def error_of(model: AnswerModel, data: Dataset, num_candidates: int) -> dict[str, Any]:
    """The reliability of probabilities that are fitted on dev, on dev by cross-validation and on test."""
    fitted = fit_probability(model.score_all_tails, data)
    assert fitted is not None, "dev has too few facts"
    on_test = measure_probability(model.score_all_tails, fitted[0], data, most_queries=num_candidates)
    assert on_test is not None
    return {"on_dev": fitted[1].to_dict(), "on_test": on_test.to_dict()}


def measure(folder: Path, num_queries: int, num_candidates: int) -> dict[str, Any]:
    """All measurements of a run."""
    run = Run.open(folder)
    model = load_model(run)
    data, start = model.dataset, perf_counter()
    fitted = fit_probability(model.score_all_tails, data)
    assert fitted is not None, "dev has too few facts"
    seconds = perf_counter() - start
    facts = sample_queries(data.test, NUM_FACTS)
    model.probability = None
    before = disagreement(model, facts)
    model.probability = fitted[0]
    on_test = measure_probability(model.score_all_tails, fitted[0], data, most_queries=num_candidates)
    assert on_test is not None
    found: dict[str, Any] = {
        "model": run.settings.scorer.model,
        "dev_mrr": run.about.get("valid_mrr"),
        "seconds_to_fit": round(seconds, 1),
        "on_dev": fitted[1].to_dict(),
        "on_test": on_test.to_dict(),
        "disagreement_before": before,
        "disagreement": disagreement(model, facts),
    }
    known, queries = filtered_answers(data, "test"), sample_queries(data.test, num_queries)
    turned = Triples(queries.tails, data.relation_ids.inverse(queries.relations), queries.heads)
    for name, part in (("tails", queries), ("heads", turned)):
        for way, score in (("by_score", model.score_all_tails), ("as_asked", partial(asked_scores, model))):
            ranks = rank_answers(score, part, known, num_entities=len(data.entities))
            found[f"{name}_{way}"] = metrics(ranks).mrr
    return found | {"queries": len(queries), "candidates": num_candidates, "without_known": without_known(data)}


def table(rows: dict[str, Any]) -> list[list[str]]:
    """The rows of the table in docs/probabilities.md."""
    shown = [list(TITLES)]
    for name, row in rows.items():
        worst = row["on_test"]["relations"][:1]
        text = f"{worst[0][0]} {worst[0][1]:.2f} / {worst[0][2]:.2f} ± {worst[0][4]:.2f}" if worst else "–"
        numbers = [f"{100 * row[f'{end}_{way}']:.1f}" for end in ("tails", "heads") for way in ("by_score", "as_asked")]
        errors = [f"{row['on_test'][key]:.3f}" for key in ("error", "likely_error", "chance")]
        shown.append([name, *errors, text, f"{row['disagreement_before']:.3f}", f"{row['disagreement']:.3f}", *numbers])
    return shown


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "probabilities", markdown_table(table(load_results(RESULTS)["rows"])))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--queries", type=int, default=1000, help="test queries in each direction")
    parser.add_argument("--candidates", type=int, default=8000, help="queries of test whose candidates are compared")
    parser.add_argument("--mixed", action="store_true", help="measure only with dev and test mixed at random")
    given = parser.parse_args()
    for folder in given.runs:
        name = Run.open(folder).dataset.name
        if given.mixed:
            model = load_model(Run.open(folder))
            part, row = "mixed", error_of(model, mixed(model.dataset), given.candidates)
        else:
            part, row = "rows", measure(folder, given.queries, given.candidates) | {"machine": asdict(describe_machine())}
        Console().print({key: value for key, value in row.items() if key not in ("machine", "on_dev")})
        found = load_results(RESULTS) or {}  # now: another process may have written meanwhile
        found[part] = found.get(part, {}) | {name: row}
        write_results(RESULTS, found)
    if given.tables:
        fill_page(PAGE, with_tables)


if __name__ == "__main__":
    main()
