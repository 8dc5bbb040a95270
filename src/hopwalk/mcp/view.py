"""A graph as a tool sees it: names that agents send become ids, and ids become labels that agents are shown."""

from __future__ import annotations

from typing import TypeVar

from hopwalk.errors import UnknownNameError
from hopwalk.mcp import limits
from hopwalk.mcp.errors import ToolError
from hopwalk.mcp.fact_sets import FactSets, Graph
from hopwalk.mcp.labels import read, shown
from hopwalk.mcp.schemas import Fact, Result, Rule, Status
from hopwalk.mcp.schemas import Path as FactPath
from hopwalk.reasoning.explaining import Explanation
from hopwalk.reasoning.models import FactIds
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.rules import VARIABLES, Evidence
from hopwalk.reasoning.rules import Rule as PathRule
from hopwalk.reasoning.values import ReasoningPath

R = TypeVar("R", bound=Result)
UNKNOWN = "?"  # what is asked for


class View:
    """One call's view of a graph. It remembers the readable names of the labels that the result has."""

    def __init__(self, graph: Graph, sets: FactSets, connection: str | None) -> None:
        self.graph, self.sets, self.connection = graph, sets, connection
        self._names: dict[str, str] = {}

    @property
    def reasoner(self) -> Reasoner:
        """The reasoner on this graph."""
        return self.graph.reasoner

    @property
    def names(self) -> Names:
        """Its names."""
        return self.graph.reasoner.names

    # From names to ids

    def entity_id(self, text: str, field: str) -> int:
        """The entity that an argument names."""
        try:
            return self.names.entity_id(read(text, self.reasoner.dataset.entities))
        except UnknownNameError as error:
            near = [self.reasoner.dataset.entities[id_] for id_ in self.names.entities.near(text)]
            try_next = "Use one of the suggestions." if near else "Call find_entities with a part of the name."
            raise ToolError(f"{field}: {error.problem}.", try_next, near) from None

    def directed(self, text: str, field: str = "relation", *, is_shown: bool = True) -> tuple[int, bool]:
        """The relation that an argument names, and whether it names its inverse."""
        dataset = self.reasoner.dataset
        try:
            found = self.names.relation_id(read(text, dataset.relations) if is_shown else text)
        except UnknownNameError as error:
            near = [dataset.relations[id_] for id_ in self.names.relations.near(text)]
            try_next = "Use one of the suggestions." if near else "Call list_relations."
            raise ToolError(f"{field}: {error.problem}.", try_next, near) from None
        is_inverse = bool(dataset.relation_ids.is_inverse(found))
        return (int(dataset.relation_ids.inverse(found)) if is_inverse else found), is_inverse

    def way(self, relation: int, is_inverse: bool) -> int:
        """The relation, or its inverse."""
        return int(self.reasoner.dataset.relation_ids.inverse(relation)) if is_inverse else relation

    def fact_ids(self, head: str, relation: str, tail: str, *, is_shown: bool = True) -> FactIds:
        """The fact that three arguments name, along the arrow of its relation."""
        if not is_shown:
            dataset = self.reasoner.dataset
            return dataset.entities.id(head), dataset.relations.id(relation), dataset.entities.id(tail)
        way, is_inverse = self.directed(relation)
        ends = self.entity_id(head, "head"), self.entity_id(tail, "tail")
        return (ends[1], way, ends[0]) if is_inverse else (ends[0], way, ends[1])

    def end_label(self, text: str, field: str) -> str:
        """The label of an entity that a new fact names; a name that nothing matches becomes one, if the model takes new ones."""
        label, entities = read(text, self.reasoner.dataset.entities), self.names.entities
        try:
            found = entities.find(label)
        except UnknownNameError as error:
            near = [self.reasoner.dataset.entities[id_] for id_ in entities.near(text)]
            raise ToolError(f"{field}: {error.problem}.", "Use one of the suggestions.", near) from None
        if found is not None:
            return self.reasoner.dataset.entities[found]
        if not self.reasoner.model.takes_new_entities:
            self.entity_id(text, field)  # says what is near
        if len(label) > limits.MOST_NEW_CHARACTERS or not label.isprintable():
            problem = f"{field}: the name of a new entity has at most {limits.MOST_NEW_CHARACTERS} characters, all printable."
            raise ToolError(problem, "Choose a shorter or plainer name.")
        return label

    # From ids to what is shown

    def label(self, label: str, name: str = "") -> str:
        """The label as it is shown; its readable name is remembered."""
        made = shown(label)
        if name and name != label:
            self._names[made] = shown(name)
        return made

    def entity(self, id_: int | None) -> str:
        """An entity, or the sign for what is asked."""
        entities = self.reasoner.dataset.entities
        return UNKNOWN if id_ is None else self.label(entities[id_], entities.name(id_))

    def relation(self, id_: int) -> str:
        """A relation."""
        return shown(self.reasoner.dataset.relations[id_])

    def relation_name(self, id_: int) -> str:
        """The readable name of a relation."""
        return shown(self.reasoner.dataset.relations.name(id_))

    def fact(self, head: int | None, relation: int, tail: int | None) -> Fact:
        """A fact or a question."""
        return Fact(head=self.entity(head), relation=self.relation(relation), tail=self.entity(tail))

    def status(self, fact: FactIds) -> Status:
        """Whether a known fact is one of the graph, or one that the client has added."""
        dataset, (head, relation, tail) = self.reasoner.dataset, fact
        labels = dataset.entities[head], dataset.relations[relation], dataset.entities[tail]
        return "added" if labels in self.graph.added else "stated"

    def path(self, start: int, path: ReasoningPath) -> FactPath:
        """The facts of a path from an entity, each along its own arrow."""
        facts, here = [], self.entity(start)
        for edge in path.edges:
            there = self.label(edge.key, edge.entity)
            head, tail = (there, here) if edge.is_inverse else (here, there)
            facts.append(Fact(head=head, relation=shown(edge.relation), tail=tail))
            here = there
        return facts

    def rule(self, rule: PathRule, evidence: Evidence) -> Rule:
        """A rule, with X and Y for its ends."""
        places = ["X", *VARIABLES[: len(rule.body) - 1], "Y"] if rule.body else []
        steps = zip(rule.body, places, places[1:], strict=False)
        body = [_atom(name, is_inverse, one, other) for (name, is_inverse), one, other in steps]
        conclusion = _atom(rule.head, rule.is_head_inverse, "X", "Y")
        return Rule(body=body, conclusion=conclusion, holds=evidence.support, of=evidence.predictions)

    # What the reasoner is asked

    def ask(self, entity: int, relation: int, from_tail: bool, k: int, num_paths: int) -> Answers:
        """The new answers of a question in either direction."""
        label, way = self.reasoner.dataset.entities[entity], self.names.relation_key(self.way(relation, from_tail))
        return self.reasoner.ask(label, way, k=k, num_paths=num_paths, only_new=True)

    def explain(self, fact: FactIds, num_paths: int) -> Explanation:
        """The explanation of a fact."""
        dataset, (head, relation, tail) = self.reasoner.dataset, fact
        labels = dataset.entities[head], self.names.relation_key(relation), dataset.entities[tail]
        return self.reasoner.explain(*labels, num_paths=num_paths)

    def result(self, kind: type[R], **values: object) -> R:
        """A result, with the names of the labels in it, and the number of added facts it takes into account."""
        return kind.model_validate({"names": self._names, "added_facts": len(self.graph.added), **values})


def _atom(name: str, is_inverse: bool, one: str, other: str) -> Fact:
    head, tail = (other, one) if is_inverse else (one, other)
    return Fact(head=head, relation=shown(name), tail=tail)
