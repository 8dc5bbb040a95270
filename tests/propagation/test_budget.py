"""What more time would bring: from the rise of dev MRR in the second half of a run, and silent where that says nothing."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.learning.run import Run
from hopwalk.propagation.budget import Cost, Plan, outlook, plan_training


@dataclass
class FakeRun:
    history: list[dict[str, Any]]
    is_finished: bool = True


def outlook_of(*mrr: float, num_queries: int = 10_000, is_finished: bool = True) -> str:
    """The outlook of a run that was evaluated at equal distances."""
    records = [
        {"epoch": part, "queries": 1000.0 * part, "valid_mrr": value, "valid_num_queries": num_queries}
        for part, value in enumerate(mrr, start=1)
    ]
    return outlook(cast("Run", FakeRun(records, is_finished)))


def test_a_rise_promises_half_of_itself():
    """Half of 4,000 queries are 2,000: there dev MRR was 40.0, so it rose by 5.0; 10,000 queries tell it to 0.4 points."""
    found = outlook_of(0.3, 0.4, 0.44, 0.45)
    assert found.startswith("Twice the time would bring about 2.5 points of dev MRR, at most about 5.4 points: it rose by 5.0 in")


def test_the_middle_lies_between_two_evaluations():
    """Half of 3,000 queries lie between 1,000 and 2,000, in proportion to the logarithm: 30 + 10 log₂ 1.5 = 35.85."""
    assert "it rose by 9.2 in" in outlook_of(0.30, 0.40, 0.45)


@pytest.mark.parametrize("last", [0.400, 0.4035, 0.397])
def test_a_flat_run_says_so(last: float):
    found = outlook_of(0.3, 0.4, 0.4, last)
    assert found.startswith("Twice the time would bring little, at most about 0.")
    assert found.endswith(f"it changed by {100 * (last - 0.4):+.1f} in the second half of training.")


def test_few_dev_queries_tell_less():
    assert "about 1.0 points" in outlook_of(0.3, 0.4, 0.42, 0.42)
    assert "would bring little, at most about 6.0 points" in outlook_of(0.3, 0.4, 0.42, 0.42, num_queries=100)


def test_a_falling_run_says_so():
    assert outlook_of(0.3, 0.4, 0.38, 0.37).startswith(
        "More time alone would not help: dev MRR fell by 3.0 points in the second half"
    )


def test_nothing_is_said_without_two_evaluations_or_an_end():
    assert outlook_of(0.4) == "" and outlook_of() == "" and outlook_of(0.3, 0.4, is_finished=False) == ""
    without_dev = FakeRun([{"epoch": 1, "queries": 10.0}, {"epoch": 2, "queries": 20.0}])
    assert outlook(cast("Run", without_dev)) == ""


# The time that training takes by default


def plan(facts: int, seconds: float, *, queries: int = 10_000) -> Plan:
    """The plan for a graph of so many facts whose training queries take so many seconds together."""
    dataset = SimpleNamespace(facts=range(facts))
    settings = changed(Settings(), {"propagation.queries": queries, "propagation.evaluations": 1})
    return plan_training(cast("Dataset", dataset), settings, Cost(query=0.95 * seconds / queries, evaluation=0.0))


@pytest.mark.parametrize(
    ("facts", "seconds", "queries", "is_shortened", "is_long"),
    [
        (50_000, 119, 10_000, False, False),
        (50_000, 600, 2_000, True, False),
        (50_000, 7200, 166, True, False),
        (50_001, 600, 10_000, False, False),
        (1_000_000, 1799, 10_000, False, False),
        (1_000_000, 7200, 10_000, False, True),
    ],
)
def test_two_minutes_for_small_graphs(facts: int, seconds: float, queries: int, is_shortened: bool, is_long: bool):
    found = plan(facts, seconds)
    assert (found.settings.propagation.queries, found.is_shortened, found.is_long) == (queries, is_shortened, is_long)
    assert found.seconds == pytest.approx(seconds)  # of all queries


def test_the_cost_counts_evaluations():
    """1,000 queries of 0.095 s are 95 % of 100 s; four evaluations of 5 s."""
    settings = changed(Settings(), {"propagation.queries": 1_000, "propagation.evaluations": 4})
    cost = Cost(query=0.095, evaluation=5.0)
    assert cost.seconds(settings.propagation) == pytest.approx(120)
    assert cost.fitted(settings, 2.0).propagation.queries == pytest.approx(1_000, abs=1)
