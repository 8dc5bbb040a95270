"""Settings: frozen, validated, filled from a preset and from `name=value` overrides.

`presets/default.toml` lists every setting with its meaning; other presets change some of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hopwalk.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Format = Literal["auto", "table", "triples", "openke", "minerva", "parquet", "rdf"]
Recipe = Literal["paper", "modern"]
WalkerRecipe = Literal["modern", "paper", "minerva"]
WALKER_RECIPES: tuple[str, ...] = get_args(WalkerRecipe)
RECIPES: tuple[str, ...] = get_args(Recipe)
Share = Annotated[float, Field(ge=0, lt=1)]


BEFORE = {"walker.reward_weight": 0.0}  # how it was before there was a choice: for runs and results that are older


class Group(BaseModel):
    """Base of all groups of settings: unknown keys fail, nothing changes after creation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ReadSettings(Group):
    """How a file of triples is read."""

    format: Format = "auto"
    separator: str = ""
    quote: Literal["auto", "yes", "no"] = "auto"
    header: Literal["auto", "yes", "no"] = "auto"
    columns: str = ""
    labels: str = ""
    fold_inverses: bool = True


class SplitSettings(Group):
    """How a single file of triples is divided."""

    valid: Share = 0.1
    test: Share = 0.1
    seed: Annotated[int, Field(ge=0)] = 0


class GraphSettings(Group):
    """How facts become the graph to walk."""

    fan_out: Annotated[int, Field(ge=1)] = 400
    damping: Annotated[float, Field(gt=0, lt=1)] = 0.85


class WalkSettings(Group):
    """How far walks go, and how the best of them are found."""

    hops: Annotated[int, Field(ge=1, le=8)] = 3
    beam: Annotated[int, Field(ge=1)] = 128


class WalkerSettings(Group):
    """The policy that walks, and how it is trained."""

    recipe: WalkerRecipe = "modern"
    dimension: Annotated[int, Field(ge=1)] = 200
    history_dimension: Annotated[int, Field(ge=1)] = 200
    history_layers: Annotated[int, Field(ge=1)] = 3
    uses_entities: bool = True
    guidance: Annotated[float, Field(ge=0)] = 1.0
    pooling: Literal["max", "sum"] = "max"
    reward_weight: Annotated[float, Field(ge=0)] = 2.0
    blend_weight: float = -1.0
    reward_shaping: bool = True
    estimator: Literal["sum", "sampled"] = "sum"
    rollouts: Annotated[int, Field(ge=1)] = 5
    hides_shortcuts: bool = False
    action_dropout: Share = 0.5
    action_dropout_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    entropy: Annotated[float, Field(ge=0)] = 0.02
    entropy_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    baseline: Literal["none", "average", "rollouts"] = "none"
    embedding_dropout: Share = 0.3
    hidden_dropout: Share = 0.1
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    learning_rate_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    gradient_clip: Annotated[float, Field(ge=0)] = 0.0
    batch_size: Annotated[int, Field(ge=1)] = 128
    epochs: Annotated[int, Field(ge=0)] = 40
    evaluate_every: Annotated[int, Field(ge=1)] = 1
    patience: Annotated[int, Field(ge=1)] = 10
    dev_questions: Annotated[int, Field(ge=0)] = 2000
    learn_valid: bool = False
    memory_mb: Annotated[int, Field(ge=64)] = 1024
    seed: Annotated[int, Field(ge=0)] = 0


