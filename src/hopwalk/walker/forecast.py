"""What training will take: memory of a batch, floating-point work, and time on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from hopwalk.config.settings import Settings
from hopwalk.data.graph import Graph

BYTES_OF_EDGE = 100  # ids, scores and gradients of an edge that a walk can take, all that is alive at once
BYTES_OF_UNIT = 8  # output, gradient and mask of a unit of a layer
SHARE_OF_PEAK = 0.4  # of the rate of large matrix products, that training reaches about


@dataclass(frozen=True)
class Forecast:
    """About how much memory a batch takes, how many questions are learnt at once, and the seconds of an epoch."""

    memory_bytes: int
    questions_at_once: int
    seconds_of_epoch: float


def forecast(graph: Graph, num_questions: int, settings: Settings, *, has_scorer: bool) -> Forecast:
    """What an epoch over so many training questions will take."""
    at_once = questions_at_once(graph, settings, has_scorer=has_scorer)
    memory = at_once * bytes_of_question(graph, settings, has_scorer=has_scorer)
    walker = settings.walker
    numbers = walker.dimension * (graph.num_entities + graph.relation_ids.num_all)
    operations = operations_of_question(settings, choices_of_walk(graph)) * num_questions
    seconds = operations / (SHARE_OF_PEAK * product_rate())
    return Forecast(memory + 16 * numbers, at_once, seconds)


def choices_of_walk(graph: Graph) -> float:
    """How many edges a walk can take, on average: it comes to an entity in proportion to its degree."""
    degrees = graph.degrees.astype(np.float64)
    return float((degrees**2).sum() / degrees.sum())


def operations_of_question(settings: Settings, choices: float) -> float:
    """Floating-point operations of the LSTM, the two layers and the scores for one question, forward and backward.

    The first state is shared by all rollouts, and so is what the LSTM makes of it when it goes on; after the last
    hop it does not.
    """
    walker, hops = settings.walker, settings.walk.hops
    width = walker.dimension * (2 if walker.uses_entities else 1)
    recurrent = walker.history_layers * 4 * walker.history_dimension**2
    inputs = 4 * walker.history_dimension * (width + (walker.history_layers - 1) * walker.history_dimension)
    layers = (width + walker.history_dimension) * width + width * width
    states = 1 + walker.rollouts * (hops - 1)
    continued = 1 + 1 + walker.rollouts * max(hops - 2, 0) if hops > 1 else 1
    return 3 * 2 * (states * (inputs + layers + choices * width) + continued * recurrent)


def bytes_of_question(graph: Graph, settings: Settings, *, has_scorer: bool) -> int:
    """What the walks of one question take in training, about; with twice the choices that walks have on average."""
    walker = settings.walker
    choices = min(2 * choices_of_walk(graph), float(graph.degrees.max()))
    units = 8 * walker.history_layers * walker.history_dimension + 12 * walker.dimension
    of_walk = settings.walk.hops * (BYTES_OF_EDGE * choices + BYTES_OF_UNIT * units)
    return int(walker.rollouts * of_walk + (12 * graph.num_entities if has_scorer else 0))


def questions_at_once(graph: Graph, settings: Settings, *, has_scorer: bool) -> int:
    """How many questions of a batch are learnt together."""
    fitting = settings.walker.memory_mb * 2**20 // bytes_of_question(graph, settings, has_scorer=has_scorer)
    return int(min(max(fitting, 1), settings.walker.batch_size))


def product_rate(seconds: float = 0.1) -> float:
    """Floating-point operations a second of a large matrix product on this machine, the best of what fits the time."""
    size = 768
    left, right = torch.ones(size, size), torch.ones(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
