"""Scorers of other packages, by the name that they register under the entry point group `hopwalk.scorers`.

A run folder has only the name of its scorer. What is imported for it comes from a package that the user has installed, never from
the run folder, and not from the current folder either, which Python may have on its path.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import torch

from hopwalk.config.settings import ScorerSettings
from hopwalk.errors import SettingsError
from hopwalk.scorers.base import TrainableScorer
from hopwalk.utils.text import fold_name

GROUP = "hopwalk.scorers"
HELP = "docs/own-scorer.md says how a package registers a scorer"


def installed_names() -> list[str]:
    """The names of the scorers of other packages."""
    return sorted({point.name for point in _points()})


def package_of(name: str) -> str | None:
    """The package of a scorer, with its version; None if no package has it."""
    points = _found(name)
    return _package(points[0]) if points else None


def build_installed(
    name: str, num_entities: int, num_relations: int, settings: ScorerSettings, generator: torch.Generator
) -> TrainableScorer | None:
    """The scorer that a package registers under the name, with initial parameters; None if no package does."""
    points = _found(name)
    if not points:
        return None
    packages = sorted({_package(point) for point in points})
    if len(packages) > 1:
        problem = f"the scorer {name!r} is registered by more than one package: {', '.join(packages)}"
        raise SettingsError(problem, remedy="Uninstall all but one of them.")
    where = f"the scorer {name!r} of the package {packages[0]}"
    made = _made(points[0], where, (num_entities, num_relations, settings, generator))
    if not isinstance(made, TrainableScorer):
        problem = f"{where} is not valid: it makes a {type(made).__name__}, not a hopwalk.scorers.base.TrainableScorer"
        raise SettingsError(problem, remedy=f"Correct the package; {HELP}.")
    if (made.num_entities, made.relation_ids.num_relations) != (num_entities, num_relations):
        raise SettingsError(
            f"{where} is not valid: it has {made.num_entities:,} entities and {made.relation_ids.num_relations:,} relations, not "
            f"{num_entities:,} and {num_relations:,}",
            remedy=f"Correct the package; {HELP}.",
        )
    return made


def _made(point: EntryPoint, where: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return point.load()(*arguments)
    except SettingsError:
        raise
    except Exception as error:  # whatever the package does wrong
        problem = f"{where} cannot be made ({type(error).__name__}: {str(error)[:200]})"
        raise SettingsError(problem, remedy=f"Correct or update the package; {HELP}.") from error


def _found(name: str) -> list[EntryPoint]:
    return [point for point in _points() if fold_name(point.name) == fold_name(name)]


def _points() -> list[EntryPoint]:
    """The registered scorers, without those of a package that lies in the current folder."""
    here = Path.cwd().resolve()
    return [
        point for point in entry_points(group=GROUP) if point.dist and Path(str(point.dist.locate_file(""))).resolve() != here
    ]


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
