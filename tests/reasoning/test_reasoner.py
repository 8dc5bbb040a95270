"""The reasoner: a run folder, loaded to be asked."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk.errors import SettingsError
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return hopwalk.load(uncles_run)


def test_its_description(reasoner: Reasoner, village_run: Path):
    size = f"{len(VILLAGE.entities)} entities, 4 relations, {len(VILLAGE.facts)} facts"
    assert repr(reasoner) == f"Reasoner('test': {size}; paths of ≤ 2 hops)"
    assert repr(hopwalk.load(village_run / "scorer")) == f"Reasoner('test': {size}; no paths)"
    assert reasoner.card.startswith("# A walker on test")


def test_a_run_without_a_card(uncles_run: Path, tmp_path: Path):
    copied = shutil.copytree(uncles_run, tmp_path / "copied")
    (copied / "card.md").unlink()
    assert hopwalk.load(copied).card == ""


def test_an_embedding_scorer_answers_without_paths(village_run: Path):
    reasoner = hopwalk.load(village_run / "scorer")
    answers = reasoner.ask("child 0", "uncle", k=5)
    assert len(answers) == 5 and not any(answer.paths for answer in answers)
    assert answers.note == "An embedding model ranked these: it gives no paths."
    assert reasoner.card.startswith("# ")


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
    run = train_walker(hopwalk.load_dataset(tmp_path / "wiki"), settings_of(ALONE | {"walker.epochs": 1}), out=tmp_path / "run")
    reasoner = hopwalk.load(run.path)
    answers = reasoner.ask("ada", "Lives In", k=9)
    (ulm,) = [answer for answer in answers if answer.key == "Q3"]
    assert (ulm.entity, ulm.is_known, answers.query) == ("Ulm", True, "Ada —lives in→ ?")
    explained = reasoner.explain("Q1", "P3", "Q3")
    assert "lives in(X,Y) ⇐ works for(X,A), P2(A,Y)" in [str(reason.rule) for reason in explained.reasons]
    assert explained.reasons[0].evidence.predictions > 0


@pytest.mark.parametrize("number", [0, -1, 2.5, "3", None])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("k", lambda reasoner, number: reasoner.ask("child 0", "uncle", k=number)),
        ("num_paths", lambda reasoner, number: reasoner.ask("child 0", "uncle", num_paths=number)),
        ("k", lambda reasoner, number: reasoner.ask_many([("child 0", "uncle")], k=number)),
        ("num_paths", lambda reasoner, number: reasoner.explain("child 0", "uncle", "man 1", num_paths=number)),
        ("k", lambda reasoner, number: reasoner.rules("uncle", k=number)),
    ],
)
def test_counts_must_be_whole_numbers_above_0(reasoner: Reasoner, name: str, call: Callable[[Reasoner, Any], Any], number: Any):
    with pytest.raises(SettingsError, match=f"{name} must be a whole number of at least 1, not {number!r}"):
        call(reasoner, number)


@pytest.mark.parametrize("number", [1001, 10**9, 10**5000, -(10**5000)], ids=["1001", "10^9", "10^5000", "-10^5000"])
def test_numbers_of_paths_have_a_bound(reasoner: Reasoner, number: int):
    """Candidates are held for each path: a thousand million of them were minutes of work and all memory."""
    with pytest.raises(SettingsError, match="num_paths must be between 1 and 1,000"):
        reasoner.ask("child 0", "uncle", num_paths=number)
    with pytest.raises(SettingsError, match="num_paths must be between 1 and 1,000"):
        reasoner.explain("child 0", "uncle", "man 1", num_paths=number)
