"""Completing as a job: the same facts as from Python, while queries are answered; progress, cancelling, limits."""

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import requests

from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web import jobs as jobs_module
from hopwalk.web.limits import MOST_JOBS, Limits
from hopwalk.web.runs import RunView, load_runs
from tests.support.serving import QUERY, Client, problem_of, serving, wait_until

complete = Reasoner.complete


@pytest.fixture(scope="module")
def village(served_runs: Mapping[str, RunView]) -> RunView:
    return served_runs["village"]


@pytest.fixture
def alone(village: RunView) -> Iterator[Client]:
    """A server with no other jobs."""
    with serving({"village": village}) as made:
        yield made


def started(client: Client, **options: Any) -> str:
    answer = client.post("complete", options)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"])


def state_of(client: Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"api/v1/jobs/{job}").json()
    return found


def ended(client: Client, job: str) -> dict[str, Any]:
    wait_until(lambda: state_of(client, job)["status"] not in ("waiting", "running"))
    return state_of(client, job)


def facts_of(client: Client, job: str, **options: Any) -> dict[str, Any]:
    answer = client.get(f"api/v1/jobs/{job}/facts", params=options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def delete(client: Client, job: str) -> dict[str, Any]:
    answer = requests.delete(f"{client.address}api/v1/jobs/{job}", timeout=30, headers=client.headers)
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[int], threading.Event]]:
    """Completing that tells of each progress, and stays at its first one until it may go on."""
    progress, may_go = list[int](), threading.Event()

    def slow(reasoner: Reasoner, *arguments: Any, on_progress: Any, **options: Any) -> Any:
        def told(done: int, total: int, facts: int, stage: str) -> None:
            progress.append(done)
            on_progress(done, total, facts, stage)
            while not may_go.wait(0.005):
                on_progress(done, total, facts, stage)  # takes turns, and can be cancelled

        return complete(reasoner, *arguments, on_progress=told, **options)

    monkeypatch.setattr(Reasoner, "complete", slow)
    yield progress, may_go
    may_go.set()


def test_the_facts_are_those_of_python(alone: Client, village: RunView, tmp_path: Path):
    job = started(alone, relations=["UNCLE", "knows"], above=0.05)
    found = ended(alone, job)
    village.reasoner.complete(tmp_path / "facts.tsv", relations=["uncle", "knows"], above=0.05)
    expected = pl.read_csv(tmp_path / "facts.tsv", separator="\t", quote_char=None).to_dicts()
    assert (found["status"], found["facts"], found["error"], found["run"]) == ("finished", len(expected), "", "village")
    assert found["done"] == found["total"] > 0 and found["relations"] == ["uncle", "knows"] and found["above"] == 0.05
    page = facts_of(alone, job, limit=100)
    assert page["total"] == len(expected) and page["facts"] == expected[:100] and expected
    assert facts_of(alone, job, offset=3, limit=2)["facts"] == expected[3:5]
    assert facts_of(alone, job, offset=10**8)["facts"] == []
    assert [one["job"] for one in alone.get("api/v1/jobs").json()["jobs"]] == [job]
    assert delete(alone, job)["status"] == "finished"
    problem_of(alone.get(f"api/v1/jobs/{job}"), 404)


def test_queries_are_answered_while_a_job_runs(alone: Client, held: tuple[list[int], threading.Event]):
    progress, may_go = held
    job = started(alone, above=0.9)
    wait_until(lambda: bool(progress))
    assert state_of(alone, job)["status"] == "running" and state_of(alone, job)["done"] == progress[0]
    for _ in range(5):
        assert alone.post("ask", QUERY).status_code == 200
    problem = problem_of(alone.get(f"api/v1/jobs/{job}/facts"), 409)
    assert problem["code"] == "not_finished" and "running" in problem["message"]
    may_go.set()
    assert ended(alone, job)["status"] == "finished"


