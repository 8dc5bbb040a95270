"""Names that changed since the first version, in one place: settings, parameters of models, rankings, keys of results.

Runs and results that were written before the change are read through these tables; nothing rewrites them on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopwalk.errors import SettingsError

RENAMED_SETTINGS = {
    "walker.learn_valid": "walker.train_on_valid",
    "walker.dev_questions": "walker.dev_queries",
    "scorer.learn_valid": "scorer.train_on_valid",
    "scorer.candidates": "scorer.num_sampled_tails",
    "scorer.picture_height": "scorer.embedding_height",
}
REMOVED_SETTINGS = {
    "graph.damping": 0.85,
    "walker.action_dropout_decay": 1.0,
    "walker.hides_shortcuts": False,
}  # and their default
# How the scorer took part in the ranking. A run ranks by its policy now; one that was guided is refused when it is loaded.
IGNORED_SETTINGS = ("walker.guidance", "walker.reward_weight", "walker.rerank_weight", "walker.blend_weight")
RENAMED_PARAMETERS = {"walker": {"hidden.": "w1.", "output.": "w2."}}  # by model: prefixes of names of arrays


def migrated_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with the names of today."""
    groups = {group: dict(inner) if isinstance(inner, Mapping) else inner for group, inner in values.items()}
    for name, new_name in RENAMED_SETTINGS.items():
        group, key, _, new_key = *name.split("."), *new_name.split(".")
        if isinstance(groups.get(group), dict) and key in groups[group]:
            groups[group].setdefault(new_key, groups[group].pop(key))
    for name, default in REMOVED_SETTINGS.items():
        group, key = name.split(".")
        if isinstance(groups.get(group), dict) and key in groups[group] and groups[group].pop(key) != default:
            raise SettingsError(f"{name} no longer exists, and here it has another value than {default!r}")
    for name in IGNORED_SETTINGS:
        group, key = name.split(".")
        if isinstance(groups.get(group), dict):
            groups[group].pop(key, None)
    return groups


def migrated_parameter(model: str, name: str) -> str:
    """The name of a parameter of a model today, given its name in a file; a checkpoint has more before the name.

    >>> migrated_parameter("walker", "hidden.weight"), migrated_parameter("walker", "learner.optimizer.output.bias.exp_avg")
    ('w1.weight', 'learner.optimizer.w2.bias.exp_avg')
    """
    prefixes = ("", "model.", "learner.optimizer.")
    for old, new in RENAMED_PARAMETERS.get(model, {}).items():
        for prefix in prefixes:
            if name.startswith(prefix + old):
                return prefix + new + name.removeprefix(prefix + old)
    return name


def migrated_rankings(by: Mapping[str, Any]) -> dict[str, Any]:
    """Values by ranking of a walker, by the names of today.

    The first version called a walker's own ranking "paths", and where that was re-ranked with the scorer, the one by the policy
    alone "probability".
    """
    if "paths" not in by:
        return dict(by)
    old = dict(by)
    own = old.pop("paths")
    return {"policy": old.pop("probability", own)} | old


def migrated_keys(content: Any) -> Any:
    """Nested JSON of a result with the names of today: `num_questions` was the first version's `num_queries`."""
    if isinstance(content, list):
        return [migrated_keys(value) for value in content]
    if not isinstance(content, dict):
        return content
    renamed = {
        "num_questions": "num_queries",
        "has_learnt_dev": "trained_on_dev",
        "num_relations_asked": "num_query_relations",
    }
    return {renamed.get(name, name): migrated_keys(value) for name, value in content.items()}
