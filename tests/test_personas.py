"""What people come for, from the table to the end, in a short form: a page, a table of predictions, an agent over HTTP."""

import io
import json
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchmarks.planted import planted

from hopwalk.cli import main
from hopwalk.web.runs import load_runs
from tests.support.commands import command
from tests.support.serving import Client, problem_of, serving
from tests.support.villages import PROPAGATION_SET

TABLE = Path(__file__).parent / "support" / "drugs.csv"
SHORT = [*PROPAGATION_SET, "--set", "propagation.queries=3000", "--set", "propagation.layers=3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on the table, as everybody makes it first; what was printed is beside it."""
    folder, printed = tmp_path_factory.mktemp("personas"), io.StringIO()
    shutil.copy(TABLE, folder)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["hopwalk", "train", TABLE.name, *SHORT])
        main.run()
    assert not ended.value.code
    (folder / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")
    return folder / "runs" / "drugs"


@pytest.fixture(scope="module")
def client(run: Path) -> Any:
    with serving(load_runs([run])) as made:
        yield made


def test_the_end_of_training_tells_how_good_it_is_and_how_to_go_on(run: Path, capsys: pytest.CaptureFixture[str]):
    printed = (run.parents[1] / "printed.txt").read_text(encoding="utf-8").splitlines()
    assert printed[0].startswith(
        "runs/drugs: finished after 3,008 queries; in 10 questions with a known answer, the right one is"
    )
    rules = printed[printed.index("Its strongest rules:") + 1 :]
    assert sum(" ⇐ " in line for line in rules) == 5
    asked = next(line for line in printed if line.startswith("Ask it: hopwalk ask runs/drugs "))
    assert printed[-1] == "Show it on a page: hopwalk serve runs/drugs"
    _, head, relation = asked.removeprefix("Ask it: hopwalk ask ").split()
    assert "predicted" in command(capsys, "ask", str(run), head, relation).out


# A researcher with a table: from CSV to a page


def test_from_csv_to_a_page(client: Client):
    page = client.get("")
    assert page.status_code == 200 and "<title>" in page.text and page.headers["content-type"].startswith("text/html")
    (about,) = client.get("api/v1/runs").json()["runs"]
    assert (about["run"], about["facts"]) == ("drugs", 819)  # with those that training held out
    assert client.get("api/v1/entities", params={"q": "rubr"}).json()["entities"]
    found = client.post("ask", {"head": "Rubrurine", "relation": "may treat", "k": 3}).json()
    assert found["head"] == "rubrurine" and len(found["answers"]) == 3
    paths = found["answers"][0]["paths"]
    drawn = client.post("draw", {"head": "rubrurine", "key": "rubrurine", "paths": paths, "width": 900}).json()["drawing"]
    assert drawn.startswith("<svg") and "rubrurine" in drawn


# A curator: from CSV to a table of what is missing


def test_from_csv_to_a_parquet_of_predictions(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "new.parquet"
    chosen = ["--relation", "may_treat", "--relation", "used_in", "--relation", "side_effect"]
    printed = command(capsys, "complete", str(run), *chosen, "--above", "0.02", "--out", str(target)).out
    table = pl.read_parquet(target)
    assert f"{len(table)} new facts from " in printed.replace("\n", "")
    proposed, graph = [*table.select("head", "relation", "tail").rows()], planted(60)
    assert len({*proposed}) == len(proposed) and not {*proposed} & {*graph.train}
    held_back = {*graph.valid, *graph.test}
    right = [fact in held_back for fact in proposed]
    assert sum(right) >= 0.25 * len(held_back)
    assert sum(right[: len(right) // 2]) > sum(right[len(right) // 2 :])  # the likely ones are right more often
    assert max(table["rule_confidence"].to_list()) > 0.4 and table["rule_support"].dtype == pl.Int64
    assert all(rule.startswith(f"{relation}(X,Y) ⇐ ") for relation, rule in table.select("relation", "rule").rows())


# An agent: over HTTP, with nothing but the description of the API


def test_an_agent_asks_and_explains_by_the_description_of_the_api(client: Client):
    api = client.get("openapi.json").json()
    (ask,) = (path for path, methods in api["paths"].items() if "best answers of a query" in json.dumps(methods))
    (explain,) = (path for path, methods in api["paths"].items() if "Why an entity is an answer" in json.dumps(methods))

    def request(path: str, known: dict[str, Any]) -> dict[str, Any]:
        """The body of a request, made of the properties that its schema requires."""
        name = api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = api["components"]["schemas"][name]
        assert {*schema["required"]} <= {*known} and {*known} <= {*schema["properties"]}
        return known

    fact = {"head": "baboratin", "relation": "used_in"}
    answers = client.post(ask.removeprefix("/api/v1/"), request(ask, fact | {"only_new": True, "k": 5})).json()["answers"]
    assert answers and all(not answer["is_known"] and 0 <= answer["probability"] <= 1 for answer in answers)
    best = answers[0]["entity"]
    explained = client.post(explain.removeprefix("/api/v1/"), request(explain, fact | {"tail": best})).json()
    assert explained["rank"] == 1 and explained["reasons"][0]["rule"].startswith("used_in(X,Y) ⇐ ")
    problem = problem_of(client.post("ask", {"head": "baboratine", "relation": "used_in"}), 404)
    assert "baboratin" in problem["suggestions"]
