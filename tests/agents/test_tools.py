"""The tools say the same as Python: stated, added and inferred apart, with probability and path; errors say what to try."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import hopwalk
from hopwalk.data.dataset import assemble
from hopwalk.data.reading import LabelledFacts
from hopwalk.mcp import limits, server
from hopwalk.mcp.tools import TOOLS
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.values import ReasoningPath
from tests.support.agents import Agent, in_process
from tests.support.serving import QUICK
from tests.support.villages import settings_of, train_walker


@pytest.fixture(scope="module")
def reasoner(propagation_run: Path) -> Reasoner:
    return hopwalk.load(propagation_run)


def call(reasoner: Reasoner, tool: str, **arguments: Any) -> dict[str, Any]:
    return in_process(reasoner, lambda agent: agent.call(tool, **arguments))


def fails(reasoner: Reasoner, tool: str, **arguments: Any) -> dict[str, Any]:
    return in_process(reasoner, lambda agent: agent.fails(tool, **arguments))


def as_facts(start: str, path: ReasoningPath) -> list[dict[str, str]]:
    facts, here = [], start
    for edge in path.edges:
        head, tail = (edge.key, here) if edge.is_inverse else (here, edge.key)
        facts.append({"head": head, "relation": edge.relation, "tail": tail})
        here = edge.key
    return facts


def stated(reasoner: Reasoner) -> set[tuple[str, str, str]]:
    return set(reasoner.dataset.labels_of(reasoner.dataset.facts))


def test_every_tool_is_described(reasoner: Reasoner):
    async def listed(agent: Agent) -> None:
        found = (await agent.client.list_tools()).tools
        assert [tool.name for tool in found] == [tool.name for tool in TOOLS]
        for tool in found:
            assert tool.title and tool.description and len(tool.description) > 80
            assert tool.input_schema["additionalProperties"] is False and tool.output_schema
            assert all("description" in field for field in tool.input_schema["properties"].values()), tool.name
            assert tool.annotations and tool.annotations.read_only_hint == (tool.name != "add_facts")
        assert sum(len(tool.model_dump_json()) for tool in found) < 40_000, "a model reads all of it"
        told = agent.client.instructions or ""
        assert f"{len(reasoner.dataset.facts)} facts" in told and "inferred" in told
        assert not any(label in told for label in reasoner.dataset.entities)

    in_process(reasoner, listed)


def test_find_entities(reasoner: Reasoner):
    found = call(reasoner, "find_entities", text="mother 1", limit=3)
    assert [one["entity"] for one in found["entities"]] == ["mother 1", "mother 10", "mother 11"]
    facts = [fact for fact in stated(reasoner) if "mother 1" in (fact[0], fact[2])]
    assert found["entities"][0]["facts"] == len(facts) + sum(fact[0] == fact[2] for fact in facts)
    assert (found["names"], found["added_facts"], found["note"]) == ({}, 0, "")
    assert len(call(reasoner, "find_entities")["entities"]) == 10
    assert "shorter part" in call(reasoner, "find_entities", text="zzzzzz")["note"]


def test_list_relations(reasoner: Reasoner):
    found = call(reasoner, "list_relations")
    assert {one["relation"] for one in found["relations"]} == {"mother", "brother", "uncle", "knows"} and found["total"] == 4
    for one in found["relations"]:
        assert one["facts"] == sum(fact[1] == one["relation"] for fact in stated(reasoner))
        assert tuple(one["example"].values()) in stated(reasoner) and one["as_head"] is None
    counts = [one["facts"] for one in found["relations"]]
    assert counts == sorted(counts, reverse=True)
    own = call(reasoner, "list_relations", entity="mother 1", limit=2)["relations"]
    for one in own:
        assert one["as_head"] == sum(fact[:2] == ("mother 1", one["relation"]) for fact in stated(reasoner))
        assert one["as_tail"] == sum(fact[1:] == (one["relation"], "mother 1") for fact in stated(reasoner))
    assert len(own) == 2


@pytest.mark.parametrize("end", ["head", "tail"])
def test_ask(reasoner: Reasoner, end: str):
    entity, way = ("child 0", "uncle") if end == "head" else ("man 1", "uncle⁻¹")
    found = call(reasoner, "ask", relation="Uncle", limit=8, paths=2, **{end: entity.upper()})
    known = reasoner.facts(entity, way, limit=8)
    expected = reasoner.ask(entity, way, k=8, num_paths=2, only_new=True)
    assert known.total == found["stated_total"] > 0
    assert [one["entity"] for one in found["answers"]] == [*(one.key for one in known.neighbours), *(one.key for one in expected)]
    assert found["question"] == {"head": "?", "tail": "?", "relation": "uncle"} | {end: entity}
    for one in found["answers"][: known.total]:
        assert (one["status"], one["probability"]) == ("stated", None)
        (fact,) = one["paths"][0]
        assert {*fact.values()} == {entity, "uncle", one["entity"]}
    for one, answer in zip(found["answers"][known.total :], expected, strict=True):
        assert one["status"] == "inferred" and one["probability"] == pytest.approx(answer.probability, abs=1e-4)
        assert one["paths"] == [as_facts(entity, path) for path in answer.paths]
    assert all(tuple(fact.values()) in stated(reasoner) for one in found["answers"] for path in one["paths"] for fact in path)
    new = call(reasoner, "ask", relation="uncle", only_new=True, **{end: entity})
    assert {one["status"] for one in new["answers"]} == {"inferred"}
    few = call(reasoner, "ask", relation="uncle", limit=1, **{end: entity})
    assert [one["status"] for one in few["answers"]] == ["stated", "inferred"]
    turned = call(reasoner, "ask", relation="uncle⁻¹", limit=8, paths=2, **{"tail" if end == "head" else "head": entity})
    assert turned == found


def test_explain(reasoner: Reasoner):
    tail = reasoner.ask("child 0", "uncle", only_new=True)[0].key
    found = call(reasoner, "explain", head="child 0", relation="uncle", tail=tail, paths=2)
    expected = reasoner.explain("child 0", "uncle", tail, num_paths=2)
    assert (found["status"], found["rank"], found["why_not"]) == ("inferred", expected.rank, "")
    assert found["probability"] == pytest.approx(expected.probability, abs=1e-4)
    assert [one["path"] for one in found["reasons"]] == [
        as_facts("child 0", path) for one in expected.reasons for path in one.paths
    ]
    first, evidence = found["reasons"][0]["rule"], expected.reasons[0].evidence
    assert (first["holds"], first["of"]) == (evidence.support, evidence.predictions)
    assert first["conclusion"] == {"head": "X", "relation": "uncle", "tail": "Y"}
    assert {part for atom in first["body"] for part in (atom["head"], atom["tail"])} == {"X", "A", "Y"}
    known = next(fact for fact in stated(reasoner) if fact[1] == "uncle")
    assert call(reasoner, "explain", **dict(zip(("head", "relation", "tail"), known, strict=True)))["status"] == "stated"


def test_list_facts(reasoner: Reasoner):
    groups = call(reasoner, "list_facts", entity="mother 1")["groups"]
    assert sum(group["total"] for group in groups) >= 5
    for group in groups:
        pattern = group["pattern"]
        for other in group["entities"]:
            fact = tuple(other if part == "?" else part for part in (pattern["head"], pattern["relation"], pattern["tail"]))
            assert fact in stated(reasoner)
    first = call(reasoner, "list_facts", entity="mother 1", relation="knows", role="tail", limit=1)
    assert first["next_offset"] == 1 and first["groups"][0]["pattern"] == {
        "head": "?",
        "relation": "knows",
        "tail": "mother 1",
    }
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = call(reasoner, "list_facts", entity="mother 1", relation="knows", role="tail", limit=2, offset=offset)
        pages += page["groups"][0]["entities"]
        offset = page["next_offset"]
    assert sorted(pages) == sorted(head for head, relation, tail in stated(reasoner) if (relation, tail) == ("knows", "mother 1"))
    assert "other role" in call(reasoner, "list_facts", entity="mother 1", relation="mother")["note"]


def test_find_paths(reasoner: Reasoner):
    found = call(reasoner, "find_paths", start="child 0", end="man 1", hops=3, limit=4)
    expected = reasoner.paths_between("child 0", "man 1", hops=3, k=4)
    assert found["paths"] == [as_facts("child 0", path) for path in expected.paths]
    assert (found["total"], found["is_complete"]) == (expected.total, True)
    assert "different" in fails(reasoner, "find_paths", start="child 0", end="CHILD 0")["try_next"]


def test_propose_facts(reasoner: Reasoner):
    found = call(reasoner, "propose_facts", entity="child 0", min_probability=0.01, limit=5)
    expected = reasoner.propose("child 0", above=0.01, k=5)
    assert [tuple(one["fact"].values()) for one in found["facts"]] == [
        (fact.head, fact.relation, fact.tail) for fact in expected.facts
    ]
    assert {one["status"] for one in found["facts"]} == {"inferred"} and found["total"] == expected.total
    tail = call(reasoner, "propose_facts", entity="man 1", relation="uncle", role="tail", min_probability=0)
    assert {one["fact"]["tail"] for one in tail["facts"]} == {"man 1"}
    assert call(reasoner, "propose_facts", relation="uncle", min_probability=0)["asked"] > 1
    assert "lower" in call(reasoner, "propose_facts", entity="child 0", relation="uncle", min_probability=1)["note"]
    assert "list_relations" in fails(reasoner, "propose_facts")["try_next"]


def test_added_facts_hold_for_the_connection(reasoner: Reasoner):
    async def use(agent: Agent) -> None:
        before = await agent.call("ask", head="child 0", relation="uncle", only_new=True)
        unknown = await agent.fails("ask", head="quinn", relation="uncle")
        assert "no entity 'quinn'" in unknown["error"]
        facts = [
            {"head": "quinn", "relation": "mother", "tail": "MOTHER_1"},
            {"head": "MOTHER 1", "relation": "brother", "tail": "rob"},
        ]
        added = await agent.call("add_facts", facts=facts)
        assert added["new_entities"] == ["quinn", "rob"] and added["added_facts"] == 2 and added["facts_id"]
        found = await agent.call("ask", head="quinn", relation="uncle", limit=25)
        assert found["added_facts"] == 2 and "rob" in {one["entity"] for one in found["answers"]}
        mother = (await agent.call("ask", head="quinn", relation="mother"))["answers"]
        assert ("mother 1", "added") in {(one["entity"], one["status"]) for one in mother}
        explained = await agent.call("explain", head="quinn", relation="mother", tail="mother 1")
        assert explained["status"] == "added"
        listed = await agent.call("list_facts", entity="mother 1", relation="brother")
        assert listed["groups"][0]["added"] == ["rob"] and len(listed["groups"][0]["entities"]) == 3
        more = await agent.call("add_facts", facts=[{"head": "quinn", "relation": "mother⁻¹", "tail": "sam"}])
        assert (more["facts_id"], more["added_facts"], more["new_entities"]) == (added["facts_id"], 3, ["sam"])
        mothers = await agent.call("ask", head="sam", relation="mother")
        assert ("quinn", "added") in {(one["entity"], one["status"]) for one in mothers["answers"]}
        assert before["added_facts"] == 0

    in_process(reasoner, use)
    assert "quinn" not in reasoner.dataset.entities


def test_facts_that_cannot_be_added(reasoner: Reasoner, uncles_run: Path, monkeypatch: pytest.MonkeyPatch):
    def fact(**change: str) -> list[dict[str, str]]:
        return [{"head": "quinn", "relation": "mother", "tail": "mother 1"} | change]

    assert fails(reasoner, "add_facts", facts=fact(relation="mothr"))["suggestions"] == ["mother"]
    assert "facts.0.head: " in fails(reasoner, "add_facts", facts=fact(head="two\nlines"))["error"]
    assert "printable" in fails(reasoner, "add_facts", facts=fact(head="x" * 301))["error"]
    assert "at most 100" in fails(reasoner, "add_facts", facts=fact() * 101)["error"]
    assert "at least 1" in fails(reasoner, "add_facts", facts=[])["error"]
    walker = hopwalk.load(uncles_run)  # knows only the entities it was trained with
    assert "mother 1" in fails(walker, "add_facts", facts=fact(head="mothr 1"))["suggestions"]
    monkeypatch.setattr(limits, "MOST_IN_SET", 1)
    two = [*fact(), *fact(head="rob")]
    assert "more than 1 added facts" in fails(reasoner, "add_facts", facts=two)["error"]
    assert "forgotten" in fails(reasoner, "ask", head="child 0", relation="uncle", facts_id="guessed")["error"]


def test_sets_of_facts_are_bounded(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_SETS", 2)

    async def use(agent: Agent) -> None:
        made = [
            (await agent.call("add_facts", facts=[{"head": name, "relation": "mother", "tail": "mother 1"}]))["facts_id"]
            for name in ("quinn", "rob", "sam")
        ]
        assert len({*made}) == 3, "without a connection each call begins a set"
        assert "again" in (await agent.fails("find_entities", facts_id=made[0]))["try_next"]
        for name, facts_id in zip(("rob", "sam"), made[1:], strict=True):
            found = await agent.call("find_entities", text=name, facts_id=facts_id)
            assert found["entities"][0]["entity"] == name and found["added_facts"] == 1
        assert (await agent.call("find_entities", text="sam"))["entities"] == []
        monkeypatch.setattr(limits, "SECONDS_KEPT", -1.0)
        await agent.fails("find_entities", facts_id=made[2])

    in_process(reasoner, use, is_one_connection=False)


@pytest.mark.parametrize(
    ("tool", "arguments", "message", "try_next"),
    [
        ("ask", {"relation": "uncle", "head": "childd 0"}, "head: there is no entity 'childd 0'", "Use one of the suggestions."),
        ("ask", {"relation": "xyzzy", "head": "child 0"}, "relation: there is no relation 'xyzzy'", "Call list_relations."),
        ("ask", {"relation": "uncle", "head": "xyzzyxyzzy"}, "no entity", "Call find_entities with a part of the name."),
        ("ask", {"relation": "uncle"}, "either head or tail", "call explain"),
        ("ask", {"relation": "uncle", "head": "child 0", "tail": "man 1"}, "either head or tail", "call explain"),
        ("ask", {"head": "child 0"}, "relation: Field required", "Its arguments are facts_id, relation, head"),
        ("ask", {"relation": "uncle", "head": "child 0", "limit": 26}, "limit: Input should be less than", "Call the tool again"),
        ("ask", {"relation": "uncle", "head": "child 0", "k": 3}, "k: there is no such argument", "limit"),
        ("ask", {"relation": "uncle", "head": 3}, "head: Input should be a valid string", "Call the tool again"),
        ("ask", {"relation": "uncle", "head": ""}, "head: String should have at least 1", "Call the tool again"),
        ("ask", {"relation": "uncle", "head": "x" * 2001}, "at most 2000 characters", "Call the tool again"),
        ("find_paths", {"start": "child 0", "end": "man 1", "hops": 5}, "hops: Input should be less than", "Call the tool again"),
        ("list_facts", {"entity": "child 0", "offset": -1}, "offset: ", "Call the tool again"),
        ("no_tool", {}, "There is no such tool.", "The tools are find_entities, list_relations"),
    ],
)
def test_errors_say_what_to_try(reasoner: Reasoner, tool: str, arguments: dict[str, Any], message: str, try_next: str):
    found = fails(reasoner, tool, **arguments)
    assert message in found["error"] and try_next in found["try_next"]
    assert len(found["error"]) < 1000
    if "suggestions" in try_next:
        assert "child 0" in found["suggestions"]


def test_an_embedding_model_has_no_paths(village_run: Path):
    reasoner = hopwalk.load(village_run / "scorer")
    found = call(reasoner, "ask", head="child 0", relation="uncle")
    assert "no paths" in found["note"] and not any(one["paths"] for one in found["answers"] if one["status"] == "inferred")
    assert call(reasoner, "find_paths", start="child 0", end="man 1")["paths"]


TEXTS = [
    "child 0",
    "man 1",
    "uncle",
    "knows⁻¹",
    "",
    " ",
    "?",
    "\x00",
    "\u202e",
    "\ud800",
    "x" * 3000,
    "\\u0041",
    "…#0123456789ab",
    "⁻¹",
]
VALUES: list[Any] = [
    *TEXTS,
    None,
    True,
    0,
    -1,
    3,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    [],
    {},
    [{"head": "child 0"}],
    ["x"] * 200,
]


def test_no_arguments_lead_to_an_internal_error(reasoner: Reasoner, caplog: pytest.LogCaptureFixture):
    """Some that fit and some that do not, drawn at random with a seed."""
    random = np.random.default_rng(0)

    def drawn(pool: list[Any]) -> Any:
        return pool[int(random.integers(len(pool)))]

    async def use(agent: Agent) -> None:
        counts = {True: 0, False: 0}
        for number in range(400):
            tool = TOOLS[number % len(TOOLS)]
            arguments = {}
            for name, field in tool.arguments.model_fields.items():
                if name == "facts":
                    parts = ("head", "relation", "tail")
                    arguments[name] = [{part: drawn(TEXTS if random.random() < 0.3 else TEXTS[:3]) for part in parts}]
                elif field.is_required() or random.random() < 0.3:
                    arguments[name] = drawn(VALUES if random.random() < 0.2 else TEXTS[2:4] if name == "relation" else TEXTS[:2])
            result = await agent.client.call_tool(tool.name, arguments)
            counts[result.is_error] += 1
            assert "Internal" not in str(result.structured_content), (tool.name, arguments)
            assert len(result.model_dump_json()) < 100_000
        assert min(counts.values()) > 40

    in_process(reasoner, use)
    assert not [record for record in caplog.records if record.name.startswith("hopwalk")]


def test_readable_names(tmp_path: Path):
    """Labels are what is sent and shown; names are beside them, and are found. Two entities may have the same."""
    facts = [("Q1", "P1", "Q2"), ("Q1", "P1", "Q3"), ("Q2", "P1", "Q3"), ("Q3", "P1", "Q4")]
    frame = pl.DataFrame(facts, schema=["head", "relation", "tail"], orient="row")
    names = {"Q1": "Bob", "Q2": "Ann", "Q3": "Ann", "P1": "knows", "Q4": "two\nlines"}
    dataset = assemble("named", LabelledFacts({"train": frame}, names=names))
    named = hopwalk.load(train_walker(dataset, settings_of(QUICK), out=tmp_path / "run").path)
    found = call(named, "ask", head="bob", relation="KNOWS")
    assert found["question"] == {"head": "Q1", "relation": "P1", "tail": "?"}
    assert {name: found["names"][name] for name in ("Q1", "Q2", "Q3")} == {"Q1": "Bob", "Q2": "Ann", "Q3": "Ann"}
    assert call(named, "find_entities", text="two")["names"] == {"Q4": r"two\u000alines"}
    relation = call(named, "list_relations")["relations"][0]
    assert (relation["relation"], relation["name"]) == ("P1", "knows")
    wrong = fails(named, "ask", head="Ann", relation="knows")
    assert "matches several" in wrong["error"] and {"Q2", "Q3"} <= {*wrong["suggestions"]}
    assert call(named, "ask", head="Q2", relation="knows")["answers"]
    several = fails(named, "add_facts", facts=[{"head": "ann", "relation": "knows", "tail": "bob"}])
    assert "facts.0.head" in several["error"] and {"Q2", "Q3"} <= {*several["suggestions"]}


def test_failures_of_ours_and_limits(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    def fail(*_: Any) -> Any:
        raise RuntimeError("a secret")

    question = {"head": "child 0", "relation": "uncle"}
    slow = in_process(reasoner, lambda agent: agent.fails("ask", **question), seconds=0.0)
    assert "longer than 0 seconds" in slow["error"] and "Ask for less" in slow["try_next"]
    monkeypatch.setattr(limits, "MOST_WAITING", 0)
    assert "waiting" in fails(reasoner, "ask", **question)["error"]
    monkeypatch.undo()
    monkeypatch.setattr(server, "call", fail)
    found = fails(reasoner, "ask", **question)
    assert "secret" not in str(found) and "a secret" in caplog.text
