"""The ledger: one JSON file per run, in folders by kind. Files are added; an existing file only gains keys that it lacks.

| folder | content |
|---|---|
| `scorers/`, `walkers/`, `ensembles/` | finished runs: command, settings, data, source, machine, time, memory, history, metrics |
| `unfinished/` | runs under way: their state so far, without test numbers |
| `data/` | counts of the data sets |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hopwalk.config.loading import load_settings
from hopwalk.config.migrations import migrated_keys, migrated_rankings, migrated_settings
from hopwalk.config.settings import Settings
from hopwalk.errors import RunError
from hopwalk.paper.run_spec import BUDGET, NTP, WALKING_SCORERS, RunSpec, Stopping
from hopwalk.reasoning.evaluating import POLICY
from hopwalk.utils.files import parse_json, read_text, remove, write_text

FOLDERS = {"scorer": "scorers", "walker": "walkers", "ensemble": "ensembles"}
UNFINISHED, DATA = "unfinished", "data"
DONE = "done"
GROUPS = {"scorer": ("scorer",), "walker": ("graph", "walk", "walker")}
DEFAULTS: dict[str, dict[str, Any]] = Settings().model_dump()  # for settings that a result does not have
SPLITS = ("valid", "valid_complete_filter", "test")


@dataclass(frozen=True)
class Result:
    """A run of the ledger; `content` is that of its file, with the names of today."""

    kind: str
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the run, and of its file."""
        return str(self.content["name"])

    @property
    def data(self) -> str:
        """The name of the data set."""
        return str(self.content["data"]["name"])

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings by group; an ensemble has none."""
        if self.kind == "ensemble":
            return {}
        settings = self.content["settings"]
        groups = {"scorer": settings} | self.model_settings if self.kind == "scorer" else settings
        return {group: DEFAULTS[group] | values for group, values in groups.items()}

    @property
    def model_settings(self) -> dict[str, dict[str, Any]]:
        """Groups of settings that a scorer has beside "scorer": propagation its own."""
        return {group: self.content[group] for group in DEFAULTS if self.kind == "scorer" and group in self.content}

    @property
    def own(self) -> dict[str, Any]:
        """The settings of the scorer or of the walker itself."""
        return self.settings.get(self.kind, {})

    @property
    def seed(self) -> int:
        """The seed; 0 of an ensemble."""
        return int(self.own.get("seed", 0))

    @property
    def model(self) -> str:
        """The model of the scorer, or of the walker's scorer; "" without one."""
        if self.kind == "scorer":
            return str(self.own["model"])
        scorer = self.content.get("scorer")
        if not scorer:
            return ""
        return "ensemble" if scorer.get("kind") == "ensemble" else str(scorer["settings"]["model"])

    @property
    def rewarded_by(self) -> str:
        """The identity of a walker's scorer apart from its seed: the model, and of an ensemble its members."""
        members = (self.content.get("scorer") or {}).get("members", [])
        kept = [{name: value for name, value in member["settings"].items() if name != "seed"} for member in members]
        return f"{self.model} {kept}" if kept else self.model

    @property
    def is_finished(self) -> bool:
        """Whether there are final numbers."""
        return bool(self.content.get("status", "finished") == "finished")

    @property
    def trained_on_dev(self) -> bool:
        """Whether it was also trained on dev, as the paper's final model on NELL-995."""
        return bool(self.own.get("train_on_valid") or self.content.get("trained_on_dev"))

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record for every evaluated epoch."""
        return list(self.content.get("history", []))

    @property
    def started_from(self) -> str:
        """The checksum of the weights that a walker started from; empty if it started from none."""
        return str(self.content.get("started_from", {}).get("weights_sha256", ""))

    @property
    def is_embedding_scorer(self) -> bool:
        """Whether it scores by embeddings, alone or in an ensemble; not by walks, as propagation does, or proofs."""
        return self.kind in ("scorer", "ensemble") and not self.has_walks and self.model != NTP

    @property
    def has_walks(self) -> bool:
        """Whether the scorer, or a member of the ensemble, scores by walks."""
        return any(model in WALKING_SCORERS for model in self._models)

    @property
    def is_of_walks(self) -> bool:
        """Whether the scorer, or every member of the ensemble, scores by walks: all of the score is made of them."""
        return bool(self._models) and all(model in WALKING_SCORERS for model in self._models)

    @property
    def _models(self) -> list[str]:
        """The model of a scorer, or those of an ensemble's members."""
        if self.kind == "scorer":
            return [self.model]
        return [str(member["settings"]["model"]) for member in self.content.get("members", []) if "settings" in member]

    @property
    def epochs(self) -> int:
        """The number of epochs, those of the walker that it started from included."""
        return int(self.content.get("epochs", 0))

    @property
    def seconds(self) -> float:
        """The seconds of training."""
        return float(self.content.get("training_seconds", 0.0))

    def numbers(self, split: str, by: str = POLICY) -> Mapping[str, Any] | None:
        """The metrics of a split, of a walker by one of its rankings; None if it was not evaluated."""
        found = self.content.get(split)
        if not found or self.kind != "walker":
            return found
        ranked: Mapping[str, Any] | None = found.get(by)
        return ranked

    def mrr(self, split: str, by: str = POLICY, stratum: str = "") -> float | None:
        """The MRR of tails in percent; None if there is none."""
        found = self.numbers(split, by)
        part = found and (found["strata"].get(stratum) if stratum else found["tails"])
        return None if not part or part["mrr"] is None else 100 * float(part["mrr"])

    @property
    def stopping_of_recipe(self) -> Stopping:
        """When training by its recipe is to end; at once for an ensemble."""
        return Stopping(0, 0) if self.kind == "ensemble" else _stopping_of_recipe(self.kind, self.data, self.own)

    def was_cut(self, planned: Stopping) -> bool:
        """Whether it ended before training was to end, while dev MRR might still have risen.

        An ensemble was cut short if one of its members ended before the epochs of its recipe.
        """
        if self.model_settings:  # its budget is its own: a number of queries, or the epochs and the patience of NTP-λ
            return False
        if self.kind == "ensemble":
            return _scorer_was_cut(self.data, self.content)
        mrrs = [float(record["valid_mrr"]) for record in self.history if record.get("valid_mrr") is not None]
        return not self.trained_on_dev and not planned.is_over(self.epochs, mrrs)

    @property
    def has_cut_scorer(self) -> bool:
        """Whether the walker's scorer ended before the epochs of its recipe while dev MRR might still have risen."""
        return _scorer_was_cut(self.data, self.content.get("scorer") or {})

    def fits(self, spec: RunSpec) -> bool:
        """Whether it is a run of the spec, whatever its seed and, unless the spec overrides it, its budget."""
        if self.kind != spec.kind or self.data != spec.data or self.started_from:
            return False
        if spec.kind == "walker" and self.model != (spec.model if spec.needs_scorer else ""):
            return False
        overridden = {override.partition("=")[0].strip() for override in spec.overrides}
        expected: dict[str, dict[str, Any]] = spec.settings.model_dump()
        names = (
            (group, name)
            for group in (*GROUPS[self.kind], *self.model_settings)
            for name in expected[group]
            if name != "seed" and (name not in BUDGET or f"{group}.{name}" in overridden)
        )
        return all(self.settings[group].get(name) == expected[group][name] for group, name in names)


