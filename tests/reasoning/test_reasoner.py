"""A loaded walker: how it and its answers show themselves, and facts that are added when it is asked."""

import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import hopwalk
from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.reasoning.facts import read_facts
from hopwalk.reasoning.reasoner import LoadedWalker
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.values import Answer, Edge
from hopwalk.reasoning.values import Path as Walk
from hopwalk.walker.runs import TrainedWalker
from tests.support.commands import command
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, VILLAGE, settings_of


@pytest.fixture(scope="module")
def walker(uncles_run: Path) -> LoadedWalker:
    return hopwalk.load(uncles_run)


@pytest.fixture(scope="module")
def with_scorer(village_run: Path) -> LoadedWalker:
    return hopwalk.load(village_run)


def test_it_says_what_it_is(walker: LoadedWalker, with_scorer: LoadedWalker):
    size = f"{len(VILLAGE.entities)} entities, 4 relations, {len(VILLAGE.facts)} facts"
    assert repr(walker) == f"LoadedWalker('test': {size}; 2 hops, beam 32, without a scorer)"
    assert repr(with_scorer).endswith("with a scorer)") and isinstance(walker, TrainedWalker)
    assert walker.card.startswith("# A walker on test")


def test_a_run_without_a_card(uncles_run: Path, tmp_path: Path):
    import shutil

    copied = shutil.copytree(uncles_run, tmp_path / "copied")
    (copied / "card.md").unlink()
    assert hopwalk.load(copied).card == ""


# Answers

