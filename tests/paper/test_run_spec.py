"""Specifications of runs: name, settings and command."""

from hopwalk.paper.plan import Scope
from hopwalk.paper.run_spec import RunSpec


def test_a_spec_has_a_name_settings_and_a_command():
    spec = RunSpec("walker", "umls", "conve", "paper", 3, ("walker.action_dropout=0.0",), "no-ad")
    assert (spec.name, spec.folder) == ("umls-paper-conve-no-ad-3", "walker-umls-paper-conve-no-ad-3")
    assert spec.settings.walker.action_dropout == 0 and spec.settings.walker.seed == 3
    assert spec.command == (
        "hopwalk train umls --walker paper --seed 3 --reward conve --recipe paper --set scorer.seed=0"
        " --set walker.action_dropout=0.0"
    )
    assert spec.scorer.name == "umls-conve-paper-0"
    assert RunSpec("walker", "umls", "complex", "modern", 3).scorer.name == "umls-complex-modern-3"
    assert (
        RunSpec("walker", "wn18rr", "conve", "paper").scorer.name == "wn18rr-conve-modern-0"
    )  # by the paper's recipe it takes too long
    alone = RunSpec("walker", "umls", "none", "minerva")
    assert not alone.needs_scorer and not alone.settings.walker.reward_shaping


def test_a_limit_of_epochs_does_not_make_another_run():
    limited, unlimited = (Scope(most_epochs=most).scorer("umls", "complex", "modern") for most in (11, 0))
    assert limited.name == unlimited.name and limited.settings.scorer.epochs == 11
    assert limited.command.endswith("--set scorer.epochs=11")
    assert Scope(most_epochs=11).walker("umls", "complex", "modern").settings.walker.epochs == 11
    beyond = Scope(most_epochs=9999).walker("umls", "complex", "modern")
    assert beyond.settings == RunSpec("walker", "umls", "complex", "modern").settings
