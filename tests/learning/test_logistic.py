"""Logistic regression on positive and unlabelled examples: by hand, and against the truth of a made-up world."""

import numpy as np
import pytest

from hopwalk.learning.logistic import balanced, log_loss, most_likely, sigmoid

WAYS = [most_likely, balanced]


@pytest.mark.parametrize("fit", WAYS)
def test_a_constant_by_hand(fit):
    """Of 10 examples, 2 are labelled; if half of the true ones are, 4 of 10 are true."""
    labels, weights = np.arange(10) < 2, np.ones(10)
    found = fit(np.ones((10, 1)), labels, weights, 0.5, 0.0, np.zeros(1))
    assert sigmoid(found).tolist() == pytest.approx([0.4], abs=1e-6)
    doubled = fit(np.ones((10, 1)), labels, np.where(labels, 2.0, 1.0), 0.5, 0.0, np.zeros(1))
    assert sigmoid(doubled).tolist() == pytest.approx([2 * 4 / 12], abs=1e-6)


@pytest.mark.parametrize("fit", WAYS)
def test_a_ridge_holds_the_parameters_where_they_are_drawn_to(fit):
    labels, middle = np.arange(10) < 2, np.array([1.5])
    assert fit(np.ones((10, 1)), labels, np.ones(10), 0.5, 1e6, middle).tolist() == pytest.approx([1.5], abs=1e-3)


@pytest.mark.parametrize("fit", WAYS)
def test_the_truth_is_found_from_a_third_of_its_labels(fit):
    random = np.random.default_rng(0)
    inputs = random.normal(size=40_000)
    design = np.column_stack([inputs, np.ones_like(inputs)])
    is_true = random.random(len(inputs)) < sigmoid(2 * inputs - 1)
    labels = is_true & (random.random(len(inputs)) < 1 / 3)
    found = fit(design, labels, np.ones(len(inputs)), 1 / 3, 1e-3, np.zeros(2))
    assert found.tolist() == pytest.approx([2, -1], abs=0.15)
    shares = np.full(len(inputs), 1 / 3)  # of each example instead of all
    assert fit(design, labels, np.ones(len(inputs)), shares, 1e-3, np.zeros(2)).tolist() == pytest.approx(
        found.tolist(), abs=1e-6
    )


def test_balanced_sums_agree_where_a_line_does_not_fit():
    """All of the best examples are true, and some of the worst: sums agree with a column for each, near 1 too."""
    inputs = np.repeat([-6.0, 3.0], [1000, 400])
    labels = np.zeros(1400, dtype=bool)
    labels[:5] = labels[1000:1200] = True  # 10 of 1,000 and all of 400, of which half is labelled
    design = np.column_stack([inputs < 0, inputs > 0]).astype(float)
    found = balanced(design, labels, np.ones(1400), 0.5, 1e-2, np.zeros(2))
    sums = sigmoid(design @ found) @ design
    assert sums.tolist() == pytest.approx([10, 400], rel=0.03)


def test_log_loss_by_hand():
    found = log_loss(np.array([0.5, 0.2]), np.array([True, False]), np.array([1.0, 3.0]), 0.5)
    assert found == pytest.approx(-np.log(0.25) - 3 * np.log(0.9))