PATH = Walk("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), -1.0)
OTHER = Walk("steroid", (Edge("treats", "eicosanoid"),), -2.0)
FOUND = Answers(
    [
        Answer("eicosanoid", 1, 0.5, False, -1.0, 0.326, (PATH, OTHER), "C01"),
        Answer("hormone", 2, 0.4, True, None, 0.05, (), "C02"),
    ],
    "steroid",
    "interacts_with",
    hops=3,
)


def test_answers_show_themselves():
    assert repr(FOUND).splitlines() == [
        "steroid —interacts_with→ ?",
        "  1. eicosanoid  predicted   32.6 %  steroid —affects→ cell ←affects— eicosanoid",
        "                                     steroid —treats→ eicosanoid",
        "  2. hormone     known        5.0 %  (no path: the scorer's guess)",
    ]
    assert str(FOUND.with_paths(1)).count("\n") == 2
    assert repr(FOUND[0]) == "Answer(1. eicosanoid, predicted, 32.6 %: steroid —affects→ cell ←affects— eicosanoid)"


def test_parts_of_answers_are_answers():
    assert isinstance(FOUND[1:], Answers) and FOUND[1:].query == "steroid —interacts_with→ ?"
    assert [answer.entity for answer in FOUND] == ["eicosanoid", "hormone"] and FOUND[-1].is_known


def test_nothing_found_is_said():
    nothing = Answers([], "steroid", "affects⁻¹", hops=3)
    assert str(nothing) == "steroid ←affects— ?\nNo path of ≤ 3 hops reaches an answer."
    assert str(FOUND[1:]).splitlines()[1] == "No path of ≤ 3 hops reaches an answer: these are guesses of the scorer."
    stays = Answers([Answer("steroid", 1, 0.5, False, -0.1, None, (Walk("steroid", (), -0.1),))], "steroid", "affects", hops=3)
    assert str(stays).splitlines()[1:] == [
        "No path of ≤ 3 hops reaches an answer.",
        "  1. steroid  predicted  steroid (the walk stays there)",
    ]


def test_an_entity_that_no_edge_leaves(tmp_path: Path):
    lonely = dataset_of([("a", "r", "b"), ("b", "r", "c")], [("island", "r", "a")])
    told = {}
    for name, values in (("alone", ALONE), ("guessing", {})):
        run = api.train(lonely, settings_of(values | {"walker.epochs": 1, "scorer.epochs": 1}), out=tmp_path / name)
        told[name] = hopwalk.load(run.path).ask("island", "r", only_new=True)
    assert told["alone"].note == "No path of ≤ 2 hops reaches an answer."
    assert told["guessing"].note == "No path of ≤ 2 hops reaches an answer: these are guesses of the scorer."
    assert {answer.entity for answer in told["guessing"]} == {"a", "b", "c", "island"}


def test_as_dictionary_and_table(with_scorer: LoadedWalker):
    answers = with_scorer.ask("child 0", "uncle", k=4)
    assert json.loads(json.dumps(answers.to_dict())) == answers.to_dict()
    assert answers.to_dict()["head"] == "child 0" and len(answers.to_dict()["answers"]) == 4
    table = answers.to_frame()
    assert table.columns == ["rank", "entity", "key", "is_known", "score", "probability", "path_probability", "path"]
    assert table["rank"].to_list() == [1, 2, 3, 4] and table["entity"].to_list() == [answer.entity for answer in answers]
    assert table["path"][0] == str(answers[0].paths[0])
    assert answers[:0].to_frame().schema == table.schema and table.schema["path"] == pl.String


def test_readable_names_and_keys(tmp_path: Path):
    (tmp_path / "wiki").mkdir()
    facts = [
        ("Q1", "P1", "Q2"),
        ("Q2", "P2", "Q3"),
        ("Q4", "P1", "Q5"),
        ("Q5", "P2", "Q6"),
        ("Q1", "P3", "Q3"),
        ("Q4", "P3", "Q6"),
    ]
    (tmp_path / "wiki" / "train.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    (tmp_path / "wiki" / "labels.tsv").write_text("Q1\tAda\nQ3\tUlm\nP1\tworks for\nP3\tlives in\n")
    run = api.train(hopwalk.load_dataset(tmp_path / "wiki"), settings_of(ALONE | {"walker.epochs": 1}), out=tmp_path / "run")
    walker = hopwalk.load(run.path)
    answers = walker.ask("ada", "Lives In", k=9)
    (ulm,) = [answer for answer in answers if answer.key == "Q3"]
    assert (ulm.entity, ulm.is_known, answers.query) == ("Ulm", True, "Ada —lives in→ ?")
    explained = walker.explain("Q1", "P3", "Q3")
    assert "lives in(X,Y) ⇐ works for(X,A), P2(A,Y)" in [str(reason.rule) for reason in explained.reasons]
    assert explained.reasons[0].evidence.predictions > 0


# Notebooks and pages


def test_in_a_notebook(walker: LoadedWalker):
    answers = walker.ask("child 0", "uncle", k=3)
    assert ElementTree.fromstring(answers._repr_svg_()).tag.endswith("svg")
    shown = answers._repr_html_()
    assert shown.startswith("<style>") and shown.count("<details") == 3 and "<svg" in shown
    explained = walker.explain("child 0", "uncle", answers[0].entity)
    assert "mother(X,A), brother(A,Y)" in html.unescape(explained._repr_html_())
    assert repr(explained).startswith("child 0 —uncle→ ")


def test_pages_need_nothing_and_run_nothing(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "answer.html"
    printed = command(capsys, "ask", str(uncles_run), "child 0", "uncle", "-k", "4", "--html", str(target))
    page = target.read_text(encoding="utf-8")
    assert printed.out.startswith("child 0 —uncle→ ?") and str(target) in printed.err
    assert page.count("<li>") == 4 and page.count("<h2>") == 1
    assert "<script" not in page and "style=" not in page and "src=" not in page and "href=" not in page
    assert {*re.findall(r"https?://[^\"' ]+", page)} == {"http://www.w3.org/2000/svg"}  # the name of SVG, not an address to load
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_labels_cannot_break_out_of_a_page():
    evil = "<script>alert(1)</script>\"' \u202e\x00"
    path = Walk(evil, (Edge(evil, evil),), -1.0)
    found = Answers(
        [Answer(evil, 1, 0.5, False, -1.0, 0.5, (path,)), Answer(evil, 2, 0.5, True, None, 0.5, ())], evil, evil, hops=2
    )
    shown = found._repr_html_()
    assert "<script" not in shown and "\u202e" not in shown and "\x00" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_the_style_is_the_one_that_the_policy_allows():
    from base64 import b64encode
    from hashlib import sha256

    from hopwalk.reasoning.html import whole_page

    page = whole_page("a <title>", ["<p>b</p>"], "footer")
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in page
    assert "<title>a &lt;title&gt;</title>" in page


def test_a_folder_is_no_page(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    told = command(capsys, "ask", str(uncles_run), "child 0", "uncle", "--html", str(tmp_path), code=1)
    assert "is a folder" in told.err and not told.out


# Facts that are added


def test_added_facts_are_walked_known_and_counted(walker: LoadedWalker):
    """A child gets another mother, and with her an uncle."""
    uncles = {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.facts) if (head, relation) == ("mother 5", "brother")}
    before = {answer.entity: answer for answer in walker.ask("child 0", "uncle", k=200)}
    more = walker.with_facts([("child 0", "mother", "mother 5"), ("child 0", "uncle", "man 15")])
    after = {answer.entity: answer for answer in more.ask("child 0", "uncle", k=200, num_paths=20)}
    for uncle in uncles:
        assert f"child 0 —mother→ mother 5 —brother→ {uncle}" in [str(path) for path in after[uncle].paths]
        assert uncle not in before or after[uncle].rank <= before[uncle].rank
    assert after["man 15"].is_known and not ("man 15" in before and before["man 15"].is_known)
    assert len(more.dataset.facts) == len(walker.dataset.facts) + 2
    told = {str(reason.path) for uncle in uncles for reason in more.explain("child 0", "uncle", uncle).reasons}
    assert any(text.startswith("child 0 —mother→ mother 5") for text in told)
    assert {answer.entity: answer for answer in walker.ask("child 0", "uncle", k=200)} == before  # the first one is as it was


def test_rules_are_counted_with_added_facts(walker: LoadedWalker):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    counted = {walker.explain(head, relation, tail).reasons[0].evidence.predictions}
    added = [(f"child {number}", "mother", "mother 5") for number in range(10)]
    counted.add(walker.with_facts(added).explain(head, relation, tail).reasons[0].evidence.predictions)
    assert len(counted) == 2 and max(counted) > min(counted)


def test_added_facts_may_be_known_inverse_or_none(walker: LoadedWalker):
    known = VILLAGE.labels_of(VILLAGE.facts)[:5]
    assert len(walker.with_facts(known).dataset.facts) == len(VILLAGE.facts)
    assert walker.with_facts([]).ask("child 0", "uncle", k=5) == walker.ask("child 0", "uncle", k=5)
    turned = walker.with_facts([("MOTHER_5", "Mother⁻¹", "child 0")]).dataset
    assert ("child 0", "mother", "mother 5") in turned.labels_of(turned.facts)


def test_the_fan_out_limit_does_not_cut_added_facts(tmp_path: Path):
    star = dataset_of([("hub", "r", f"leaf {number}") for number in range(9)] + [("far", "s", "end")])
    settings = changed(settings_of(ALONE | {"walker.epochs": 1}), {"graph.fan_out": 2})
    walker = hopwalk.load(api.train(star, settings, out=tmp_path / "run").path)
    more = walker.with_facts([("hub", "s", "far"), ("hub", "s", "end")])
    paths = [str(path) for answer in more.ask("hub", "s", k=20, num_paths=9) for path in answer.paths]
    assert {"hub —s→ far", "hub —s→ end"} <= {*paths}
    assert more.walker.graph.degrees.max() == walker.walker.graph.degrees.max() + 2


@pytest.mark.parametrize(
    ("facts", "error", "told"),
    [
        ([("nobody", "mother", "mother 5")], UnknownNameError, r"fact 1 \(nobody mother mother 5\): there is no entity 'nobody'"),
        (
            [("child 0", "mother", "mother 5"), ("child 0", "mothr", "mother 5")],
            UnknownNameError,
            r"fact 2 .*no relation 'mothr'",
        ),
        ([("child 0", "mother")], DataError, r"fact 1 is not \(head, relation, tail\) in words: \('child 0', 'mother'\)"),
        ([("child 0", "mother", 5)], DataError, "fact 1 is not"),
        ([("child 0", "", "mother 5")], UnknownNameError, "the name of the relation is empty"),
    ],
)
def test_facts_that_cannot_be_added(walker: LoadedWalker, facts: list, error: type[Exception], told: str):
    with pytest.raises(error, match=told):
        walker.with_facts(facts)


def test_facts_from_files(uncles_run: Path, walker: LoadedWalker, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "more.csv"
    table.write_text("head,relation,tail\nchild 0,uncle,man 15\n")
    assert (
        len(walker.with_facts(table).dataset.facts) == len(walker.with_facts(str(table)).dataset.facts) == len(VILLAGE.facts) + 1
    )
    rows, findings = read_facts(table)
    assert rows == [("child 0", "uncle", "man 15")] and [finding.code for finding in findings] == ["header"]
    asked = ["ask", str(uncles_run), "child 0", "uncle", "-k", "100", "--facts", str(table)]
    printed = command(capsys, *asked)
    assert re.search(r"man 15 +known", printed.out) and "read as a header" in printed.err
    explained = command(capsys, "explain", str(uncles_run), "child 0", "uncle", "man 15", "--facts", str(table)).out
    assert explained.startswith("child 0 —uncle→ man 15: a known fact")
    table.write_text("child 0,uncle,man 15\nchild 0,uncle,man 99\n")
    told = command(capsys, *asked, code=1)
    assert "more.csv: fact 2 (child 0 uncle man 99): there is no entity 'man 99'" in told.err and not told.out
    assert "no such file" in command(capsys, *asked[:-1], str(tmp_path / "none.csv"), code=1).err


# Many questions


def ask_from(folder: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, *more: str, code: int = 0) -> tuple[str, str]:
    file = folder.parent / "questions.tsv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    printed = command(capsys, "ask", str(folder), "--from", str(file), *more, code=code)
    return printed.out, printed.err


def test_queries_of_a_file(uncles_run: Path, walker: LoadedWalker, capsys: pytest.CaptureFixture[str]):
    asked = "child 0\tuncle\r\n\nmother 0\tmother⁻¹\nchild 0\tuncle\n"
    printed, _ = ask_from(uncles_run, capsys, asked, "-k", "2")
    one, two = walker.ask("child 0", "uncle", k=2, num_paths=1), walker.ask("mother 0", "mother⁻¹", k=2, num_paths=1)
    assert printed == f"{one}\n\n{two}\n\n{one}\n"
    lines = ask_from(uncles_run, capsys, asked, "-k", "2", "--json")[0].splitlines()
    assert [json.loads(line)["head"] for line in lines] == ["child 0", "mother 0", "child 0"]
    turned = ask_from(uncles_run, capsys, "mother 0\tmother\n", "-k", "2", "--inverse")[0]
    assert turned == f"{two}\n"


def test_queries_of_standard_input(uncles_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfchild 0\tuncle\nchild 0\tuncel\n")))
    told = command(capsys, "ask", str(uncles_run), "--from", "-", code=1)
    assert told.err.startswith("error: standard input:2: there is no relation 'uncel'") and not told.out


def test_pages_of_many_queries(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ask_from(uncles_run, capsys, "child 0\tuncle\nchild 1\tuncle\n", "--html", str(tmp_path / "all.html"))
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert page.count("<h2>") == 2 and "<title>2 questions</title>" in page


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "child 0\tuncle\nchild 0 uncle\n",
            r"questions.tsv:2: expected a head and a relation with a tab between them, found 1 column\n",
        ),
        ("child 0\tuncle\tman 1\n", "questions.tsv:1: .* found 3 columns"),
        ("child 0\t\n", "questions.tsv:1: expected a head and a relation"),
        ("child 0\tuncle\nnobody at all\tuncle\n", "questions.tsv:2: there is no entity 'nobody at all'"),
        (b"child 0\tuncle\n\xff\tuncle\n", "questions.tsv:2: the line is not UTF-8 text"),
        ("\n \n", "questions.tsv: there are no questions in it"),
    ],
)
def test_mistakes_in_queries(uncles_run: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, told: str):
    printed, error = ask_from(uncles_run, capsys, text, code=1)
    assert re.search(told, error) and not printed


def test_mistakes_on_the_command_line(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(uncles_run)
    assert "there is no question" in command(capsys, "ask", run, "child 0", code=1).err
    assert "one on the command line too" in command(capsys, "ask", run, "child 0", "uncle", "--from", "-", code=1).err
    assert "cannot be read: No such file" in command(capsys, "ask", run, "--from", str(tmp_path / "none"), code=1).err
