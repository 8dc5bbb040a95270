"""Answers and explanations that display themselves: as text, in a notebook, as a table."""

import html
import json
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import hopwalk
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.rules import Evidence
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, settings_of, train_walker

PATH = ReasoningPath("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), 0.9)
OTHER = ReasoningPath("steroid", (Edge("treats", "eicosanoid"),), 0.1)
ANSWERS = Answers(
    [
        Answer("eicosanoid", 1, 0.5, False, 0.326, (PATH, OTHER), "C01"),
        Answer("hormone", 2, 0.4, True, None, (), "C02"),
    ],
    "steroid",
    "interacts_with",
    hops=3,
    count=lambda rule: Evidence(342, 199 if len(rule.body) > 1 else 0, False),
)


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return hopwalk.load(uncles_run)


def test_answers_as_text():
    assert repr(ANSWERS).splitlines() == [
        "steroid —interacts_with→ ?",
        "  1. eicosanoid  predicted   32.6 %",
        "       interacts_with(X,Y) ⇐ affects(X,A), affects(Y,A): right 58 % of the time, 199 of 342",
        "         share 0.90  steroid —affects→ cell ←affects— eicosanoid",
        "       share 0.10 by paths whose rules never hold in the graph",
        "  2. hormone     known               (no other path)",
    ]
    assert str(ANSWERS.with_paths(1)).count("\n") == 4
    plain = Answers(ANSWERS, "steroid", "interacts_with", hops=3)  # nobody counts
    assert str(plain).splitlines()[2:4] == [f"       share 0.90  {PATH}", f"       share 0.10  {OTHER}"]
    assert plain.to_dict()["answers"][0]["rules"] == [] and str(plain.with_paths(1)).count("\n") == 3
    assert repr(ANSWERS[0]) == "Answer(1. eicosanoid, predicted, 32.6 %: steroid —affects→ cell ←affects— eicosanoid)"


def test_slices_of_answers_are_answers():
    assert isinstance(ANSWERS[1:], Answers) and ANSWERS[1:].query == "steroid —interacts_with→ ?"
    assert [answer.entity for answer in ANSWERS] == ["eicosanoid", "hormone"] and ANSWERS[-1].is_known


def test_a_note_if_there_are_no_answers_or_no_paths():
    nothing = Answers([], "steroid", "affects⁻¹", hops=3)
    assert str(nothing) == "steroid ←affects— ?\nNo path of ≤ 3 hops reaches an answer."
    assert ANSWERS.note == ANSWERS[1:].note == ""
    embedded = Answers([Answer("hormone", 1, 0.5, False, 0.9, ())], "steroid", "affects", hops=0)
    assert str(embedded).splitlines()[1:] == [
        "An embedding model ranked these: it gives no paths.",
        "  1. hormone  predicted   90.0 %  (no path)",
    ]


def test_an_entity_without_edges(tmp_path: Path):
    """It reaches itself only, which is no answer."""
    lonely = dataset_of([("a", "r", "b"), ("b", "r", "c")], [("island", "r", "a")])
    run = train_walker(lonely, settings_of(ALONE | {"walker.epochs": 1}), out=tmp_path / "run")
    found = hopwalk.load(run.path).ask("island", "r", only_new=True)
    assert found == [] and found.note == "No path of ≤ 2 hops reaches an answer."


def test_answers_as_json_and_as_a_table(village_run: Path):
    answers = hopwalk.load(village_run).ask("child 0", "uncle", k=4)
    assert json.loads(json.dumps(answers.to_dict())) == answers.to_dict()
    assert answers.to_dict()["head"] == "child 0" and len(answers.to_dict()["answers"]) == 4
    table = answers.to_frame()
    assert table.columns == ["rank", "entity", "key", "is_known", "score", "probability", "path"]
    assert table["rank"].to_list() == [1, 2, 3, 4] and table["entity"].to_list() == [answer.entity for answer in answers]
    assert table["path"][0] == str(answers[0].paths[0])
    for answer in answers.to_dict()["answers"]:  # every path has a rule
        assert sorted(place for rule in answer["rules"] for place in rule["paths"]) == [*range(len(answer["paths"]))]
        assert all({"rule", "confidence", "support", "predictions", "share"} <= {*rule} for rule in answer["rules"])
    assert answers[:0].to_frame().schema == table.schema and table.schema["path"] == pl.String


def test_in_a_notebook(reasoner: Reasoner):
    answers = reasoner.ask("child 0", "uncle", k=3)
    assert ElementTree.fromstring(answers._repr_svg_()).tag.endswith("svg")
    shown = answers._repr_html_()
    assert shown.startswith("<style>") and shown.count("<details") == 3 and "<svg" in shown
    explained = reasoner.explain("child 0", "uncle", answers[0].entity)
    assert "mother(X,A), brother(A,Y)" in html.unescape(explained._repr_html_())
    assert repr(explained).startswith("child 0 —uncle→ ")
