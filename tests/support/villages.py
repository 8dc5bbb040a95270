"""A village whose uncles follow a rule that a walker can learn, and settings of a tiny walker."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hopwalk import api
from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.learning.run import Run
from tests.support.helpers import Fact, dataset_of


def village_of(num_mothers: int = 16) -> Dataset:
    """Uncles are brothers of the mother. Some of them are held out; whom people know says nothing."""
    random = np.random.default_rng(0)
    mothers, men = ([f"{name} {number}" for number in range(num_mothers)] for name in ("mother", "man"))
    children = {f"child {number}": mothers[number % num_mothers] for number in range(2 * num_mothers)}
    brothers = {mother: random.choice(men, 2, replace=False).tolist() for mother in mothers}
    facts: list[Fact] = [(child, "mother", mother) for child, mother in children.items()]
    facts += [(mother, "brother", brother) for mother in mothers for brother in brothers[mother]]
    people = [*children, *mothers, *men]
    facts += [(one, "knows", other) for one in people for other in random.choice(people, 3, replace=False).tolist()]
    uncles = [(child, "uncle", uncle) for child, mother in children.items() for uncle in brothers[mother]]
    held_out = [uncles[row] for row in random.permutation(len(uncles))[: len(uncles) // 3]]
    return dataset_of(facts + [fact for fact in uncles if fact not in held_out], held_out[::2], held_out[1::2])


VILLAGE = village_of()
TINY: dict[str, Any] = {
    "walk.hops": 2,
    "walk.beam": 32,
    "walker.dimension": 12,
    "walker.history_dimension": 12,
    "walker.history_layers": 1,
    "walker.learning_rate": 0.01,
    "walker.action_dropout": 0.1,
    "walker.embedding_dropout": 0.1,
    "walker.hidden_dropout": 0.1,
    "walker.batch_size": 64,
    "walker.epochs": 4,
    "walker.patience": 100,
    "scorer.model": "complex",  # propagation takes half a minute to compile
    "scorer.dimension": 8,
    "scorer.epochs": 4,
    "scorer.batch_size": 64,
}
ALONE: dict[str, Any] = {"walker.reward_shaping": False}  # without a scorer

# The same at the command line.
# What has an option of its own stands in it: `--set` wins over options, and of options the last one.
OPTIONS = {"walker.epochs": "--epochs", "walker.action_dropout": "--action-dropout"}
PLAIN_SET = [
    part
    for name, value in TINY.items()
    if name != "scorer.model"
    for part in ([OPTIONS[name], str(value)] if name in OPTIONS else ["--set", f"{name}={value}"])
]
SET = [*PLAIN_SET, "--reward", str(TINY["scorer.model"])]


def settings_of(values: Mapping[str, Any] | None = None) -> Settings:
    """Settings of a tiny walker and its tiny scorer, with others in their place."""
    return changed(api.settings_for("village", dataset=VILLAGE), TINY | dict(values or {}))


def train_walker(dataset: Dataset, settings: Settings, **options: Any) -> Run:
    """The run of a walker; the options are those of `api.train`."""
    return api.train(dataset, settings, reasoner="walker", **options)


def train_on_uncles(folder: Path) -> Path:
    """A run of a walker that has learnt who uncles are, without a scorer."""
    learnt = {"walker.rollouts": 10, "walker.epochs": 12, "walker.hidden_dropout": 0.0}
    return train_walker(VILLAGE, settings_of(ALONE | learnt), out=folder / "run").path


# Propagation. Kernels are compiled for every width: all tests use this one, so that it is compiled once.

PROPAGATION: dict[str, Any] = {
    "scorer.model": "propagation",
    "propagation.layers": 2,
    "propagation.width": 8,
    "propagation.attention_width": 4,
    "propagation.queries": 1200,
    "propagation.evaluations": 3,
    "propagation.learning_rate": 0.02,
    "propagation.averaging": 0.9,
}
PROPAGATION_SET = [part for name, value in PROPAGATION.items() for part in ("--set", f"{name}={value}") if name != "scorer.model"]


def propagation_of(**values: Any) -> Settings:
    """Settings of a tiny propagation model, with others of its group in their place."""
    return changed(settings_of(), PROPAGATION | {f"propagation.{name}": value for name, value in values.items()})