class ScorerSettings(Group):
    """The one-hop model f(head, relation, tail) and how it is trained."""

    model: str = "complex"
    model_options: str = ""
    recipe: Recipe = "modern"
    dimension: Annotated[int, Field(ge=1)] = 200
    initial_scale: Annotated[float, Field(ge=0)] = 0.001
    loss: Literal["softmax", "binary"] = "softmax"
    label_smoothing: Share = 0.1
    n3: Annotated[float, Field(ge=0)] = 0.05
    relation_weight: Annotated[float, Field(ge=0)] = 0.0
    optimizer: Literal["adagrad", "adam"] = "adagrad"
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    learning_rate_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    batch_size: Annotated[int, Field(ge=1)] = 512
    candidates: Annotated[int, Field(ge=0)] = 0
    input_dropout: Share = 0.0
    feature_dropout: Share = 0.2
    hidden_dropout: Share = 0.3
    tail_dropout: Share = 0.0
    picture_height: Annotated[int, Field(ge=1)] = 10
    num_filters: Annotated[int, Field(ge=1)] = 32
    kernel_size: Annotated[int, Field(ge=1)] = 3
    epochs: Annotated[int, Field(ge=1)] = 100
    evaluate_every: Annotated[int, Field(ge=1)] = 1
    patience: Annotated[int, Field(ge=1)] = 10
    learn_valid: bool = False
    seed: Annotated[int, Field(ge=0)] = 0


class Settings(Group):
    """Everything that can be set, in groups.

    >>> load_settings(overrides=["graph.fan_out=200"]).graph.fan_out
    200
    """

    read: ReadSettings = ReadSettings()
    split: SplitSettings = SplitSettings()
    graph: GraphSettings = GraphSettings()
    walk: WalkSettings = WalkSettings()
    walker: WalkerSettings = WalkerSettings()
    scorer: ScorerSettings = ScorerSettings()


def preset_names() -> list[str]:
    """The presets that come with the package."""
    files = resources.files("hopwalk.config").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset that comes with the package."""
    known = {fold_name(preset): preset for preset in preset_names()}
    preset = known.get(fold_name(name))
    if preset is None:
        remedy = did_you_mean(name.lower(), known.values()) or f"Presets are: {', '.join(known.values())}."
        raise SettingsError(f"there is no preset {name!r}", remedy=remedy)
    return resources.files("hopwalk.config").joinpath("presets", f"{preset}.toml").read_text(encoding="utf-8")


def fold_name(name: str) -> str:
    """The name without what people write in different ways: case, hyphens, underscores, blanks."""
    return re.sub(r"[\s_-]", "", name).lower()


def load_settings(
    preset: str | Path = "default",
    *,
    overrides: Iterable[str] = (),
    suited: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of a preset (a name, or a path to a TOML file) with `group.name=value` overrides on top.

    Where neither says anything, what is `suited` to the data comes before the defaults and the modern recipes.

    What neither says of the scorer and the walker comes from their recipes: `scorer.recipe` with `scorer.model`, and
    `walker.recipe` choose them, and the preset's name, if it is that of a data set, chooses what the recipe has for that set.
    """
    values: dict[str, Any] = {}
    suiting: dict[str, Any] = {}
    for name, value in (suited or {}).items():
        _set_dotted(suiting, name, value)
    if preset != "default":  # default.toml repeats the defaults of the classes
        values = _read_preset(preset)
    for override in overrides:
        name, sign, text = override.partition("=")
        if not sign:
            raise SettingsError(f"{override!r} is not of the form name=value", remedy="For example: graph.fan_out=200")
        _set_dotted(values, name.strip(), _parse_value(text.strip()))
    for group, recipe_values in (("scorer", _scorer_recipe), ("walker", _walker_recipe)):
        said = values.setdefault(group, {})
        if isinstance(said, dict):
            recipe, suits = recipe_values(said, str(preset)), suiting.pop(group, {})
            beyond = {other: recipe.pop(other) for other in list(recipe) if isinstance(recipe[other], dict)}
            values = _merged(beyond, values)  # a walker's recipe may say how wide the beam is
            # A published recipe stays as it is; where it says nothing, there is room for what suits.
            is_modern = said.get("recipe", "modern") == "modern"
            values[group] = (recipe | suits if is_modern else suits | recipe) | said
    return validated(_merged(suiting, values))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested values, those above before those below."""
    groups = {name: _merged(below[name], value) for name, value in above.items() if isinstance(below.get(name), dict)}
    return below | above | groups


def suited_settings(degrees: NDArray[np.integer]) -> dict[str, Any]:
    """What suits a graph, given the out-degree of its entities with inverse and stay edges, by dotted name.

    As the paper's appendix has it: the more edges lead on from an entity, the more of them are dropped in training. The steps are
    those of its five data sets. Small graphs are walked in two hops, and their embeddings need less of a penalty.
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
        values |= {"scorer.candidates": 4096}
    return values


