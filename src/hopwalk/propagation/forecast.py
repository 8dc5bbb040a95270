"""Forecast of propagation's training on this machine: memory, counted from what it holds, and time, from a few batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopwalk.propagation.model import Engine, Propagation

COPIES_OF_PARAMETERS = 8  # parameters, gradients, two moments of AdamW, live and averaged weights, the best, a batch's sum
SECONDS_TO_MEASURE = 1.0


def memory_of_training(model: Propagation, engine: Engine, batch_size: int, num_known: int) -> int:
    """The bytes that training holds beside the data: graph, workspaces, parameters, a batch, and two indexes of known facts.

    `num_known` is the number of known pairs of query and answer in those indexes, of 8 bytes each.
    """
    settings = model.settings
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    per_relation = settings.width * (2 if settings.additive else 1) + settings.attention_width
    of_query = settings.layers * model.num_relations * per_relation  # w_r(q) and b_r(q), and as many gradients
    of_batch = batch_size * 4 * (2 * of_query + sum(tensor.numel() for tensor in model.shared()))
    arrays = sum_bytes(engine.graph) + sum(sum_bytes(workspace) for workspace in engine.workspaces)
    return int(arrays + 4 * COPIES_OF_PARAMETERS * parameters + of_batch + 8 * num_known)


def sum_bytes(arrays: Iterable[Any]) -> int:
    """The memory of arrays."""
    return int(sum(array.nbytes for array in arrays))
