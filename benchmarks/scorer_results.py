"""Train scorers by their recipes, rank dev and test, and keep what came out in `results/scorers/`, one file per run.

    python -m benchmarks.scorer_results umls:complex:modern:0,1,2 wn18rr:distmult:modern

Each argument is DATA:SCORER:RECIPE[:SEEDS]. Runs go to `runs/results/`; one that was interrupted goes on where it stopped, one
that is finished is not trained again. A result says which command made it, on which commit and machine, and how long it took.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import PROJECT, describe_source
from hopwalk import api
from hopwalk.config import load_settings
from hopwalk.paper.recording import SCORER_HISTORY, measure
from hopwalk.published import TABLE_2
from hopwalk.run import write_text

RUNS = PROJECT / "runs" / "results"
RESULTS = PROJECT / "results" / "scorers"
MakeResult = Callable[[str, str, str, int, list[str], str, str], Path]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


def make_result(data: str, scorer: str, recipe: str, seed: int, overrides: list[str], name: str, note: str) -> Path:
    """Train or go on with a run, evaluate it, and write its result; the file."""
    said = [f"scorer.model={scorer}", f"scorer.recipe={recipe}", f"scorer.seed={seed}", *overrides]
    settings = load_settings(data, overrides=said)
    folder = RUNS / name
    begun = RUNS / f"{name}.source.json"  # of when the run began, should it go on another day
    if not begun.exists():
        write_text(begun, json.dumps(describe_source()))
    source = json.loads(begun.read_text(encoding="utf-8"))
    run = api.train_scorer(api.load_dataset(data), settings, out=folder, resume=True, watcher=Printer(name))
    changes = " ".join(f"--set {override}" for override in overrides)
    about = run.about
    result = {
        "name": name,
        "command": f"hopwalk train {data} --scorer {scorer} --recipe {recipe} --seed {seed} {changes}".strip(),
        "note": note,
        "source": source,
        "data": about["dataset"],
        "settings": run.settings.scorer.model_dump(),
        "status": about["status"],
        "threads": about["threads"],
        "training_seconds": about["seconds"],
        "evaluation_seconds": round(sum(record["evaluation_seconds"] for record in run.history), 1),
        "peak_memory_bytes": about["peak_memory_bytes"],
        "epochs": about["epochs"],
        "best_epoch": about["best_epoch"],
        "history": [{key: record.get(key) for key in SCORER_HISTORY} for record in run.history],
        "calibration": about["calibration"],
        "reliability": about["reliability"],
    }
    result |= measure("scorer", folder, has_learnt_dev=run.settings.scorer.learn_valid)
    path = RESULTS / f"{name}.json"
    write_text(path, json.dumps(result, indent=1) + "\n")
    return path


TITLES = {"distmult": "DistMult", "complex": "ComplEx", "conve": "ConvE"}
PAPER = {  # test MRR of tails
    scorer: {data: numbers[title][2] for data, numbers in TABLE_2.items()} for scorer, title in TITLES.items()
}


def results_by_run() -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The results of runs by nothing but their recipe, by scorer, data set and recipe; one for each seed."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        settings, data = result["settings"], result["data"]["name"]
        if result["name"] == "-".join([data, settings["model"], settings["recipe"], str(settings["seed"])]):
            found.setdefault((settings["model"], data, settings["recipe"]), []).append(result)
    return found


def overview_table() -> str:
    """Test MRR of tails of every scorer and recipe on every set, the paper's in brackets."""
    found = results_by_run()
    recipes = sorted({(scorer, recipe) for scorer, _, recipe in found})
    data_sets = list(PAPER["complex"])
    lines = [f"| scorer, recipe | {' | '.join(data_sets)} |", f"|---|{'---:|' * len(data_sets)}"]
    for scorer, recipe in recipes:
        cells = []
        for data in data_sets:
            results = found.get((scorer, data, recipe))
            cells.append(f"{_mean(results, 'tails', 'mrr'):.1f} ({PAPER[scorer][data]})" if results else "")
        lines.append(f"| {scorer}, {recipe} | {' | '.join(cells)} |")
    return "\n".join(lines)


