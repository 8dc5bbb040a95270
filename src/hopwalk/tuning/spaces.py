"""Search spaces of tuning: settings, and the values of each. Two come with the package; a TOML file defines others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings, changed, dotted_names
from hopwalk.errors import SettingsError, did_you_mean
from hopwalk.utils.files import parse_toml, read_text
from hopwalk.utils.text import fold_name

READY = ("paper", "modern")
WALKER, PROPAGATION = "walker", "propagation"


@dataclass(frozen=True)
class Choice:
    """A setting with one of some values."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether the value is in it."""
        return value in self.values


@dataclass(frozen=True)
class Range:
    """A setting between two bounds; on a logarithmic scale if `log`, a whole number if `is_whole`."""

    low: float
    high: float
    log: bool = False
    is_whole: bool = False

    def holds(self, value: Any) -> bool:
        """Whether the value is in it."""
        return isinstance(value, int | float) and self.low <= value <= self.high


Space = dict[str, Choice | Range]


def load_space(space: str | Path, what: str, settings: Settings, fixed: Sequence[str] = ()) -> Space:
    """The space of "propagation", "walker" or a scorer's model, without `fixed` settings: from the package, or a TOML file.

    >>> sorted(load_space("paper", "complex", Settings()))
    ['scorer.batch_size', 'scorer.input_dropout', 'scorer.learning_rate']
    """
    text = _text(space)
    try:
        tables = parse_toml(text)
    except ValueError as error:
        raise SettingsError(f"this is not valid TOML ({error})", path=space) from None
    names = [what] if what in (WALKER, PROPAGATION) else ["scorer", fold_name(what)]
    found: Space = {}
    for table in names:
        values = tables.get(table, {})
        if not isinstance(values, dict):
            raise SettingsError(f"[{table}] is not a table of settings", path=space)
        for name, value in _flat(values):
            if name not in fixed:
                found[name] = _dimension(name, value, settings, space)
    if not found:
        remedy = f"It needs a table [{names[0]}] with settings that are not fixed."
        raise SettingsError(f"the space has no settings of {what}", path=space, remedy=remedy)
    return found


def _text(space: str | Path) -> str:
    if str(space) in READY:
        return resources.files("hopwalk.config").joinpath("presets", "spaces", f"{space}.toml").read_text(encoding="utf-8")
    try:
        return read_text(Path(space))
    except (OSError, UnicodeDecodeError) as error:
        remedy = did_you_mean(str(space), READY) or f"Spaces are {' and '.join(READY)}, or a TOML file."
        raise SettingsError(f"the space cannot be read ({error})", path=space, remedy=remedy) from None


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The values by dotted name; names are written in quotes, or as nested tables."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        is_range = isinstance(value, dict) and {*value} & {"low", "high"}
        is_table = isinstance(value, dict) and not is_range
        found += _flat(value, f"{prefix}{name}.") if is_table else [(f"{prefix}{name}", value)]
    return found


def _dimension(name: str, value: Any, settings: Settings, space: str | Path) -> Choice | Range:
    if name not in {*dotted_names()}:
        raise SettingsError(f"there is no setting {name!r}", path=space, remedy=did_you_mean(name, dotted_names()))
    found: Choice | Range
    if isinstance(value, list) and value and not any(isinstance(one, list | dict) for one in value):
        found, samples = Choice(tuple(value)), [*value]
    elif isinstance(value, dict) and {"low", "high"} <= {*value} <= {"low", "high", "log"}:
        low, high, log = value["low"], value["high"], value.get("log", False)
        if not all(isinstance(bound, int | float) for bound in (low, high)) or not low < high or (log and low <= 0):
            raise SettingsError(
                f"{name} cannot have a range from {low!r} to {high!r}", path=space, remedy="Give low < high, above 0 for log."
            )
        found, samples = Range(low, high, bool(log), isinstance(low, int) and isinstance(high, int)), [low, high]
    else:
        remedy = "Write [0.1, 0.5] for a choice, { low = 0.1, high = 0.5 } for a range."
        raise SettingsError(f"{name} = {value!r} is neither a choice nor a range", path=space, remedy=remedy)
    for sample in samples:
        changed(settings, {name: sample})  # an error if it does not fit
    return found


def space_json(space: Space) -> dict[str, Any]:
    """The space as JSON, the same for equal spaces."""
    return {name: asdict(found) for name, found in sorted(space.items())}
