"""The runs that tables and figures need."""

import pytest

from hopwalk.errors import UnknownNameError
from hopwalk.paper.plan import Scope, planned, targets_of
from hopwalk.paper.published import ACTION_DROPOUT, TITLES


def test_plans_have_each_run_once_and_scorers_first():
    runs = planned(targets_of(["all"]), Scope())
    names = [run.name for run in runs]
    assert len(names) == len({*names})
    for place, run in enumerate(runs):
        if run.needs_scorer:
            assert run.scorer.name in names[:place]
    assert {run.data for run in runs} == {*TITLES}
    assert sum(run.name.startswith("umls-paper-conve-") and not run.label for run in runs) == 5


def test_variants_have_the_settings_of_the_release():
    scope = Scope()
    without = scope.variant("umls", "conve", "paper", "−RS").settings.walker
    assert not without.reward_shaping
    assert (without.embedding_dropout, without.hidden_dropout, without.action_dropout, without.gradient_clip) == (
        0.3,
        0.1,
        0.9,
        0,
    )
    without = scope.variant("wn18rr", "conve", "paper", "−RS").settings.walker
    assert (without.embedding_dropout, without.hidden_dropout, without.action_dropout, without.epochs) == (0.5, 0.3, 0.5, 20)
    without = scope.variant("nell-995", "conve", "paper", "−RS").settings.walker
    assert (without.learning_rate, without.action_dropout) == (0.001, 0.3)
    without = scope.variant("umls", "conve", "paper", "−AD").settings.walker
    assert (without.embedding_dropout, without.hidden_dropout, without.action_dropout) == (0.3, 0.1, 0)
    ours, whole = (scope.variant("umls", "complex", "modern", name).settings.walker for name in ("−RS", "whole"))
    assert ours == whole.model_copy(update={"reward_shaping": False})


def test_the_sweep_has_the_papers_rates_on_every_set():
    for data in TITLES:
        rates = Scope().rates(data)
        assert {*ACTION_DROPOUT.values()} <= {*rates}
        assert (1.0 in rates) == (data in ("umls", "kinship"))
        assert Scope().swept(data, rates[-1]).settings.walker.action_dropout == rates[-1]


def test_unknown_targets():
    with pytest.raises(UnknownNameError, match=r"table6'\. Did you mean 'table"):
        targets_of(["table6"])
