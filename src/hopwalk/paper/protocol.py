"""The dev queries of the paper: on NELL-995 it leaves out those about entities that have no fact in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopwalk.paper.ledger import Result

ALL = ""  # stands for all queries, beside the strata
# The number of dev queries whose head or tail has no fact in the graph, in all and by stratum.
LEFT_OUT: dict[str, dict[str, int]] = {"nell-995": {ALL: 102, "to-many": 12, "to-one": 90, "seen": 10, "unseen": 92}}
NUM_DEV_QUERIES = {"nell-995": 543}


def with_papers_queries(result: Result) -> Result:
    """A walker's result with its numbers of dev on the paper's queries; the same result on data sets that have them all.

    This is exact: no walk leads from or to an entity without a fact, so the reciprocal rank of a query left out is 0.
    """
    left_out = LEFT_OUT.get(result.data)
    if result.kind != "walker" or left_out is None:
        return result
    content = dict(result.content)
    for split in ("valid", "valid_complete_filter"):
        if content.get(split):
            content[split] = {by: _without(numbers, left_out) for by, numbers in content[split].items()}
    num_all = NUM_DEV_QUERIES[result.data]
    factor = num_all / (num_all - left_out[ALL])
    content["history"] = [
        record | {"valid_mrr": factor * record["valid_mrr"]} if record.get("valid_mrr") is not None else record
        for record in result.history
    ]
    return Result(result.kind, content)


def _without(numbers: Mapping[str, Any], left_out: Mapping[str, int]) -> dict[str, Any]:
    """The metrics of a ranking without the queries left out."""
    strata = {name: _scaled(part, left_out[name]) for name, part in numbers["strata"].items()}
    return dict(numbers) | {"tails": _scaled(numbers["tails"], left_out[ALL]), "strata": strata}


def _scaled(part: Mapping[str, Any], num_left_out: int) -> dict[str, Any]:
    """Metrics of queries without those of reciprocal rank 0 that are left out; values without a mean stay."""
    num_all = part["num_queries"]
    num_kept = num_all - num_left_out
    scaled = {
        name: value * num_all / num_kept
        for name, value in part.items()
        if value is not None and name.startswith(("mrr", "hits@")) and not isinstance(value, list)
    }
    unreached = (part["unreached"] * num_all - num_left_out) / num_kept
    return dict(part) | scaled | {"unreached": unreached, "num_queries": num_kept}
