"""From a run folder to what the ledger says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopwalk import api
from hopwalk.paper.source import describe_source
from hopwalk.paper.wanted import Wanted
from hopwalk.run import Run, write_text

SCORER_HISTORY = ("epoch", "loss", "seconds", "valid_mrr")
WALKER_HISTORY = (
    "epoch",
    "seconds",
    "loss",
    "reward",
    "entropy",
    "hits",
    "false_negative_hits",
    "unique_paths",
    "guidance",
    "valid_mrr",
    "valid_unreached",
)
OF_SCORER = ("filter", "ties", "tails", "heads", "both", "strata")
OF_WALKER = ("filter", "ties", "tails", "strata")


def note_beginning(folder: Path) -> None:
    """Keep beside the folder what source and machine the run began with, should it go on another day."""
    if not (begun := _begun_file(folder)).exists():
        begun.parent.mkdir(parents=True, exist_ok=True)
        write_text(begun, json.dumps(describe_source()))


def _begun_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.source.json")


def describe(wanted: Wanted, folder: Path) -> dict[str, Any]:
    """What a run says of itself, finished or not, without metrics."""
    run = Run.open(folder)
    about, history, begun = run.about, run.history, _begun_file(folder)
    is_finished = about.get("status") == "finished"
    last = history[-1] if history else {}
    best = max(history, key=lambda record: record.get("valid_mrr", record["epoch"]), default={})
    names = SCORER_HISTORY if wanted.kind == "scorer" else WALKER_HISTORY
    groups = {group: getattr(run.settings, group).model_dump() for group in ("graph", "walk", "walker")}
    content = {
        "name": wanted.name,
        "kind": wanted.kind,
        "command": wanted.command,
        "note": "",
        "source": json.loads(begun.read_text(encoding="utf-8")) if begun.exists() else describe_source(),
        "data": about["dataset"],
        "settings": run.settings.scorer.model_dump() if wanted.kind == "scorer" else groups,
        "status": "finished" if is_finished else "unfinished",
        "threads": about.get("threads"),
        "training_seconds": about["seconds"] if is_finished else last.get("seconds", 0.0),
        "evaluation_seconds": round(sum(record["evaluation_seconds"] for record in history), 1),
        "peak_memory_bytes": about.get("peak_memory_bytes"),
        "epochs": about["epochs"] if is_finished else last.get("epoch", 0),
        "best_epoch": about["best_epoch"] if is_finished else best.get("epoch", 0),
        "history": [{name: record[name] for name in names if name in record} for record in history],
    }
    if wanted.kind == "walker":
        content |= {"scorer": about_scorer(folder)}
        content |= {name: about.get(name) for name in ("blend_weight", "valid_mrr_by")}
    else:
        content |= {name: about.get(name) for name in ("calibration", "reliability")}
    return content


def measure(kind: str, folder: Path, *, has_learnt_dev: bool, splits: tuple[str, ...] = ()) -> dict[str, Any]:
    """The metrics of a finished run on dev, on dev with the complete graph, and on test; or some of the three."""
    wanted = splits or (("test",) if has_learnt_dev else ("valid", "valid_complete_filter", "test"))
    found = {}
    for name in wanted:
        split, complete = ("test", False) if name == "test" else ("valid", name == "valid_complete_filter")
        if kind == "walker":
            evaluations = api.evaluate_walker(folder, split, complete_filter=complete)
            found[name] = {by: _some(evaluation.to_dict(), OF_WALKER) for by, evaluation in evaluations.items()}
        else:
            found[name] = _some(api.evaluate(folder, split, complete_filter=complete).to_dict(), OF_SCORER)
    return found


def _some(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def about_scorer(folder: Path) -> dict[str, Any] | None:
    """What rewards the walker of a folder; None for nothing."""
    if not (folder / "scorer" / "run.json").exists():
        return None
    run = Run.open(folder / "scorer")
    wanted = ("kind", "members", "valid_mrr", "seconds", "best_epoch")
    return {"settings": run.settings.scorer.model_dump()} | {key: run.about[key] for key in wanted if key in run.about}
