"""The sources of settings. Each overrides those above it:

| source | where it is |
|---|---|
| defaults | `config/settings.py` |
| the data | `suited_settings`: size and density of a graph of your own |
| the benchmark data set | `presets/*.toml`: hops, fan-out and beam |
| the recipe | `presets/scorers/*.toml`, `presets/walkers/*.toml`: for all data sets, then for one |
| a file | a TOML file given as the preset |
| the command line | `--set group.name=value`, and the options that stand for settings |
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopwalk.config.migrations import RENAMED_SETTINGS, migrated_settings
from hopwalk.config.settings import (
    SCORER_RECIPES,
    WALKER_RECIPES,
    ScorerSettings,
    Settings,
    WalkerSettings,
    set_dotted,
    validated,
)
from hopwalk.errors import SettingsError, did_you_mean
from hopwalk.utils.files import parse_toml, read_text
from hopwalk.utils.text import fold_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT = "default"  # the preset that changes nothing


def load_settings(
    preset: str | Path = DEFAULT,
    *,
    overrides: Iterable[str] = (),
    suited: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from all sources: `suited` is what suits the data, `overrides` are `group.name=value` texts.

    >>> load_settings(overrides=["graph.fan_out=200"]).graph.fan_out
    200
    """
    of_data, of_file = _read_preset(preset)
    return _combined(_merged(of_file, _parsed(overrides)), str(preset), suited or {}, of_data)


def load_run_settings(path: Path) -> Settings:
    """The settings that a run was made with, as its folder has them; those of older runs by the names of today."""
    return validated(migrated_settings(_read_toml(read_text(path), path)))


def _combined(given: dict[str, Any], preset: str, suited: Mapping[str, Any], of_data: Mapping[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for name, value in suited.items():
        set_dotted(values, name, value)
    values = _merged(values, of_data)
    for recipe in (
        _scorer_recipe(given, preset),
        _walker_recipe(given, preset),
        _propagation_recipe(preset),
        _rule_recipe(given, preset),
        _ntp_recipe(preset),
    ):
        values = _merged(values, recipe)
    return validated(_merged(values, given))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values; those above win."""
    both = {name: _merged(below[name], value) for name, value in above.items() if _is_dict(below.get(name)) and _is_dict(value)}
    return {**below, **above, **both}


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def suited_settings(degrees: NDArray[np.integer]) -> dict[str, Any]:
    """Settings that suit a graph, by dotted name, given the out-degrees of its entities with inverse and stay edges.

    As in the paper's appendix: the more edges leave an entity, the more of them are dropped in training; the steps are those of
    its five data sets. Small dense graphs are walked in two hops, and embeddings of small graphs need less of a penalty.
    """
    mean = float(degrees.mean()) if len(degrees) else 0.0
    is_small = len(degrees) < 1000
    values: dict[str, Any] = {
        "walk.hops": 2 if is_small and mean > 20 else 3,
        "walker.action_dropout": 0.1 if mean < 10 else 0.5 if mean < 60 else 0.9,
    }
    if is_small:
        values |= {"scorer.n3": 0.005, "scorer.batch_size": 128}
    if len(degrees) > 20_000:
        values |= {"scorer.num_sampled_tails": 4096}
    return values


def suited_bounds(degrees: NDArray[np.integer]) -> dict[str, Any]:
    """Bounds of propagation that suit a graph, by dotted name, given the degrees of its entities; none where a query is small.

    About how many edges lie within three steps of an entity: neighbours are met in proportion to their degree. Where they are
    more than 200,000, the most promising nodes send, and hubs along a part of their edges.
    """
    total = float(degrees.sum())
    of_neighbour = float((degrees.astype(float) ** 2).sum()) / total if total else 0.0
    within_reach = min(total / max(len(degrees), 1) * of_neighbour**2, 3 * total)
    return {"propagation.senders": 500, "propagation.fan_out": 400} if within_reach > 200_000 else {}


def _scorer_recipe(given: Mapping[str, Any], data: str) -> dict[str, Any]:
    """The scorer's recipe: for all models, then for this one, then for this one on this data set."""
    scorer, defaults = given.get("scorer", {}), ScorerSettings()
    if not isinstance(scorer, dict):
        return {}  # `validated` reports it
    recipe, model = scorer.get("recipe", defaults.recipe), scorer.get("model", defaults.model)
    if recipe not in SCORER_RECIPES or not isinstance(model, str):
        return {}
    tables = _recipe("scorers", recipe)
    of_model = tables.get(fold_name(model), {})
    of_data = {name: values for name, values in of_model.items() if isinstance(values, dict)}
    plain = {name: value for name, value in of_model.items() if name not in of_data}
    return {"scorer": tables.get("all", {}) | plain | of_data.get(data, {})}


def _walker_recipe(given: Mapping[str, Any], data: str) -> dict[str, Any]:
    """The walker's recipe: for all data sets, then for this one. It may set values of other groups, such as walk.beam."""
    walker = given.get("walker", {})
    if not isinstance(walker, dict):
        return {}  # `validated` reports it
    recipe = walker.get("recipe", WalkerSettings().recipe)
    if recipe not in WALKER_RECIPES:
        return {}
    tables = _recipe("walkers", recipe)
    values = tables.get("all", {}) | tables.get(data, {})
    others = {group: values.pop(group) for group in list(values) if isinstance(values[group], dict)}
    return {"walker": values, **others}


def _propagation_recipe(data: str) -> dict[str, Any]:
    """The settings of propagation for this data set, chosen on its dev set."""
    return {"propagation": _recipe("propagation", "modern").get(data, {})}


def _rule_recipe(given: Mapping[str, Any], data: str) -> dict[str, Any]:
    """The settings of NeuralLP or DRUM for this data set, chosen on its dev set."""
    scorer = given.get("scorer", {})
    model = fold_name(str(scorer.get("model", ""))) if isinstance(scorer, dict) else ""
    return {"rules": _recipe("rules", model).get(data, {})} if model in ("neurallp", "drum") else {}


def _ntp_recipe(data: str) -> dict[str, Any]:
    """The settings of NTP-λ for this data set, chosen on its dev set."""
    return {"ntp": _recipe("rules", "ntp").get(data, {})}


def _recipe(kind: str, name: str) -> dict[str, Any]:
    return tomllib.loads(_packaged(kind, f"{name}.toml"))


def _packaged(*parts: str) -> str:
    return resources.files("hopwalk.config").joinpath("presets", *parts).read_text(encoding="utf-8")


def preset_names() -> list[str]:
    """The presets that come with the package: `default`, and one for each benchmark data set."""
    files = resources.files("hopwalk.config").joinpath("presets").iterdir()
    return [DEFAULT, *sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))]