def test_a_job_and_queries_are_never_in_the_model_at_once(alone: Client, monkeypatch: pytest.MonkeyPatch, village: RunView):
    inside, together, model = 0, 0, type(village.reasoner.model)
    rank = model.rank

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal inside, together
        inside += 1
        together = max(together, inside)
        time.sleep(0.002)
        try:
            return rank(*arguments, **options)
        finally:
            inside -= 1

    monkeypatch.setattr(model, "rank", counted)
    monkeypatch.setattr(model, "queries_at_once", 2)
    job = started(alone)
    while state_of(alone, job)["status"] in ("waiting", "running"):
        assert alone.post("ask", QUERY).status_code == 200
    assert ended(alone, job)["status"] == "finished" and together == 1


def test_cancelling(alone: Client, held: tuple[list[int], threading.Event]):
    progress, _ = held
    running, waiting = started(alone), started(alone)
    wait_until(lambda: bool(progress))
    assert state_of(alone, waiting)["status"] == "waiting"
    delete(alone, waiting)
    delete(alone, running)
    assert ended(alone, running)["status"] == ended(alone, waiting)["status"] == "cancelled"
    problem_of(alone.get(f"api/v1/jobs/{running}/facts"), 409)
    delete(alone, running)
    assert [one["job"] for one in alone.get("api/v1/jobs").json()["jobs"]] == [waiting]


def test_the_number_of_jobs_is_bounded(alone: Client, held: tuple[list[int], threading.Event]):
    _, may_go = held
    made = [started(alone) for _ in range(MOST_JOBS)]
    problem = problem_of(alone.post("complete", {}), 503)
    assert problem["code"] == "overloaded" and "cancel one" in problem["remedy"]
    may_go.set()
    for job in made:
        assert ended(alone, job)["status"] == "finished"
    newest = started(alone)
    assert ended(alone, newest)["status"] == "finished"
    problem_of(alone.get(f"api/v1/jobs/{made[0]}"), 404)  # it made room
    assert state_of(alone, made[1])["status"] == "finished"


def test_a_server_that_stops_cancels_its_jobs(
    village: RunView, held: tuple[list[int], threading.Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    progress, _ = held
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with serving({"village": village}) as client:
        started(client)
        started(client)
        wait_until(lambda: bool(progress))
        assert [*tmp_path.glob("hopwalk-jobs-*/*.tsv.part")]
    assert not [*tmp_path.iterdir()]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hopwalk-job")]


def test_a_full_queue_only_delays_a_job(village: RunView):
    with serving({"village": village}, limits=Limits(waiting=1)) as client:
        assert ended(client, started(client, relations=["uncle"]))["status"] == "finished"


def test_jobs_that_fail(alone: Client, village_run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(jobs_module, "MOST_PROPOSED", 0)
    found = ended(alone, started(alone, above=0.0))
    assert found["status"] == "failed" and "more than 0 facts. Ask for a higher probability." in found["error"]
    monkeypatch.undo()
    with serving(load_runs([village_run / "scorer"])) as client:
        found = ended(client, started(client))
        assert found["status"] == "failed" and "no paths" in found["error"]

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr(Reasoner, "complete", fail)
    found = ended(alone, started(alone))
    assert found["error"] == "Internal error; see the log of the server." and "a secret" in caplog.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"above": 1.1}, 422),
        ({"above": "high"}, 422),
        ({"relations": ["uncle"] * 65}, 422),
        ({"relations": "uncle"}, 422),
        ({"more": 1}, 422),
        ({"run": "city"}, 404),
        ({"relations": ["uncle", "unkle"]}, 404),
    ],
    ids=str,
)
def test_jobs_that_are_refused(client: Client, body: dict[str, Any], status: int):
    problem = problem_of(client.post("complete", body), status)
    if "unkle" in str(body):
        assert problem["field"] == "relations.1" and problem["suggestions"] == ["uncle"]


def test_jobs_need_the_token(village: RunView):
    with serving({"village": village}, token="secret") as client:
        job = started(client)
        for answer in (
            requests.post(f"{client.address}api/v1/complete", json={}, timeout=30),
            requests.get(f"{client.address}api/v1/jobs/{job}", timeout=30),
            requests.delete(f"{client.address}api/v1/jobs/{job}", timeout=30),
        ):
            assert answer.status_code == 401
        assert ended(client, job)["status"] == "finished"
