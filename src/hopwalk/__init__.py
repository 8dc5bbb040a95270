"""hopwalk answers queries (head, relation, ?) over incomplete knowledge graphs, and shows the walks that are the reason.

>>> import hopwalk
>>> umls = hopwalk.load_dataset("umls")
>>> hopwalk.graph_of(umls)
Graph(135 entities, 10,567 edges, at most 307 from one)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from hopwalk.api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Public names are those of `hopwalk.api`, imported when first used: `import hopwalk` stays light."""
    from importlib import import_module

    api = import_module("hopwalk.api")
    if name == "__all__":
        return api.__all__
    if name not in api.__all__:
        raise AttributeError(f"module 'hopwalk' has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    from hopwalk.api import __all__ as names

    return [*globals(), *names]
