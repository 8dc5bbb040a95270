"""The API: the same answers as from Python, for many clients at once; search, runs, metrics and pages."""

import json
import re
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from benchmarks import serving as serving_results
from hopwalk import __version__
from hopwalk.data.dataset import assemble
from hopwalk.data.names import has_both_spellings
from hopwalk.data.reading import LabelledFacts
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web.app import STATIC
from hopwalk.web.limits import (
    MOST_ANSWERS,
    MOST_BODY_BYTES,
    MOST_CHARACTERS,
    MOST_FOUND,
    MOST_PATHS,
    MOST_URL_BYTES,
    Limits,
)
from hopwalk.web.middleware import POLICY
from hopwalk.web.runs import RunView, load_runs
from tests.support.serving import LONG, QUERY, QUICK, SCRIPT, Client, problem_of, serving, wait_until
from tests.support.villages import settings_of, train_walker

ask_many = Reasoner.ask_many


@pytest.fixture(scope="module")
def village(served_runs: Mapping[str, RunView]) -> RunView:
    return served_runs["village"]


# Answers


def test_answers_are_the_same_as_in_python(client: Client, village: RunView):
    found = client.post("ask", QUERY | {"k": 5, "paths": 2}).json()
    expected = village.reasoner.ask("child 0", "uncle", k=5, num_paths=2)
    assert found["answers"] == expected.to_dict()["answers"]
    assert (found["run"], found["head"], found["name"], found["relation"]) == ("village", "child 0", "child 0", "uncle")


def test_names_in_other_spellings_and_inverse_relations(client: Client, village: RunView):
    found = client.post("ask", {"head": "MOTHER_1", "relation": "Mother⁻¹", "only_new": True}).json()
    assert (found["head"], found["relation"]) == ("mother 1", "mother⁻¹")
    expected = village.reasoner.ask("mother 1", "mother⁻¹", only_new=True)
    assert found["answers"] == expected.to_dict()["answers"]


def test_explanations_are_the_same_as_in_python_with_a_drawing(client: Client, village: RunView):
    tail = village.reasoner.ask("child 0", "uncle")[0].entity
    found = client.post("explain", QUERY | {"tail": tail, "paths": 3}).json()
    expected = village.reasoner.explain("child 0", "uncle", tail, num_paths=3).to_dict()
    assert {name: found[name] for name in expected} == expected
    assert found["reasons"][0]["rule"].startswith("uncle(X,Y) ⇐ ")
    drawn_paths = [path for reason in found["reasons"] for path in reason["paths"]]
    for width in (320, 900):
        drawn = client.post("draw", {"head": "child 0", "key": "child 0", "paths": drawn_paths, "width": width}).json()["drawing"]
        assert drawn.startswith("<svg") and int(drawn.partition('width="')[2].partition('"')[0]) <= width
        assert f'data-key="{quote(tail)}"' in drawn


@pytest.mark.parametrize(
    "change",
    [
        {"width": 100},
        {"width": 9999},
        {"paths": []},
        {"paths": [{"edges": []}] * 51},
        {"paths": [{"edges": [{"relation": "r"}]}]},
        {"more": 1},
    ],
    ids=str,
)
def test_drawings_are_bounded(client: Client, change: dict[str, Any]):
    problem_of(client.post("draw", {"head": "a", "paths": [{"edges": []}]} | change), 422)


def test_profiles_and_pages_of_facts(client: Client, village: RunView):
    found = client.get("api/v1/profile", params={"entity": "MOTHER_1"}).json()
    assert found == {"run": "village"} | village.reasoner.profile("mother 1").to_dict()
    relation = found["relations"][0]
    page = client.get(
        "api/v1/facts", params={"entity": "mother 1", "relation": relation["relation"], "offset": 1, "limit": 2}
    ).json()
    assert page == village.reasoner.facts("mother 1", relation["relation"], offset=1, limit=2).to_dict()
    assert page["entities"] == relation["entities"][1:3]
    problem_of(client.get("api/v1/profile", params={"entity": "nobody at all"}), 404)
    problem_of(client.get("api/v1/facts", params={"entity": "mother 1", "relation": "zzz"}), 404)
    for bad in ({"offset": -1}, {"limit": MOST_FOUND + 1}, {"entity": "x" * (MOST_CHARACTERS + 1)}):
        problem_of(client.get("api/v1/facts", params={"entity": "mother 1", "relation": "uncle"} | bad), 422)