def _scorer_recipe(scorer: Mapping[str, Any], data: str) -> dict[str, Any]:
    """What the scorer's recipe says: for all models, then for this one, then for this one on this data set."""
    defaults = ScorerSettings()
    recipe, model = scorer.get("recipe", defaults.recipe), scorer.get("model", defaults.model)
    if recipe not in RECIPES or not isinstance(model, str):
        return {}  # for `validated` to complain about
    said = _recipe("scorers", recipe)
    of_model = said.get(fold_name(model), {})
    of_data = {name: values for name, values in of_model.items() if isinstance(values, dict)}
    plain = {name: value for name, value in of_model.items() if name not in of_data}
    merged: dict[str, Any] = said["all"] | plain | of_data.get(data, {})
    return merged


def _walker_recipe(walker: Mapping[str, Any], data: str) -> dict[str, Any]:
    """What the walker's recipe says: for all data sets, then for this one."""
    recipe = walker.get("recipe", WalkerSettings().recipe)
    if recipe not in WALKER_RECIPES:
        return {}  # for `validated` to complain about
    said = _recipe("walkers", recipe)
    merged: dict[str, Any] = said["all"] | said.get(data, {})
    return merged


def _recipe(kind: str, name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("hopwalk.config").joinpath("presets", kind, f"{name}.toml").read_text(encoding="utf-8"))


def settings_toml(settings: Settings) -> str:
    """The settings as TOML that can be saved, changed and used as a preset."""
    # For text, numbers and booleans JSON and TOML agree.
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())])
        for group, values in settings.model_dump().items()
    )
    return "\n\n".join(groups) + "\n"


def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with others in their place, by dotted name.

    >>> changed(Settings(), {"walk.hops": 2}).walk.hops
    2
    """
    nested = settings.model_dump()
    for name, value in values.items():
        _set_dotted(nested, name, value)
    return validated(nested)


def validated(values: Mapping[str, Any]) -> Settings:
    """The settings of nested dictionaries, or a `SettingsError` that names the first key at fault."""
    known = [*dotted_names(), *Settings.model_fields]
    for name in _dotted_keys(values):
        if name not in known:
            same_end = [setting for setting in known if setting.endswith(f".{name.split('.')[-1]}")]
            remedy = did_you_mean(name, known) or did_you_mean(name, same_end, cutoff=0) or "`hopwalk settings` lists them all."
            raise SettingsError(f"there is no setting {name!r}", remedy=remedy)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        value = repr(first["input"])
        shown = value if len(value) <= 60 else f"{value[:59]}…"
        raise SettingsError(f"{name} = {shown} does not fit: {first['msg']}") from None


def dotted_names(group: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """The dotted name of every setting: `graph.fan_out`, …"""
    for name, field in group.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from dotted_names(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _read_preset(preset: str | Path) -> dict[str, Any]:
    is_path = isinstance(preset, Path) or preset.endswith(".toml")
    try:
        text = Path(preset).read_text(encoding="utf-8") if is_path else preset_text(str(preset))
        return tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the preset cannot be read ({error})", path=preset) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"this is not valid TOML ({error})", path=preset) from None


def _parse_value(text: str) -> Any:
    """A TOML value where the text is one (200, 0.5, true, "a b"), and otherwise the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # not a TOML value, or a number of thousands of digits
        return text


def _set_dotted(values: dict[str, Any], name: str, value: Any) -> None:
    *groups, last = name.split(".")
    for group in groups:
        inner = values.setdefault(group, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"there is no setting {name!r}", remedy="`hopwalk settings` lists them all.")
        values = inner
    values[last] = value


def _dotted_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted_keys(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
