"""A school whose lessons are the same the other way round, and settings of a tiny scorer."""

from typing import Any

from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from tests.support.helpers import dataset_of


def school_of(num_classes: int = 6) -> Dataset:
    """Teachers teach all pupils of their class. Who is taught by whom is the same the other way round, and partly held out."""
    teaches = [
        (f"teacher {room}{teacher}", "teaches", f"pupil {room}{pupil}")
        for room in "abcdef"[:num_classes]
        for teacher in range(3)
        for pupil in range(4)
    ]
    taught = [(pupil, "taught_by", teacher) for teacher, _, pupil in teaches]
    held_out = taught[::5]
    return dataset_of(teaches + [fact for fact in taught if fact not in held_out], held_out[::2], held_out[1::2])


SCHOOL = school_of()
BEST_IS_NOT_LAST = 0  # a seed with which the best epoch is not the last


def settings_of(**values: Any) -> Settings:
    """Settings of a tiny scorer. Its learning rate is too high, so that the best epoch is not the last."""
    tiny = {"model": "distmult", "dimension": 12, "embedding_height": 3, "num_filters": 4, "initial_scale": 0.1, "batch_size": 32}
    short = {"epochs": 5, "patience": 100, "learning_rate": 0.3}
    return changed(Settings(), {f"scorer.{name}": value for name, value in (tiny | short | values).items()})


TRAINED = settings_of(epochs=2)  # of the fixture `trained_scorer`