def test_underscores_are_kept_where_names_differ_by_them_only():
    assert not has_both_spellings(Vocabulary.of(["a_b", "c d"]))
    assert has_both_spellings(Vocabulary.of(["a_b", "a b"]))


def test_why_not(client: Client):
    found = client.post("explain", {"run": "hostile", "head": "plain", "relation": "meets", "tail": "island"}).json()
    assert found["why_not"] == "No path of at most 3 hops leads there."
    assert (found["rank"], found["probability"], found["reasons"], found["missing_fact"]) == (None, None, [], None)


def test_a_request_can_name_the_run(client: Client):
    found = client.post("ask", {"run": "hostile", "head": SCRIPT, "relation": "meets"}).json()
    assert found["run"] == "hostile" and found["head"] == SCRIPT
    assert LONG in [answer["entity"] for answer in found["answers"]]


def test_entities_of_the_same_name_have_different_keys(tmp_path: Path):
    facts = pl.DataFrame(
        [("Q1", "P1", "Q2"), ("Q1", "P1", "Q3"), ("Q2", "P1", "Q3")], schema=["head", "relation", "tail"], orient="row"
    )
    dataset = assemble("named", LabelledFacts({"train": facts}, names={"Q1": "Bob", "Q2": "Ann", "Q3": "Ann", "P1": "knows"}))
    folder = train_walker(dataset, settings_of(QUICK), out=tmp_path / "named").path
    with serving(load_runs([folder])) as client:
        found = client.post("ask", {"head": "bob", "relation": "knows"}).json()
        expected = {"run": "named", "head": "Q1", "name": "Bob", "relation": "P1", "relation_name": "knows"}
        assert {name: found[name] for name in expected} == expected
        assert {answer["key"]: answer["entity"] for answer in found["answers"]} == {"Q2": "Ann", "Q3": "Ann"}  # Bob is the head
        for key in ("Q2", "Q3"):
            explained = client.post("explain", {"head": "Q1", "relation": "P1", "tail": key}).json()
            assert (explained["head"], explained["tail"]) == ("Bob", "Ann")
        problem = problem_of(client.post("ask", {"head": "Ann", "relation": "P1"}), 404)
        assert {"Q2", "Q3"} <= {*problem["suggestions"]} and "Q2 (Ann)" in problem["remedy"]
        assert client.get("api/v1/entities", params={"q": "an"}).json()["entities"][0] == {"entity": "Q2", "name": "Ann"}


def test_a_propagation_run_is_served(propagation_run: Path, village_run: Path):
    """Beside an embedding model, which answers without paths."""
    runs = load_runs([propagation_run, village_run / "scorer"])
    for run in runs.values():
        run.warm_up()  # as the server does: kernels are not compiled within the time of a request
    with serving(runs) as client:
        first, second = client.get("api/v1/runs").json()["runs"]
        assert (first["hops"], first["ranks_by"]) == (2, "the walks from the head, and nothing else")
        assert (second["run"], second["hops"], second["ranks_by"]) == ("scorer", 0, "embeddings; there are no paths")
        reasoner = Reasoner.load(propagation_run)
        found = client.post("ask", QUERY | {"k": 5, "paths": 2}).json()
        assert found["answers"] == reasoner.ask("child 0", "uncle", k=5, num_paths=2).to_dict()["answers"]
        assert found["answers"][0]["rules"][0]["rule"] == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"
        tail = found["answers"][0]["key"]
        explained = client.post("explain", QUERY | {"tail": tail}).json()
        assert explained["rank"] >= 1 and explained["reasons"][0]["rule"].startswith("uncle(X,Y) ⇐ ")
        without = client.post("ask", QUERY | {"run": "scorer"}).json()["answers"]
        assert without and not any(answer["paths"] for answer in without)


def test_a_query_is_answered_before_the_first_request(village: RunView, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str]] = []

    def noted(reasoner: Reasoner, queries: list[tuple[str, str]], **options: Any) -> Any:
        asked.extend(queries)
        return ask_many(reasoner, queries, **options)

    monkeypatch.setattr(Reasoner, "ask_many", noted)
    village = RunView(village.name, village.reasoner)
    village.warm_up()
    examples = [(example["head"], example["relation"]) for example in village.about["examples"]]
    assert examples and {*examples} <= {*asked}


