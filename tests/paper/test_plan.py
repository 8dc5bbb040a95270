"""The runs that tables and figures need."""

import pytest

from hopwalk.errors import UnknownNameError
from hopwalk.paper.plan import Scope, planned, targets_of
from hopwalk.paper.published import TITLES


def test_plans_have_each_run_once_and_scorers_first():
    runs = planned(targets_of(["all"]), Scope())
    names = [run.name for run in runs]
    assert len(names) == len({*names})
    for place, run in enumerate(runs):
        if run.needs_scorer:
            assert run.scorer.name in names[:place]
    assert {run.data for run in runs} == {*TITLES}
    assert sum(run.name.startswith("umls-paper-conve-") and not run.label for run in runs) == 5


def test_unknown_targets():
    with pytest.raises(UnknownNameError, match=r"table6'\. Did you mean 'table"):
        targets_of(["table6"])
