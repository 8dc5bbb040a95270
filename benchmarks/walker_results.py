"""Train walkers by their recipes, rank dev and test, and keep what came out in `results/walkers/`, one file per run.

    python -m benchmarks.walker_results umls:complex:modern:0,1,2 kinship:complex:paper --set walker.action_dropout=0

Each argument is DATA:SCORER:RECIPE[:SEEDS]; SCORER is "none", the name of a model, whose run with the same seed (or else seed 0)
is taken from `runs/results/`, or a run folder there. Runs go to `runs/results/`; one that was interrupted goes on where it
stopped, one that is finished is not trained again. With no arguments, the tables in README and docs are filled in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import PROJECT, describe_source
from benchmarks.scorer_results import RUNS, Printer, make_what_is_named
from hopwalk import api
from hopwalk.config import Settings, load_settings
from hopwalk.paper.recording import WALKER_HISTORY, about_scorer, measure
from hopwalk.published import TABLE_2
from hopwalk.run import Run, write_text

RESULTS = PROJECT / "results" / "walkers"
RANKINGS = ("paths", "scorer", "blend")


def make_result(data: str, scorer: str, recipe: str, seed: int, overrides: list[str], name: str, note: str) -> Path:
    """Train or go on with a run, evaluate it, and write its result; the file."""
    said = [f"walker.recipe={recipe}", f"walker.seed={seed}", *overrides]
    if scorer == "none":
        said += ["walker.reward_shaping=false", "walker.guidance=0.0"]
    settings = load_settings(data, overrides=said)
    folder, begun = RUNS / f"walker-{name}", RUNS / f"walker-{name}.source.json"  # of when the run began
    if not begun.exists():
        write_text(begun, json.dumps(describe_source()))
    reward = _scorer_run(data, scorer, seed)
    run = api.train(
        api.load_dataset(data),
        settings,
        out=folder,
        scorer=reward,
        resume=True,
        make_watchers=lambda *_: [Printer(f"walker-{name}")],
    )
    changes = " ".join(f"--set {override}" for override in said[2:])
    about = run.about
    result = {
        "name": name,
        "command": f"hopwalk train {data} --walker {recipe} --seed {seed} {_reward_option(reward)} {changes}".replace(
            "  ", " "
        ).strip(),
        "note": note,
        "source": json.loads(begun.read_text(encoding="utf-8")),
        "data": about["dataset"],
        "settings": {group: getattr(run.settings, group).model_dump() for group in ("graph", "walk", "walker")},
        "scorer": about_scorer(folder),
        "status": about["status"],
        "threads": about["threads"],
        "training_seconds": about["seconds"],
        "evaluation_seconds": round(sum(record["evaluation_seconds"] for record in run.history), 1),
        "peak_memory_bytes": about["peak_memory_bytes"],
        "epochs": about["epochs"],
        "best_epoch": about["best_epoch"],
        "blend_weight": about.get("blend_weight"),
        "valid_mrr_by": about.get("valid_mrr_by"),
        "history": [{key: record[key] for key in WALKER_HISTORY if key in record} for record in run.history],
    }
    result |= measure("walker", folder, has_learnt_dev=run.settings.walker.learn_valid)
    write_text(RESULTS / f"{name}.json", json.dumps(result, indent=1) + "\n")
    return RESULTS / f"{name}.json"


def _scorer_run(data: str, scorer: str, seed: int) -> Path | None:
    names = [scorer, f"{data}-{scorer}-modern-{seed}", f"{data}-{scorer}-modern-0"]
    return None if scorer == "none" else next(RUNS / name for name in names if (RUNS / name / "run.json").exists())


def _reward_option(reward: Path | None) -> str:
    if reward is None:
        return ""
    settings: Settings = Run.open(reward).settings
    return f"--reward {settings.scorer.model}" if Run.open(reward).about["kind"] == "scorer" else "--reward ENSEMBLE"


def results() -> list[dict[str, Any]]:
    """All results there are."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]


def walkers_table() -> str:
    """Test MRR of tails of walkers on every set, by paths alone, by the scorer alone and by the blend."""
    lines = [
        "| data, walker | scorer | seeds | paths | paper's best walker | scorer alone | blend | unreached | epochs | seconds |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results():
        groups.setdefault((result["data"]["name"], result["name"].rpartition("-")[0]), []).append(result)
    order = list(TABLE_2)
    for (data, name), group in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        scorer = group[0]["scorer"]
        best = max(numbers[2] for model, numbers in TABLE_2[data].items() if model.startswith("walker"))
        cells = [
            f"{data}, {name.removeprefix(f'{data}-')}",
            "-" if scorer is None else "ensemble" if scorer["kind"] == "ensemble" else scorer["settings"]["model"],
            f"{len(group)}",
            _spread([100 * result["test"]["paths"]["tails"]["mrr"] for result in group]),
            f"{best}",
            *(_spread([100 * r["test"][by]["tails"]["mrr"] for r in group]) if scorer else "-" for by in ("scorer", "blend")),
            f"{100 * np.mean([result['test']['paths']['tails']['unreached'] for result in group]):.1f} %",
            f"{np.mean([result['epochs'] for result in group]):.0f}",
            f"{np.mean([result['training_seconds'] for result in group]):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def with_tables(page: str) -> str:
    """The text of a page with its table of walkers as it is now, between `<!-- walkers -->` and `<!-- end -->`."""
    return re.sub(r"<!-- walkers -->.*?<!-- end -->", f"<!-- walkers -->\n{walkers_table()}\n<!-- end -->", page, flags=re.DOTALL)


if __name__ == "__main__":
    make_what_is_named(__doc__, make_result, with_tables, recipe_first=True)