def test_many_clients_each_get_their_own_answers(village: RunView, monkeypatch: pytest.MonkeyPatch):
    """The first query holds the engine, so that the others are batched; those with other options are in other batches."""
    sizes, may_begin = [], threading.Event()

    def held(reasoner: Reasoner, queries: list[tuple[str, str]], **options: Any) -> Any:
        sizes.append(len(queries))
        assert may_begin.wait(20)
        return ask_many(reasoner, queries, **options)

    monkeypatch.setattr(Reasoner, "ask_many", held)
    names = list(village.dataset.entities)
    queries = [
        {"head": head, "relation": relation, "k": k, "paths": 1}
        for head in names[:16]
        for relation, k in (("uncle", 100), ("mother⁻¹", 100), ("knows", 50))
    ]
    with serving({"village": village}) as client, ThreadPoolExecutor(len(queries)) as pool:
        futures = [pool.submit(client.post, "ask", query) for query in queries]
        wait_until(lambda: f"hopwalk_waiting {len(queries) - sum(sizes)}\n" in client.get("metrics").text)
        may_begin.set()
        found = [future.result().json() for future in futures]
    assert sum(sizes) == len(queries) and max(sizes) >= 8
    monkeypatch.undo()
    for query, answered in zip(queries, found, strict=True):
        assert (answered["head"], answered["relation"]) == (query["head"], query["relation"])
        alone = village.reasoner.ask(str(query["head"]), str(query["relation"]), k=int(str(query["k"])), num_paths=1)
        scores = {answer.entity: answer.score for answer in alone}
        assert {answer["entity"]: answer["score"] for answer in answered["answers"]} == pytest.approx(scores, abs=1e-4)
        texts = [path["text"] for answer in answered["answers"] for path in answer["paths"]]
        assert texts and all(text.startswith(f"{query['head']} ") for text in texts)


def test_clients_that_disconnect_do_no_harm(client: Client):
    host, port = client.address.removeprefix("http://").rstrip("/").split(":")
    body = json.dumps(QUERY).encode()
    whole = b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    for sent in (b"", b"POST /api", whole, whole + body[:5], whole + body):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
    assert client.post("ask", QUERY).status_code == 200


def test_a_request_under_way_is_answered_before_the_server_stops(village: RunView, monkeypatch: pytest.MonkeyPatch):
    began, may_end = threading.Event(), threading.Event()

    def held(*arguments: Any, **options: Any) -> Any:
        began.set()
        assert may_end.wait(20)
        return ask_many(*arguments, **options)

    monkeypatch.setattr(Reasoner, "ask_many", held)
    with serving({"village": village}) as client, ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.post, "ask", QUERY)
        assert began.wait(20)
        client.server.should_exit = True
        threading.Timer(0.3, may_end.set).start()
        assert future.result().status_code == 200


def test_entities_are_found_by_the_beginning_of_their_names(client: Client):
    found = client.get("api/v1/entities", params={"q": "mother", "limit": 3}).json()["entities"]
    assert found == [{"entity": f"mother {number}", "name": f"mother {number}"} for number in range(3)]
    assert client.get("api/v1/entities", params={"q": "zzz"}).json() == {"entities": []}


def test_relations_of_an_entity_come_first(client: Client, village: RunView):
    relations = client.get("api/v1/relations", params={"entity": "mother 0"}).json()["relations"]
    facts = village.dataset.labels_of(village.dataset.facts)
    counts = {
        **{
            name: sum((head, relation) == ("mother 0", name) for head, relation, _ in facts) for name in village.dataset.relations
        },
        **{
            f"{name}⁻¹": sum((tail, relation) == ("mother 0", name) for _, relation, tail in facts)
            for name in village.dataset.relations
        },
    }
    assert {one["relation"]: one["facts"] for one in relations} == counts
    shown = [one["facts"] for one in relations]
    assert shown == sorted(shown, reverse=True) and shown[0] > 0 and shown[-1] == 0
    assert all(one["is_inverse"] == one["relation"].endswith("⁻¹") for one in relations)


def test_relations_are_found_by_the_beginning_of_their_names(client: Client):
    def found(text: str) -> list[str]:
        return [one["relation"] for one in client.get("api/v1/relations", params={"q": text}).json()["relations"]]

    assert sorted(found("unc")) == ["uncle", "uncle⁻¹"]
    assert found("uncle⁻¹") == ["uncle⁻¹"]
    assert found("nothing") == []


