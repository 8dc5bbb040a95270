"""From a run folder to its result in the ledger."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopwalk.config.loading import load_settings, preset_names
from hopwalk.errors import RunError
from hopwalk.learning.run import Run
from hopwalk.paper.ledger import GROUPS, Ledger
from hopwalk.paper.source import describe_source
from hopwalk.reasoning.evaluating import SCORER, evaluate_run
from hopwalk.scorers.runs import setting_groups
from hopwalk.utils.files import parse_json, read_text, write_text
from hopwalk.walker.runs import STARTED_FROM

SCORER_HISTORY = ("epoch", "queries", "loss", "seconds", "valid_mrr")
WALKER_HISTORY = (
    "epoch",
    "seconds",
    "loss",
    "reward",
    "entropy",
    "hits",
    "false_negative_hits",
    "unique_paths",
    "valid_mrr",
    "valid_unreached",
)
OF_SCORER = ("filter", "ties", "tails", "heads", "both", "strata")
OF_WALKER = ("filter", "ties", "tails", "strata")


def record_beginning(folder: Path) -> None:
    """Write the source and machine that a run begins with beside its folder, in case it is resumed later."""
    if not (beginning := _beginning_file(folder)).exists():
        write_text(beginning, json.dumps(describe_source()))


def _beginning_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.source.json")


def record(folder: str | Path, ledger: Ledger, *, name: str = "", note: str = "", untrained_control: bool = False) -> Path:
    """Evaluate a finished run and add it to a ledger, by default under the name of its folder. Returns the file."""
    folder = Path(folder)
    run = Run.open(folder)
    if not run.is_finished:
        raise RunError("the run is not finished", path=folder, remedy="Resume its training first.")
    kind, name = run.about["kind"], name or folder.resolve().name.removeprefix("walker-")
    ledger.require_free(kind, name)  # now, not after the evaluation
    content = describe(folder, name, command_of(run), note)
    return ledger.add(
        kind, content | measure(kind, folder, trained_on_dev=run.trained_on_valid, untrained_control=untrained_control)
    )


def describe(folder: Path, name: str, command: str, note: str = "") -> dict[str, Any]:
    """The result of a run, finished or not, without metrics."""
    run = Run.open(folder)
    about, history, beginning = run.about, run.history, _beginning_file(folder)
    kind, is_finished = about["kind"], run.is_finished
    last = history[-1] if history else {}
    best = max(history, key=lambda record: record.get("valid_mrr", record["epoch"]), default={})
    content = {
        "name": name,
        "kind": kind,
        "command": command,
        "note": note,
        "source": parse_json(read_text(beginning)) if beginning.exists() else describe_source(),
        "data": about["dataset"],
        "status": "finished" if is_finished else "unfinished",
    }
    if kind == "ensemble":
        on_dev = {"trained_on_dev": True} if run.settings.scorer.train_on_valid else {}
        return content | on_dev | {"members": _members(run), "calibration": about.get("calibration")}
    groups = {group: getattr(run.settings, group).model_dump() for group in GROUPS[kind]}
    names = SCORER_HISTORY if kind == "scorer" else WALKER_HISTORY
    before = about.get(STARTED_FROM, {})
    content |= {STARTED_FROM: before} if before else {}
    content |= {
        "settings": groups["scorer"] if kind == "scorer" else groups,
        **{group: getattr(run.settings, group).model_dump() for group in _groups(run) if group not in GROUPS[kind]},
        "threads": about.get("threads"),
        "training_seconds": (about["seconds"] if is_finished else last.get("seconds", 0.0)) + before.get("seconds", 0.0),
        "evaluation_seconds": round(sum(record["evaluation_seconds"] for record in history), 1),
        "peak_memory_bytes": about.get("peak_memory_bytes"),
        "epochs": (about["epochs"] if is_finished else last.get("epoch", 0)) + before.get("epochs", 0),
        "best_epoch": about["best_epoch"] if is_finished else best.get("epoch", 0),
        "history": [{name: record[name] for name in names if name in record} for record in history],
    }
    if kind == "walker":
        content |= {"scorer": about_scorer(folder)}
    return content | {name: about.get(name) for name in ("calibration", "reliability")}


def _groups(run: Run) -> tuple[str, ...]:
    """The groups of settings that make the run what it is."""
    kind = run.about["kind"]
    return tuple(setting_groups(run.settings)) if kind == "scorer" else GROUPS[kind]


def command_of(run: Run) -> str:
    """The command that makes such a run: its recipe, and every setting that differs from it."""
    kind, data = run.about["kind"], run.about["dataset"]["name"]
    if kind == "ensemble":
        combined = [shlex.quote(name) for name in run.about.get("combined_from", run.about["members"])]
        return f"hopwalk ensemble {' '.join(combined)} --out {shlex.quote(run.path.resolve().name)}"
    if "adopted_from" in run.about:
        return f"hopwalk.from_pykeen(…), trained by {run.about['adopted_from']}"
    own = getattr(run.settings, kind)
    overrides = [f"{kind}.recipe={own.recipe}", f"{kind}.seed={own.seed}"]
    if kind == "scorer":
        overrides += [f"scorer.model={own.model}", f"propagation.seed={own.seed}", f"rules.seed={own.seed}"]
        options = f"--scorer {own.model} --recipe {own.recipe} --seed {own.seed}"
    else:
        reward = about_scorer(run.path)
        model = reward and ("ENSEMBLE" if reward.get("kind") == "ensemble" else reward["settings"]["model"])
        start = run.about.get(STARTED_FROM)
        model = model.upper() if model and start else model  # capitals stand for a run folder
        options = f"--walker {own.recipe} --seed {own.seed}" + (f" --reward {model}" if model else "")
        if reward and not start and reward.get("kind") != "ensemble":
            options += f" --recipe {reward['settings']['recipe']}"
            options += f" --set scorer.seed={reward['settings']['seed']}" if reward["settings"]["seed"] != own.seed else ""
        options += f" --start {shlex.quote(start['folder'])}" if start else ""
    defaults = load_settings(data if data in preset_names() else "default", overrides=overrides).model_dump()
    changes = (
        f"--set {shlex.quote(f'{group}.{name}={value if isinstance(value, str) else json.dumps(value)}')}"
        for group in _groups(run)
        for name, value in getattr(run.settings, group).model_dump().items()
        if value != defaults[group][name]
    )
    return " ".join([f"hopwalk train {data} {options}", *changes])


def measure(
    kind: str, folder: Path, *, trained_on_dev: bool, splits: tuple[str, ...] = (), untrained_control: bool = False
) -> dict[str, Any]:
    """The metrics of a finished run on dev, on dev with the complete filter, and on test; or on some of these."""
    names = splits or (("test",) if trained_on_dev else ("valid", "valid_complete_filter", "test"))
    found = {}
    for name in names:
        split, complete = ("test", False) if name == "test" else ("valid", name == "valid_complete_filter")
        if kind == "walker":
            evaluations = evaluate_run(folder, split, complete_filter=complete, untrained_control=untrained_control)
            found[name] = {by: _some(evaluation.to_dict(), OF_WALKER) for by, evaluation in evaluations.items()}
        else:
            found[name] = _some(evaluate_run(folder, split, complete_filter=complete)[SCORER].to_dict(), OF_SCORER)
    return found


def _some(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def about_scorer(folder: Path) -> dict[str, Any] | None:
    """The description of a walker's scorer; None without one."""
    return _about(Run.open(folder / "scorer")) if (folder / "scorer" / "run.json").exists() else None


def _about(run: Run) -> dict[str, Any]:
    """A short description of a scorer or an ensemble."""
    shown = ("kind", "valid_mrr", "epochs", "best_epoch", "seconds")
    about = {"settings": run.settings.scorer.model_dump()} | {key: run.about[key] for key in shown if key in run.about}
    return about | ({"members": _members(run)} if "members" in run.about else {})


def _members(ensemble: Run) -> list[dict[str, Any]]:
    return [{"name": name} | _about(Run.open(ensemble.path / "members" / name)) for name in ensemble.about["members"]]
