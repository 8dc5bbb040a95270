"""Facts that clients add for themselves: each set has its own graph, and is forgotten when nobody uses it."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hopwalk.mcp import limits
from hopwalk.reasoning.facts import LabelledFact
from hopwalk.reasoning.reasoner import Reasoner


@dataclass(frozen=True)
class Graph:
    """A reasoner, the facts that a client has added to its graph (by label), and the id of their set."""

    reasoner: Reasoner
    added: frozenset[LabelledFact] = frozenset()
    facts_id: str = ""


@dataclass
class FactSets:
    """The sets of added facts, by an id that cannot be guessed. A client whose connection is known need not send it."""

    reasoner: Reasoner
    _graphs: OrderedDict[str, tuple[Graph, float]] = field(default_factory=OrderedDict)
    _of_connection: dict[str, str] = field(default_factory=dict)

    def graph(self, facts_id: str | None, connection: str | None) -> Graph | None:
        """The graph of a set, or that of the connection, or the one without added facts; None if the id is not known."""
        self._forget_old()
        chosen = facts_id or (self._of_connection.get(connection, "") if connection else "")
        if chosen not in self._graphs:
            return None if facts_id else Graph(self.reasoner)
        found, _ = self._graphs[chosen]
        self._graphs[chosen] = found, time.monotonic()
        self._graphs.move_to_end(chosen)
        return found

    def add(self, graph: Graph, facts: Sequence[LabelledFact], connection: str | None) -> Graph:
        """The graph with more facts, under the id that it has, or a new one."""
        facts_id = graph.facts_id or secrets.token_urlsafe(9)
        made = Graph(graph.reasoner.with_facts(facts), graph.added | {*facts}, facts_id)
        self._graphs[facts_id] = made, time.monotonic()
        self._graphs.move_to_end(facts_id)
        if connection:
            self._of_connection[connection] = facts_id
        self._forget_old()
        return made

    def _forget_old(self) -> None:
        most = max(min(limits.MOST_SETS, limits.MOST_FACTS_IN_SETS // max(len(self.reasoner.dataset.facts), 1)), 1)
        old = time.monotonic() - limits.SECONDS_KEPT
        while self._graphs and (len(self._graphs) > most or next(iter(self._graphs.values()))[1] < old):
            self._graphs.popitem(last=False)
        self._of_connection = {name: facts_id for name, facts_id in self._of_connection.items() if facts_id in self._graphs}
