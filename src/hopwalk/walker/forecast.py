"""Forecast of a walker's training: memory of a batch, floating-point work, and time on this machine."""

from __future__ import annotations

import time

import numpy as np
import torch

from hopwalk.config.settings import Settings, WalkerSettings
from hopwalk.data.graph import Graph
from hopwalk.learning.callbacks import Forecast

BYTES_OF_ACTION = 100  # ids, scores and gradients of an action of a walk that are alive at once
BYTES_OF_UNIT = 8  # output, gradient and mask of a unit of a layer
SHARE_OF_PEAK = 0.4  # the rate of training, as a share of the rate of large matrix products


def forecast(graph: Graph, num_queries: int, settings: Settings, *, has_scorer: bool) -> Forecast:
    """The forecast of an epoch over so many training queries."""
    at_once = queries_at_once(graph, settings, has_scorer=has_scorer)
    memory = at_once * bytes_of_query(graph, settings, has_scorer=has_scorer)
    walker = settings.walker
    numbers = walker.dimension * (graph.num_entities + graph.relation_ids.num_all)
    operations = operations_of_query(settings, actions_of_walk(graph)) * num_queries
    seconds = operations / (SHARE_OF_PEAK * product_rate())
    return Forecast(memory + 16 * numbers, at_once, seconds)


def actions_of_walk(graph: Graph) -> float:
    """The mean number of actions of a walk: it is at an entity with a probability proportional to its degree."""
    degrees = graph.degrees.astype(np.float64)
    return float((degrees**2).sum() / degrees.sum())


def operations_of_query(settings: Settings, num_actions: float) -> float:
    """Floating-point operations of the LSTM, W1, W2 and the scores for one query, forward and backward.

    With masks of a walk the first state is shared by all rollouts, and so is its recurrent product; with masks of every edge it
    is not. Later states that rollouts share are counted for each of them, so this is an upper bound.
    """
    walker, hops = settings.walker, settings.walk.hops
    first = 1 if walker.dropout_masks == "walk" else walker.rollouts
    states = first + walker.rollouts * (hops - 1)
    continued = first + walker.rollouts * (hops - 2) if hops > 1 else 0
    return operations_of_states(walker, states, continued, num_actions * states)


def operations_of_states(walker: WalkerSettings, num_states: float, num_continued: float, num_actions: float) -> float:
    """Floating-point operations of so many states with so many actions together, forward and backward.

    Only states that are continued have a recurrent product: the start has none, and after the last hop the LSTM does not run.
    With masks of every edge, scores take two products.
    """
    width = walker.dimension * (2 if walker.uses_entities else 1)
    recurrent = walker.history_layers * 4 * walker.history_dimension**2
    inputs = 4 * walker.history_dimension * (width + (walker.history_layers - 1) * walker.history_dimension)
    layers = (width + walker.history_dimension) * width + width * width
    score = width * (1 if walker.dropout_masks == "walk" else 2)
    return 3 * 2 * (num_states * (inputs + layers) + num_actions * score + num_continued * recurrent)


def bytes_of_query(graph: Graph, settings: Settings, *, has_scorer: bool) -> int:
    """The memory of the walks of one query in training, with twice the mean number of actions."""
    walker = settings.walker
    num_actions = min(2 * actions_of_walk(graph), float(graph.degrees.max()))
    units = 8 * walker.history_layers * walker.history_dimension + 12 * walker.dimension
    of_walk = settings.walk.hops * (BYTES_OF_ACTION * num_actions + BYTES_OF_UNIT * units)
    return int(walker.rollouts * of_walk + (12 * graph.num_entities if has_scorer else 0))


def queries_at_once(graph: Graph, settings: Settings, *, has_scorer: bool) -> int:
    """How many queries of a batch are computed together."""
    fitting = settings.walker.memory_mb * 2**20 // bytes_of_query(graph, settings, has_scorer=has_scorer)
    return int(min(max(fitting, 1), settings.walker.batch_size))


def product_rate(seconds: float = 0.1) -> float:
    """Floating-point operations a second of a large matrix product on this machine: the best within the time given."""
    size = 768
    left, right = torch.ones(size, size), torch.ones(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