class Ledger:
    """The results below a folder."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise RunError(
                "this is a file, not a folder", path=folder, remedy="Choose a folder; it is created if it does not exist."
            )
        self.folder = folder

    @cached_property
    def results(self) -> list[Result]:
        """Every run, finished or not, by name."""
        found = [
            Result(kind, self._read(path))
            for kind, folder in FOLDERS.items()
            for path in sorted((self.folder / folder).glob("*.json"))
        ]
        finished = {(result.kind, result.name) for result in found}
        for path in sorted((self.folder / UNFINISHED).glob("*.json")):
            content = self._read(path)
            result = Result(str(content.get("kind")), content)
            if (result.kind, result.name) not in finished:
                found.append(result)
        return found

    @cached_property
    def data(self) -> dict[str, dict[str, Any]]:
        """The statistics of the data sets, by name."""
        return {path.stem: self._read(path) for path in sorted((self.folder / DATA).glob("*.json"))}

    def find(self, spec: RunSpec, *, trained_on_dev: bool = False) -> list[Result]:
        """The runs of a spec of any seed: for each seed the best on dev, finished ones before others."""
        return best_of_seeds(result for result in self.results if result.trained_on_dev == trained_on_dev and result.fits(spec))

    def has(self, spec: RunSpec) -> bool:
        """Whether there is a finished run of the spec, with its seed, that needs no more epochs."""
        return self.state(spec)[0] == DONE

    def state(self, spec: RunSpec) -> tuple[str, Result | None]:
        """The state of the run of the spec, with its seed, in a word; and the run."""
        found = next((result for result in self.find(spec) if result.seed == spec.seed), None)
        if found is None:
            return "not run", None
        if not found.is_finished:
            return "unfinished", found
        return "cut short" if found.was_cut(spec.stopping) else DONE, found

    def add(self, kind: str, content: Mapping[str, Any]) -> Path:
        """Write the file of a finished run, and remove its unfinished one; an error if there is already a result of that name."""
        path = self.require_free(kind, content["name"])
        self._write(path, content)
        remove(self.folder / UNFINISHED / path.name)
        return path

    def require_free(self, kind: str, name: str) -> Path:
        """The file of a finished run of that name; an error if it exists, or if the name cannot be a file name."""
        if not name.strip(".") or Path(name).name != name or "\\" in name:
            raise RunError(f"{name!r} cannot be the name of a result", remedy="Use letters, digits and hyphens.")
        path = self.folder / FOLDERS[kind] / f"{name}.json"
        if path.exists():
            remedy = "Results are never overwritten: choose another name."
            raise RunError("there is already a result of that name", path=path, remedy=remedy)
        return path

    def note_unfinished(self, content: Mapping[str, Any]) -> Path:
        """Write the state of an unfinished run, unless the file has a longer history."""
        path = self.folder / UNFINISHED / f"{content['name']}.json"
        if not path.exists() or len(self._read(path).get("history", [])) <= len(content["history"]):
            self._write(path, content)
        return path

    def extend(self, result: Result, more: Mapping[str, Any]) -> None:
        """Add keys that the file of a result lacks; existing ones stay."""
        added = {name: value for name, value in more.items() if name not in result.content}
        self._write(self.folder / FOLDERS[result.kind] / f"{result.name}.json", {**result.content, **added})

    def add_data(self, name: str, statistics: Mapping[str, Any]) -> None:
        """Write the statistics of a data set."""
        self._write(self.folder / DATA / f"{name}.json", statistics)

    def free_name(self, spec: RunSpec, used: Sequence[str] = ()) -> RunSpec:
        """The spec under a name that no result has: with v2, v3, … before the seed."""
        version, free = 1, spec
        while (self.folder / FOLDERS[spec.kind] / f"{free.name}.json").exists() or free.name in used:
            version += 1
            label = "-".join(part for part in (spec.label, f"v{version}") if part)
            free = replace(spec, label=label)
        return free

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            content = parse_json(read_text(path))
        except (OSError, ValueError) as error:
            raise RunError(f"the file cannot be read ({error})", path=path, remedy="Restore or remove it.") from None
        needed = {DATA: set(), FOLDERS["ensemble"]: {"name", "data"}}.get(path.parent.name, {"name", "data", "settings"})
        if not isinstance(content, dict) or not needed <= content.keys():
            raise RunError("this is not a result file", path=path, remedy="Remove it.")
        return _migrated(content)

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        for name in ("results", "data"):  # read them again next time
            self.__dict__.pop(name, None)


def _migrated(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file with the names of today."""
    content = migrated_keys(content)
    settings = content.get("settings")
    if isinstance(settings, dict):
        is_walker = "walker" in settings
        groups = migrated_settings(settings if is_walker else {"scorer": settings})
        content["settings"] = groups if is_walker else groups["scorer"]
    if content.get("scorer"):
        content["scorer"] = _migrated(content["scorer"])
    if "members" in content:
        content["members"] = [_migrated(member) if isinstance(member, dict) else member for member in content["members"]]
    for name in (*SPLITS, "valid_mrr_by"):
        if isinstance(content.get(name), dict):
            content[name] = migrated_rankings(content[name])
    return content


