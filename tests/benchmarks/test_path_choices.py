"""The benchmark of ways to choose paths: on a planted rule all find the rule, and looking again loses most."""

from pathlib import Path

import pytest

from benchmarks import path_choices
from hopwalk.errors import SettingsError


def test_paths_chosen_one_after_the_other_carry_most(propagation_run: Path, uncles_run: Path):
    found = path_choices.measure(str(propagation_run), 6)
    assert [*found] == [*path_choices.WAYS]
    losses = {name: loss for name, (loss, _, _) in found.items()}
    assert max(losses.values()) == pytest.approx(losses[path_choices.WAYS[5]], abs=0.05) and min(losses.values()) > 0.3
    assert all(without < only for _, without, only in found.values())
    with pytest.raises(SettingsError, match="only paths of propagation"):
        path_choices.measure(str(uncles_run))