def scorer_table(scorer: str) -> str:
    """The numbers of one scorer on every set."""
    lines = [
        "| data, recipe | seeds | MRR | paper | hits@1 | hits@10 | both ways | dev MRR | epochs | seconds | calibration error |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for data in PAPER[scorer]:
        for recipe in ("modern", "paper"):
            results = results_by_run().get((scorer, data, recipe))
            if not results:
                continue
            mrrs = [100 * result["test"]["tails"]["mrr"] for result in results]
            cells = [
                f"{data}, {recipe}",
                f"{len(results)}",
                f"{np.mean(mrrs):.1f}" + (f" ± {np.std(mrrs, ddof=1):.1f}" if len(mrrs) > 1 else ""),
                f"{PAPER[scorer][data]}",
                f"{_mean(results, 'tails', 'hits@1'):.1f}",
                f"{_mean(results, 'tails', 'hits@10'):.1f}",
                f"{_mean(results, 'both', 'mrr'):.1f}",
                f"{np.mean([100 * result['valid']['tails']['mrr'] for result in results]):.1f}",
                f"{np.mean([result['best_epoch'] for result in results]):.0f}",
                f"{np.mean([result['training_seconds'] for result in results]):.0f}",
                f"{np.mean([result['reliability']['top_error'] for result in results]):.3f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(results: list[dict[str, Any]], direction: str, metric: str) -> float:
    return 100 * float(np.mean([result["test"][direction][metric] for result in results]))


def with_tables(page: str) -> str:
    """The text of a page with its tables of results as they are now, between `<!-- results: NAME -->` and `<!-- end -->`."""

    def table(mark: re.Match[str]) -> str:
        name = mark["name"]
        made = overview_table() if name == "overview" else candidates_table() if name == "candidates" else scorer_table(name)
        return f"<!-- results: {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- results: (?P<name>\w+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def candidates_table() -> str:
    """What sampling candidates does: runs that are named after it, with few dimensions and epochs."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*-candidates-*.json")]
    lines = ["| data | candidates | dev MRR | test MRR | seconds |", "|---|---:|---:|---:|---:|"]
    for result in sorted(found, key=lambda result: (result["data"]["name"], result["settings"]["candidates"] or 10**9)):
        candidates = result["settings"]["candidates"]
        lines.append(
            f"| {result['data']['name']} | {f'{candidates:,}' if candidates else 'all'} "
            f"| {100 * result['valid']['tails']['mrr']:.1f} | {100 * result['test']['tails']['mrr']:.1f} "
            f"| {result['training_seconds']:.0f} |"
        )
    return "\n".join(lines)


class Printer:
    """A line for every evaluation."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: object) -> None:
        """Nothing."""

    def on_evaluation(self, record: Any) -> None:
        """One line."""
        shown = f"epoch {record['epoch']} loss {record['loss']:.4f} {record['seconds']:.0f} s"
        reached = f"dev MRR {100 * record['valid_mrr']:.2f}" if "valid_mrr" in record else "no dev questions"
        print(f"{self._name}: {shown} {reached}", flush=True)


def make_what_is_named(about: str, make: MakeResult, fill: Callable[[str], str], *, recipe_first: bool = False) -> None:
    """Make the results that the command line names, or fill in the tables if it names none."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", metavar="DATA:SCORER:RECIPE[:SEEDS]", help="none: fill in the tables of the docs")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="NAME=VALUE")
    parser.add_argument("--name", default="", help="ending of the result's name, for runs with other settings than the recipe's")
    parser.add_argument("--note", default="", help="what a reader should know of the circumstances")
    given = parser.parse_args()
    for page in [] if given.wanted else PAGES:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) != text:
            write_text(page, filled)
            print(f"{page.name}: tables filled in")
    for wanted in given.wanted:
        data, scorer, recipe, *seeds = wanted.split(":")
        for seed in (seeds[0] if seeds else "0").split(","):
            names = [recipe, scorer] if recipe_first else [scorer, recipe]
            parts = [data, *names, *([given.name] if given.name else []), seed]
            print(make(data, scorer, recipe, int(seed), given.overrides, "-".join(parts), given.note))


if __name__ == "__main__":
    make_what_is_named(__doc__, make_result, with_tables)