def _read_preset(preset: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a packaged preset of a data set, and those of a file; one of the two is empty."""
    if isinstance(preset, Path) or preset.endswith(".toml"):
        try:
            text = read_text(Path(preset))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the preset cannot be read ({error})", path=preset) from None
        return {}, migrated_settings(_read_toml(text, preset))
    known = {fold_name(name): name for name in preset_names()}
    name = known.get(fold_name(preset))
    if name is None:
        remedy = did_you_mean(preset.lower(), known.values()) or f"Presets are: {', '.join(known.values())}."
        raise SettingsError(f"there is no preset {preset!r}", remedy=remedy)
    return {} if name == DEFAULT else _read_toml(_packaged(f"{name}.toml"), preset), {}


def _read_toml(text: str, path: str | Path) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise SettingsError(f"this is not valid TOML ({error})", path=path) from None


def _parsed(overrides: Iterable[str]) -> dict[str, Any]:
    """Nested values of `group.name=value` texts."""
    values: dict[str, Any] = {}
    for override in overrides:
        name, sign, text = (part.strip() for part in override.partition("="))
        if not sign:
            raise SettingsError(f"{override!r} is not of the form name=value", remedy="For example: graph.fan_out=200")
        if name in RENAMED_SETTINGS:
            raise SettingsError(f"{name} is now called {RENAMED_SETTINGS[name]}")
        set_dotted(values, name, _parse_value(text))
    return values


def _parse_value(text: str) -> Any:
    """A TOML value where the text is one (200, 0.5, true, "a b"), and otherwise the text itself."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:  # not a TOML value, nested too deeply, or a number of thousands of digits
        return text


def settings_toml(settings: Settings) -> str:
    """The settings as TOML that can be saved, changed and used as a preset."""
    return "\n".join(f"{line}" for line in _toml_lines(settings, with_descriptions=False))


def commented_toml(settings: Settings | None = None) -> str:
    """The settings, or the defaults, as TOML with a description beside each: the reference of all settings."""
    return "\n".join(_toml_lines(settings or Settings(), with_descriptions=True))


def _toml_lines(settings: Settings, *, with_descriptions: bool) -> Iterable[str]:
    for number, (group, field) in enumerate(type(settings).model_fields.items()):
        values = getattr(settings, group)
        # For text, numbers and booleans JSON and TOML agree.
        lines = {name: f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.model_dump().items()}
        width = max(map(len, lines.values()))
        if number:
            yield ""
        about = (field.annotation.__doc__ or "") if field.annotation else ""
        yield f"{f'[{group}]':<{width}}  # {about}" if with_descriptions else f"[{group}]"
        for name, line in lines.items():
            description = type(values).model_fields[name].description
            yield f"{line:<{width}}  # {description}" if with_descriptions else line
    yield ""
