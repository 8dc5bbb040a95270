"""A circle of people who know their neighbours, and tiny scorers of it."""

from pathlib import Path

import hopwalk
from hopwalk.config.loading import load_settings
from hopwalk.learning.run import Run
from tests.support.helpers import dataset_of

FACTS = [(f"person {number}", "knows", f"person {(number + 1) % 20}") for number in range(20)]
FACTS += [(f"person {(number + 1) % 20}", "known by", f"person {number}") for number in range(20)]
CIRCLE = dataset_of(FACTS[:30], FACTS[30:35], FACTS[35:])


def train_on_circle(out: Path, **values: object) -> Run:
    """The run of a tiny scorer of the circle."""
    tiny = {"model": "complex", "dimension": 8, "epochs": 4} | values
    settings = load_settings(overrides=[f"scorer.{name}={value}" for name, value in tiny.items()])
    return hopwalk.train_scorer(CIRCLE, settings, out=out)