def _stopping_of_recipe(kind: str, data: str, own: Mapping[str, Any]) -> Stopping:
    recipe = [f"{kind}.recipe={own['recipe']}", *([f"scorer.model={own['model']}"] if kind == "scorer" else [])]
    return Stopping.of(getattr(load_settings(data, overrides=recipe), kind))


def _scorer_was_cut(data: str, about: Mapping[str, Any]) -> bool:
    """Like `Result.was_cut`, for a scorer or an ensemble; False for older results, which lack the epochs."""
    if "members" in about:
        return any(_scorer_was_cut(data, member) for member in about["members"])
    if about.get("kind") != "scorer" or not about.get("best_epoch"):
        return False
    own = DEFAULTS["scorer"] | about["settings"]
    if own["model"] in (*WALKING_SCORERS, NTP):
        return False
    epochs = about.get("epochs") or own["epochs"]
    evaluations_since = (epochs - about["best_epoch"]) // own["evaluate_every"]
    return bool(epochs < _stopping_of_recipe("scorer", data, own).epochs and evaluations_since < own["patience"])


def best_of_seeds(results: Iterable[Result]) -> list[Result]:
    """For each seed the best result on dev, finished ones before others; in the order of seeds."""
    best: dict[int, Result] = {}
    for result in results:
        best[result.seed] = max(best.get(result.seed, result), result, key=_preference)
    return [best[seed] for seed in sorted(best)]


def _preference(result: Result) -> tuple[bool, float]:
    """The sort key of results: whether it is finished, then the best dev MRR."""
    return result.is_finished, max((record.get("valid_mrr") or 0.0 for record in result.history), default=0.0)
