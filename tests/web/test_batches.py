"""The API beyond one query: batches, rules, paths between entities, and the names of its operations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hopwalk.web.limits import (
    MOST_HOPS,
    MOST_JOBS,
    MOST_PATHS_IN_ALL,
    MOST_PROPOSED,
    MOST_QUERIES,
    MOST_RELATIONS,
    MOST_RULES,
)
from hopwalk.web.runs import RunView, load_runs
from tests.docs.pages import DOCS, text_of
from tests.support.serving import QUERY, SCRIPT, Client, problem_of, serving

OPERATIONS = {
    "ask",
    "ask_many",
    "explain",
    "draw",
    "profile",
    "list_facts",
    "search_entities",
    "search_relations",
    "list_rules",
    "find_paths",
    "start_complete",
    "list_jobs",
    "show_job",
    "list_proposed_facts",
    "cancel_job",
    "list_runs",
    "show_run",
    "health",
    "show_metrics",
}


@pytest.fixture(scope="module")
def village(served_runs: Mapping[str, RunView]) -> RunView:
    return served_runs["village"]


def test_operation_ids_are_stable(client: Client):
    """Clients are generated from these names: a name that changes breaks them."""
    described = client.get("openapi.json").json()
    found = [operation["operationId"] for path in described["paths"].values() for operation in path.values()]
    assert len(found) == len({*found}) and {*found} == OPERATIONS


def test_a_batch_is_answered_like_its_queries(client: Client):
    queries = [QUERY, {"head": "MOTHER_1", "relation": "Mother⁻¹"}, {"head": "man 1", "relation": "knows"}, QUERY]
    found = client.post("ask-many", {"queries": queries, "k": 4, "paths": 2, "only_new": True}).json()["results"]
    for one, query in zip(found, queries, strict=True):
        alone = client.post("ask", query | {"k": 4, "paths": 2, "only_new": True}).json()
        assert {name: one[name] for name in one if name != "answers"} == {
            name: alone[name] for name in alone if name != "answers"
        }
        assert [answer["key"] for answer in one["answers"]] == [answer["key"] for answer in alone["answers"]]
        for answer, other in zip(one["answers"], alone["answers"], strict=True):
            assert answer["score"] == pytest.approx(other["score"], abs=1e-4)
    hostile = client.post("ask-many", {"run": "hostile", "queries": [{"head": SCRIPT, "relation": "meets"}]}).json()["results"]
    assert hostile[0]["head"] == SCRIPT and hostile[0]["answers"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"queries": []}, 422, "invalid_request"),
        ({"queries": [QUERY] * (MOST_QUERIES + 1)}, 422, "invalid_request"),
        ({"queries": [QUERY] * 64, "k": 100, "paths": 20}, 422, "too_much"),
        ({"queries": [QUERY | {"k": 1}]}, 422, "invalid_request"),
        ({"queries": [QUERY, QUERY | {"head": "childd 1"}]}, 404, "unknown_name"),
        ({"run": "city"}, 404, "unknown_run"),
    ],
    ids=["none", "too many", "too much", "own options", "unknown", "run"],
)
def test_batches_that_are_refused(client: Client, change: dict[str, Any], status: int, code: str):
    problem = problem_of(client.post("ask-many", {"queries": [QUERY]} | change), status)
    assert problem["code"] == code
    if code == "unknown_name":
        assert problem["field"] == "queries.1.head" and "child 1" in problem["suggestions"]


def test_rules_are_those_of_python(client: Client, village: RunView):
    found = client.get("api/v1/rules", params={"relation": "UNCLE", "k": 3}).json()
    expected = [used.to_dict() for used in village.reasoner.rules("uncle", k=3)]
    assert (found["run"], found["relation"]) == ("village", "uncle")
    assert [rule["rule"] for rule in found["rules"]] == [rule["rule"] for rule in expected]
    assert [rule["support"] for rule in found["rules"]] == [rule["support"] for rule in expected]
    inverse = client.get("api/v1/rules", params={"relation": "uncle⁻¹"}).json()
    assert inverse["relation"] == "uncle⁻¹" and inverse["rules"]
    assert problem_of(client.get("api/v1/rules", params={"relation": "unkle"}), 404)["suggestions"] == ["uncle"]
    problem_of(client.get("api/v1/rules", params={"relation": "uncle", "k": MOST_RULES + 1}), 422)


def test_paths_between_entities_are_those_of_python(client: Client, village: RunView):
    found = client.get("api/v1/paths", params={"head": "CHILD_0", "tail": "man 1", "hops": 2, "limit": 3}).json()
    assert found == {"run": "village"} | village.reasoner.paths_between("child 0", "man 1", hops=2, k=3).to_dict()
    problem = problem_of(client.get("api/v1/paths", params={"head": "child 0", "tail": "child 0"}), 422)
    assert problem["code"] == "no_answer" and "same entity" in problem["message"] and problem["remedy"]
    assert problem_of(client.get("api/v1/paths", params={"head": "child 0", "tail": "mann 1"}), 404)["field"] == "tail"
    problem_of(client.get("api/v1/paths", params={"head": "child 0", "tail": "man 1", "hops": MOST_HOPS + 1}), 422)


def test_what_a_model_cannot_do_is_no_internal_error(village_run: Path):
    with serving(load_runs([village_run / "scorer"])) as client:
        problem = problem_of(client.get("api/v1/rules", params={"relation": "uncle"}), 422)
        assert problem["code"] == "no_answer" and "embedding model" in problem["message"]


def test_the_docs_have_the_limits():
    text = text_of(DOCS / "serving.md")
    for row in (
        f"| queries of a batch; queries × k × paths | {MOST_QUERIES}; {MOST_PATHS_IN_ALL:,} | 422 |",
        f"| facts in a path between two entities | {MOST_HOPS} | 422 |",
        f"| rules of a relation | {MOST_RULES} | 422 |",
        f"| jobs; relations and facts of one | {MOST_JOBS}; {MOST_RELATIONS} and {MOST_PROPOSED:,} |",
    ):
        assert row in text
