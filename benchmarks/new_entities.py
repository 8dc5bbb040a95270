"""Questions about entities that training never saw: a tenth is taken out of training, and their facts are added afterwards.

    python -m benchmarks.new_entities [--data umls wn18rr] [--queries 40000]
    python -m benchmarks.new_entities --tables

Propagation is trained on the facts that do not mention the new entities, then put on the graph of all training facts. Its test
questions for tails are divided into those that mention a new entity, as head or as answer, and the others. ComplEx is trained on
the same facts: it has embeddings of the new entities too, but nothing was learnt about them, and facts cannot be added.
`--tables` measures nothing and fills in the table in docs/propagation.md.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.learning.metrics import bootstrap_interval
from hopwalk.learning.ranking import filtered_answers, rank_answers
from hopwalk.learning.scorer import PathScorer, Scorer

SHARE = 0.1
RESULTS = PROJECT / "results" / "new-entities.json"
PAGE = PROJECT / "docs" / "propagation.md"
TITLES = (
    "data",
    "new entities",
    "facts added",
    "questions about new ones",
    "before their facts",
    "others",
    "ComplEx, new",
    "others",
)


def choose_new(dataset: Dataset, seed: int) -> NDArray[np.bool_]:
    """A tenth of the entities, at random: a mask of all [E]."""
    is_new = np.zeros(len(dataset.entities), dtype=np.bool_)
    is_new[np.random.default_rng(seed).permutation(len(is_new))[: round(SHARE * len(is_new))]] = True
    return is_new


def mentions(triples: Triples, is_new: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which triples mention a new entity [N]."""
    mentioned: NDArray[np.bool_] = is_new[triples.heads] | is_new[triples.tails]
    return mentioned


def without(dataset: Dataset, is_new: NDArray[np.bool_]) -> Dataset:
    """The data set without the facts and queries that mention a new entity; ids stay the same."""
    facts = dataset.facts[~mentions(dataset.facts, is_new)]
    train = dataset.train[~mentions(dataset.train, is_new)] if dataset.has_own_facts else facts
    valid, test = (part[~mentions(part, is_new)] for part in (dataset.valid, dataset.test))
    return replace(dataset, facts=facts, train=train, valid=valid, test=test)


def train(dataset: Dataset, name: str, overrides: list[str]) -> tuple[Scorer, dict[str, Any]]:
    """A scorer with the preset of the data set, and what its training took."""
    settings = api.settings_for(name, overrides=overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = api.train_scorer(dataset, settings, out=Path(folder) / "run")
        about = {key: run.about[key] for key in ("epochs", "seconds", "threads", "valid_mrr")}
        return api.load_scorer(run.path), about | {"overrides": overrides}


def mrr_by_part(scorer: Scorer, dataset: Dataset, is_new: NDArray[np.bool_]) -> dict[str, Any]:
    """The MRR of test tails, of questions that mention a new entity and of the others, with bootstrap intervals."""
    known = filtered_answers(dataset, "test")
    ranks = rank_answers(scorer.compact_scores, dataset.test, known, num_entities=len(dataset.entities))
    is_about_new = mentions(dataset.test, is_new)
    found: dict[str, Any] = {}
    for part, rows in (("new", is_about_new), ("others", ~is_about_new)):
        reciprocal = 1 / ranks[rows].realistic
        interval = [round(bound, 4) for bound in bootstrap_interval(reciprocal)]
        found[part] = {"queries": int(rows.sum()), "mrr": float(reciprocal.mean()), "interval_95": interval}
    return found


def measure(name: str, queries: int, epochs: int, seed: int) -> dict[str, Any]:
    """Propagation and, with any epochs, ComplEx on one data set."""
    dataset = api.load_dataset(name)
    is_new = choose_new(dataset, seed)
    seen = without(dataset, is_new)
    counts = {"new_entities": int(is_new.sum()), "facts": len(seen.facts), "facts_added": len(dataset.facts) - len(seen.facts)}
    scorer, about = train(seen, name, ["scorer.model=propagation", f"propagation.queries={queries}"])
    assert isinstance(scorer, PathScorer)
    whole = scorer.with_graph(dataset.facts, len(dataset.entities))
    found = {
        **counts,
        "seed": seed,
        "propagation": {
            **about,
            "queries": queries,
            "before_their_facts": mrr_by_part(scorer, dataset, is_new),
            "with_their_facts": mrr_by_part(whole, dataset, is_new),
        },
    }
    if epochs:
        embedding, about = train(seen, name, ["scorer.model=complex", f"scorer.epochs={epochs}"])
        found["complex"] = about | mrr_by_part(embedding, dataset, is_new)
    return found


def table(rows: dict[str, Any]) -> list[list[str]]:
    """The rows of the table in docs/propagation.md."""
    shown = [list(TITLES)]
    for name, row in rows.items():
        own, other = row["propagation"], row.get("complex")
        mrr = [own["with_their_facts"]["new"], own["before_their_facts"]["new"], own["with_their_facts"]["others"]]
        embedding = [f"{100 * other[part]['mrr']:.1f}" if other else "–" for part in ("new", "others")]
        counts = [f"{row['new_entities']:,}", f"{row['facts_added']:,}"]
        shown.append([name, *counts, *(f"{100 * part['mrr']:.1f}" for part in mrr), *embedding])
    return shown


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "propagation: new entities", markdown_table(table(load_results(RESULTS)["rows"])))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--data", nargs="*", default=["umls", "wn18rr"])
    parser.add_argument("--queries", type=int, default=40_000, help="training queries of propagation")
    parser.add_argument("--epochs", type=int, default=20, help="of ComplEx; 0: not trained")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of new entities")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    found = load_results(RESULTS) or {"rows": {}}
    for name in given.data:
        found["rows"][name] = measure(name, given.queries, given.epochs, given.seed) | {"machine": asdict(describe_machine())}
        Console().print(found["rows"][name])
        write_results(RESULTS, found)


if __name__ == "__main__":
    main()
