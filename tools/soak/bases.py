"""The whole runs, data and settings that are damaged, killed and served: tiny, made once in the scratch folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import schools
from tests.support.stopping import StopAt, Stopped, watching
from tests.support.villages import propagation_of, settings_of, train_walker, village_of

import hopwalk
from hopwalk import api
from hopwalk.config.settings import Settings
from hopwalk.data.loading import prepare

OLD = Path(__file__).parents[2] / "tests" / "support" / "first_version_runs"
WALKER: Mapping[str, Any] = {"walker.epochs": 2, "scorer.epochs": 2}
DONE = "done"
ABOVE = 0.05  # the least probability of facts that are completed: there are 247


def scorer_settings(model: str) -> Settings:
    """Settings of a tiny embedding model."""
    return schools.settings_of(model=model, epochs=3)


def walker_settings() -> Settings:
    """Settings of a tiny walker and of the scorer that rewards it."""
    return settings_of(dict(WALKER))


def propagation_settings() -> Settings:
    """Settings of a tiny propagation model."""
    return propagation_of(queries=200)


def make(scratch: Path) -> None:
    """Make them all, if they are not there yet."""
    if (scratch / "bases" / DONE).exists():
        return
    shutil.rmtree(scratch / "bases", ignore_errors=True)
    bases = scratch / "bases"
    village = village_of(num_mothers=4)
    prepare(village, scratch / "village")
    prepare(schools.SCHOOL, scratch / "school")
    hopwalk.write_folder(village, scratch / "village-text")
    train_walker(village, walker_settings(), out=bases / "walker")
    api.train(village, propagation_settings(), out=bases / "propagation")
    for model in ("distmult", "complex"):
        api.train_scorer(schools.SCHOOL, scorer_settings(model), out=bases / model)
    api.combine_scorers([bases / "distmult", bases / "complex"], out=bases / "ensemble")
    with suppress(Stopped):
        train_walker(village, walker_settings(), out=bases / "stopped", make_callbacks=watching("walker", StopAt(2, 2)))
    for name in ("walker", "ensemble", "conve"):
        shutil.copytree(OLD / name, bases / f"old-{name}")
    (bases / DONE).touch()
