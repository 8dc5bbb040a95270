"""Forecast of propagation's training on this machine: memory, counted from what it holds, and time, from a few batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopwalk.config.settings import PropagationSettings
from hopwalk.propagation.model import MANY_RELATIONS, Engine, Propagation
from hopwalk.propagation.parameters import numbers_of_model, numbers_of_query
from hopwalk.utils.memory import require_memory

COPIES_OF_PARAMETERS = 8  # parameters, gradients, two moments of AdamW, live and averaged weights, the best, a batch's sum
SECONDS_TO_MEASURE = 1.0


def memory_of_training(model: Propagation, engine: Engine, batch_size: int, num_known: int) -> int:
    """The bytes that training holds beside the data: graph, workspaces, parameters, a batch, and two indexes of known facts.

    `num_known` is the number of known pairs of query and answer in those indexes, of 8 bytes each.
    """
    settings = model.settings
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    of_query = 2 * numbers_of_query(settings, model.num_relations)  # the numbers, and as many gradients
    of_batch = batch_size * 4 * (of_query + sum(tensor.numel() for tensor in model.shared()))
    arrays = sum_bytes(engine.graph) + sum(sum_bytes(workspace) for workspace in engine.workspaces)
    return int(arrays + 4 * COPIES_OF_PARAMETERS * parameters + of_batch + 8 * num_known)


def require_memory_to_train(settings: PropagationSettings, num_relations: int) -> None:
    """Raise an error if the parameters and a batch, which grow with the relations, do not fit into memory."""
    of_batch = 2 * settings.batch_size * numbers_of_query(settings, num_relations)
    numbers = COPIES_OF_PARAMETERS * numbers_of_model(settings, num_relations) + of_batch
    require_memory(4 * numbers, f"training propagation over {num_relations // 2:,} relations", remedy=MANY_RELATIONS)


def sum_bytes(arrays: Iterable[Any]) -> int:
    """The memory of arrays."""
    return int(sum(array.nbytes for array in arrays))
