"""Results as a ledger keeps them, made up for tests."""

from typing import Any

from hopwalk.paper.ledger import Result
from hopwalk.paper.run_spec import RunSpec

COMPLEX = RunSpec("scorer", "umls", "complex", "modern")
WALKER = RunSpec("walker", "umls", "complex", "modern")


def scorer_content(spec: RunSpec = COMPLEX, **changes: Any) -> dict[str, Any]:
    """The content of a result of a scorer that was trained by a spec."""
    numbers = {"tails": {"mrr": 0.5, "hits@1": 0.4, "hits@10": 0.6, "unreached": 0.0, "num_queries": 10}, "strata": {}}
    return {
        "name": spec.name,
        "data": {"name": spec.data},
        "settings": spec.settings.scorer.model_dump(),
        "status": "finished",
        "training_seconds": 5.0,
        "epochs": 100,
        "history": [{"epoch": 100, "valid_mrr": 0.4}],
        "valid": numbers,
        "test": numbers,
    } | changes


def walker_result(name: str, mrrs: dict[str, float], *, walker: dict[str, Any] | None = None, **changes: Any) -> Result:
    """A result of a walker with these MRRs on dev and test, by ranking; `walker` are changes of its settings."""
    groups = {group: getattr(WALKER.settings, group).model_dump() for group in ("graph", "walk", "walker")}
    groups["walker"] |= walker or {}
    ranked = {ranking: {"tails": {"mrr": mrr}, "strata": {}} for ranking, mrr in mrrs.items()}
    scorer = {"kind": "scorer", "settings": {"model": "complex"}}
    content = scorer_content(WALKER, name=name, settings=groups, scorer=scorer, valid=ranked, test=ranked)
    return Result("walker", content | changes)
