"""hopwalk answers questions over incomplete knowledge graphs by walking them, and shows the walk as the reason.

>>> import hopwalk
>>> umls = hopwalk.load_dataset("umls")
>>> hopwalk.graph_of(umls)
Graph(135 entities, 10,567 edges, at most 307 from one)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from hopwalk.api import (
        check,
        combine_scorers,
        compare,
        evaluate,
        evaluate_walker,
        forecast,
        graph_of,
        load,
        load_dataset,
        load_scorer,
        open_prepared,
        prepare,
        settings_for,
        split_dataset,
        train,
        train_scorer,
    )
    from hopwalk.config.settings import Settings, load_settings
    from hopwalk.data.dataset import Dataset
    from hopwalk.data.graph import Graph
    from hopwalk.data.known_answers import KnownAnswers
    from hopwalk.data.pykeen_bridge import from_pykeen, to_pykeen
    from hopwalk.data.writing import write_folder
    from hopwalk.errors import HopwalkError

# What `import hopwalk` offers, and where each is loaded from when it is first used: importing stays light.
_PUBLIC = {
    "compare": "api",
    "train": "api",
    "forecast": "api",
    "evaluate_walker": "api",
    "check": "api",
    "combine_scorers": "api",
    "evaluate": "api",
    "graph_of": "api",
    "load": "api",
    "load_dataset": "api",
    "load_scorer": "api",
    "open_prepared": "api",
    "prepare": "api",
    "settings_for": "api",
    "split_dataset": "api",
    "train_scorer": "api",
    "tune": "api",
    "Settings": "config.settings",
    "load_settings": "config.settings",
    "Dataset": "data.dataset",
    "KnownAnswers": "data.known_answers",
    "from_pykeen": "data.pykeen_bridge",
    "to_pykeen": "data.pykeen_bridge",
    "write_folder": "data.writing",
    "HopwalkError": "errors",
    "Graph": "data.graph",
}

__all__ = [
    "Dataset",
    "Graph",
    "HopwalkError",
    "KnownAnswers",
    "Settings",
    "check",
    "combine_scorers",
    "compare",
    "evaluate",
    "evaluate_walker",
    "forecast",
    "from_pykeen",
    "graph_of",
    "load",
    "load_dataset",
    "load_scorer",
    "load_settings",
    "open_prepared",
    "prepare",
    "settings_for",
    "split_dataset",
    "to_pykeen",
    "train",
    "train_scorer",
    "tune",
    "write_folder",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'hopwalk' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hopwalk.{_PUBLIC[name]}"), name)
