"""Input and output of the kernels, as named tuples of arrays. Letters: Q queries, L layers, E entities, R relations (inverses
included), D width, A attention width, I = D · (1 + number of aggregates) inputs of the node update."""

from __future__ import annotations

from typing import Any, NamedTuple

from hopwalk.config.settings import PropagationSettings
from hopwalk.propagation.graph import Int32s, Int64s

Array = Any  # float32: an array for the kernels, a tensor of the same shape for torch


def numbers_of_query(settings: PropagationSettings, num_relations: int) -> int:
    """How many numbers w_r(q), b_r(q) and o_r(q) of one query have: they grow with the relations R, whatever it reaches."""
    per_relation = settings.width * (2 if settings.additive else 1) + settings.attention_width
    return settings.layers * num_relations * per_relation


def numbers_of_model(settings: PropagationSettings, num_relations: int) -> int:
    """About how many parameters a model has: almost all of them make the numbers of a query from its relation."""
    return ((settings.query_rank or settings.width) + 1) * numbers_of_query(settings, num_relations)


class Options(NamedTuple):
    """Structure of the layers. Flags are 0 or 1."""

    num_senders: int  # K
    fan_out: int  # edges along which a node sends, about
    gate: int
    mean: int
    max: int
    additive: int
    features: int
    degrees: int
    epsilon: float  # of the norm
    drop: float  # probability that a query does not see an edge


class Shared(NamedTuple):
    """Parameters that all queries share, and in the same shapes with a leading Q their gradients."""

    weight: Array  # W [L, I, D]
    bias: Array  # b [L, D]
    norm_gain: Array  # g [L, D]
    norm_bias: Array  # g₀ [L, D]
    source: Array  # S [L, D, A]
    attention: Array  # a [L, A]
    attention_bias: Array  # c [L]
    priority: Array  # p [L, D]
    priority_bias: Array  # p₀ [L]
    attention_degrees: Array  # of log(1 + edges of u with r) and log(1 + edges of u) [L, 2, A]; empty without degrees
    state_degrees: Array  # of log(1 + edges of v) and log(1 + messages) [L, 2, D]; empty without degrees


class Transposed(NamedTuple):
    """The matrices of `Shared` the other way round, for the backward pass."""

    weight: Array  # [L, D, I]
    source: Array  # [L, A, D]


class PerQuery(NamedTuple):
    """Parameters that depend on the query relation, and in the same shapes their gradients."""

    head_state: Array  # h⁰ of the head [Q, D]
    relation_weight: Array  # w_r(q) [Q, L, R, D]
    relation_bias: Array  # b_r(q) [Q, L, R, A]
    relation_offset: Array  # o_r(q) [Q, L, R, D]; empty without additive messages
    readout: Array  # [Q, D]
    unreached: Array  # score of entities not reached [Q]
    feature_weight: Array  # [Q, 3]


class Task(NamedTuple):
    """A query: where it starts, which edges it must not use, and its answers."""

    head: int
    relation: int
    hidden: Int64s  # sorted positions of edges
    targets: Int32s  # answers to predict
    filtered: Int32s  # other known answers
    seed: int


class Tasks(NamedTuple):
    """A batch of queries; those of query i are `offsets[i]:offsets[i+1]` of the ragged columns."""

    heads: Int32s
    relations: Int32s
    hidden_offsets: Int64s
    hidden: Int64s
    target_offsets: Int64s
    targets: Int32s
    filtered_offsets: Int64s
    filtered: Int32s
    seeds: Int64s  # for dropped edges and for the sampling of negatives in the backward pass