def test_unknown_names_come_with_suggestions(client: Client):
    problem = problem_of(client.post("ask", {"head": "childd 1", "relation": "uncle"}), 404)
    assert (problem["code"], problem["field"]) == ("unknown_name", "head") and "child 1" in problem["suggestions"]
    problem = problem_of(client.post("ask", {"head": "child 0", "relation": "unkle"}), 404)
    assert problem["field"] == "relation" and problem["suggestions"] == ["uncle"]
    problem = problem_of(client.post("explain", QUERY | {"tail": "mann 1"}), 404)
    assert problem["field"] == "tail" and "man 1" in problem["suggestions"]
    problem = problem_of(client.post("ask", QUERY | {"run": "city"}), 404)
    assert problem["field"] == "run" and problem["suggestions"] == ["village", "hostile"]
    problem_of(client.get("api/v1/relations", params={"entity": "nobody at all"}), 404)
    problem_of(client.get("api/v1/runs/city"), 404)


def test_runs(client: Client, village: RunView):
    first, second = client.get("api/v1/runs").json()["runs"]
    assert first == client.get("api/v1/runs/village").json()
    assert (first["run"], second["run"]) == ("village", "hostile")
    assert first["entities"] == len(village.dataset.entities) and first["hops"] == 2
    assert first["ranks_by"] == "the probability of the policy's paths, as in the paper"
    assert first["card"].startswith("# A walker on")
    assert len(first["examples"]) == 3
    for example in first["examples"]:
        answers = client.post("ask", {"head": example["head"], "relation": example["relation"], "paths": 1}).json()["answers"]
        same = next(answer for answer in answers if answer["entity"] == example["answer"]["entity"])
        assert same == rounded(example["answer"])  # examples are asked together, which rounds otherwise


def rounded(value: Any) -> Any:
    """A JSON value with the first digits of its numbers."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return pytest.approx(value, abs=1e-4) if isinstance(value, float) else value


def test_runs_of_the_same_name_get_a_number(village: RunView):
    folder = village.reasoner.run.path
    assert list(load_runs([folder, folder])) == ["village", "village-2"]


def test_health(client: Client):
    assert client.get("api/v1/health").json() == {"status": "ok", "version": __version__, "runs": 2, "waiting": 0}


def test_metrics_count_requests_and_batches(village: RunView):
    with serving({"village": village}) as client:
        for _ in range(3):
            client.post("ask", QUERY)
        client.post("ask", {"head": "nobody"})
        text = client.get("metrics").text
    assert 'hopwalk_requests_total{operation="ask",status="200"} 3' in text
    assert 'hopwalk_requests_total{operation="ask",status="422"} 1' in text
    assert 'hopwalk_request_seconds_count{operation="ask"} 4' in text
    assert "hopwalk_batch_size_sum 3\n" in text and "hopwalk_waiting 0\n" in text
    buckets = [int(count) for count in re.findall(r'hopwalk_batch_size_bucket\{le="[^"]+"\} (\d+)', text)]
    assert buckets == sorted(buckets) and buckets[-1] == 3
    line = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.e+-]+)')
    assert all(line.fullmatch(one) for one in text.splitlines())


def test_pages_load_nothing_from_other_hosts_and_run_nothing_inline(client: Client):
    for path in ("", "docs"):
        page = client.get(path)
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page.text)
        for link in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
            assert client.get(link).status_code == 200, link
    for file in STATIC.iterdir():
        addresses = set(re.findall(r"https?://[^\s\"'`<>)]+", file.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file.name
    assert client.get("static/../app.py").status_code == 404
    assert client.get("openapi.json").json()["info"]["title"] == "hopwalk"


def test_the_docs_have_the_limits_and_the_measurements():
    text = serving_results.PAGE.read_text(encoding="utf-8")
    assert serving_results.with_table(text) == text, "make it again with: python -m benchmarks.serving"
    values = {
        "answers (`k`)": MOST_ANSWERS,
        "paths per answer": MOST_PATHS,
        "characters of a name": f"{MOST_CHARACTERS:,}",
        "names found by a search": MOST_FOUND,
        "body": f"{MOST_BODY_BYTES // 1024} kB",
        "address": f"{MOST_URL_BYTES // 1024} kB",
        "seconds per request, `--timeout`": f"{Limits().seconds:g}",
        "waiting queries, `--waiting`": Limits().waiting,
    }
    for name, value in values.items():
        assert f"\n| {name} | {value} | " in text
    assert POLICY in text
