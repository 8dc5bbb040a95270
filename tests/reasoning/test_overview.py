"""A trained model at a glance: its surest rules, and a query to begin with; facts that training held out are in the graph."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import SettingsError
from hopwalk.learning.run import Run
from hopwalk.reasoning.overview import surely
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.rules import Evidence
from tests.support.helpers import dataset_of
from tests.support.schools import SCHOOL, settings_of
from tests.support.villages import VILLAGE, propagation_of


def test_the_surest_rules_come_first(propagation_run: Path):
    reasoner = api.load(propagation_run)
    rules = reasoner.strongest_rules(k=3)
    assert "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)" in [str(used.rule) for used in rules]
    assert [surely(used.evidence) for used in rules] == sorted((surely(used.evidence) for used in rules), reverse=True)
    assert all(used.evidence.support >= 3 and used.rule.body for used in rules)
    assert reasoner.example() == ("child 0", "uncle")
    with pytest.raises(SettingsError):
        reasoner.strongest_rules(k=0)


def test_a_rule_that_always_holds_may_be_luck():
    """Wilson's interval by hand: (1 + z²/2n − z √(z²/4n²)) / (1 + z²/n) = 1 / (1 + z²/n) for a share of 1."""
    assert surely(Evidence(3, 3, False)) == pytest.approx(1 / (1 + 1.96**2 / 3))
    assert surely(Evidence(0, 0, False)) == pytest.approx(0.0, abs=1e-12)
    assert surely(Evidence(100, 90, False)) > surely(Evidence(3, 3, False)) > surely(Evidence(300, 30, False))


def test_an_embedding_model_has_no_rules_but_an_example(trained_scorer: Run):
    reasoner = api.load(trained_scorer.path)
    assert reasoner.strongest_rules() == [] and reasoner.example()[1] == "taught_by"


@pytest.fixture(scope="module")
def held_out_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Propagation on the village as a single file, of which training holds out a part."""
    whole = dataset_of(VILLAGE.labels_of(VILLAGE.all_facts()))
    settings = changed(propagation_of(), {"split.hold_out": 0.05})
    return api.train(whole, settings, out=tmp_path_factory.mktemp("held-out") / "run").path


def test_facts_that_training_held_out_are_known_when_it_answers(held_out_run: Path):
    run, reasoner = Run.open(held_out_run), Reasoner.load(held_out_run)
    held_out = run.dataset.valid
    assert len(held_out) == len(VILLAGE.all_facts()) // 10 and len(run.dataset.test) == 0
    assert len(reasoner.dataset.facts) == len(VILLAGE.all_facts()) == len(run.dataset.facts) + len(held_out)
    for head, relation, tail in reasoner.dataset.labels_of(held_out)[:5]:
        assert tail not in [answer.entity for answer in reasoner.ask(head, relation, k=100, only_new=True)]
        (found,) = [answer for answer in reasoner.ask(head, relation, k=100) if answer.entity == tail]
        assert found.is_known
    assert run.about["reliability"] is not None  # calibrated on them
    numbers = f"{len(held_out)} of {len(reasoner.dataset.facts)}"
    assert reasoner.basis.endswith(f"as many facts as were held out to calibrate them: {numbers}.")
    assert api.evaluate(held_out_run, "valid")["scorer"].tails.mrr == pytest.approx(run.about["valid_mrr"])  # without seeing them


def test_it_is_resumed_with_the_same_facts_held_out(tmp_path: Path):
    whole, settings = dataset_of(SCHOOL.labels_of(SCHOOL.all_facts())), changed(settings_of(epochs=1), {"split.hold_out": 0.05})
    first = hopwalk.train_scorer(whole, settings, out=tmp_path / "run")
    assert hopwalk.train_scorer(whole, settings, out=tmp_path / "run", resume=True).about == first.about
    assert api.settings_for("school.csv", dataset=whole).split.hold_out == 0.05
    assert api.settings_for("school", dataset=SCHOOL).split.hold_out == 0.0
    assert api.settings_for("school.csv", dataset=whole, overrides=["split.hold_out=0"]).split.hold_out == 0.0
