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
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, settings_of, train_walker

PATH = ReasoningPath("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), -1.0)
OTHER = ReasoningPath("steroid", (Edge("treats", "eicosanoid"),), -2.0)
ANSWERS = Answers(
    [
        Answer("eicosanoid", 1, 0.5, False, -1.0, 0.326, (PATH, OTHER), "C01"),
        Answer("hormone", 2, 0.4, True, None, 0.05, (), "C02"),
    ],
    "steroid",
    "interacts_with",
    hops=3,
)


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return hopwalk.load(uncles_run)


def test_answers_as_text():
    assert repr(ANSWERS).splitlines() == [
        "steroid —interacts_with→ ?",
        "  1. eicosanoid  predicted   32.6 %  steroid —affects→ cell ←affects— eicosanoid",
        "                                     steroid —treats→ eicosanoid",
        "  2. hormone     known        5.0 %  (no path: ranked by the scorer alone)",
    ]
    assert str(ANSWERS.with_paths(1)).count("\n") == 2
    assert repr(ANSWERS[0]) == "Answer(1. eicosanoid, predicted, 32.6 %: steroid —affects→ cell ←affects— eicosanoid)"


def test_slices_of_answers_are_answers():
    assert isinstance(ANSWERS[1:], Answers) and ANSWERS[1:].query == "steroid —interacts_with→ ?"
    assert [answer.entity for answer in ANSWERS] == ["eicosanoid", "hormone"] and ANSWERS[-1].is_known


def test_a_note_if_no_path_reaches_an_answer():
    nothing = Answers([], "steroid", "affects⁻¹", hops=3)
    assert str(nothing) == "steroid ←affects— ?\nNo path of ≤ 3 hops reaches an answer."
    assert ANSWERS[1:].note == "No path of ≤ 3 hops reaches an answer: these are ranked by the scorer alone."
    path = ReasoningPath("steroid", (), -0.1)
    stays = Answers([Answer("steroid", 1, 0.5, False, -0.1, None, (path,))], "steroid", "affects", hops=3)
    assert str(stays).splitlines()[1:] == [
        "No path of ≤ 3 hops reaches an answer.",
        "  1. steroid  predicted  steroid (the walk stays there)",
    ]


def test_an_entity_without_edges(tmp_path: Path):
    lonely = dataset_of([("a", "r", "b"), ("b", "r", "c")], [("island", "r", "a")])
    found = {}
    for name, values in (("alone", ALONE), ("with scorer", {})):
        run = train_walker(lonely, settings_of(values | {"walker.epochs": 1, "scorer.epochs": 1}), out=tmp_path / name)
        found[name] = hopwalk.load(run.path).ask("island", "r", only_new=True)
    assert found["alone"].note == "No path of ≤ 2 hops reaches an answer."
    assert found["with scorer"].note == "No path of ≤ 2 hops reaches an answer: these are ranked by the scorer alone."
    assert {answer.entity for answer in found["with scorer"]} == {"a", "b", "c", "island"}


def test_answers_as_json_and_as_a_table(village_run: Path):
    answers = hopwalk.load(village_run).ask("child 0", "uncle", k=4)
    assert json.loads(json.dumps(answers.to_dict())) == answers.to_dict()
    assert answers.to_dict()["head"] == "child 0" and len(answers.to_dict()["answers"]) == 4
    table = answers.to_frame()
    assert table.columns == ["rank", "entity", "key", "is_known", "score", "probability", "path_probability", "path"]
    assert table["rank"].to_list() == [1, 2, 3, 4] and table["entity"].to_list() == [answer.entity for answer in answers]
    assert table["path"][0] == str(answers[0].paths[0])
    assert answers[:0].to_frame().schema == table.schema and table.schema["path"] == pl.String


def test_in_a_notebook(reasoner: Reasoner):
    answers = reasoner.ask("child 0", "uncle", k=3)
    assert ElementTree.fromstring(answers._repr_svg_()).tag.endswith("svg")
    shown = answers._repr_html_()
    assert shown.startswith("<style>") and shown.count("<details") == 3 and "<svg" in shown
    explained = reasoner.explain("child 0", "uncle", answers[0].entity)
    assert "mother(X,A), brother(A,Y)" in html.unescape(explained._repr_html_())
    assert repr(explained).startswith("child 0 —uncle→ ")
