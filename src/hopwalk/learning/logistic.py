"""Logistic regression where only a known share c of what is true is labelled: positive and unlabelled examples.

A true example is labelled with probability c, a false one never, so P(label) = c · p with p = sigmoid(design · parameters). Two
ways to find the parameters, both with a ridge around given ones:

- `most_likely` maximises the likelihood of the labels. It has the least variance, but hardly looks where p is near 1: there, a
  label is as good as a coin that says nothing about p.
- `balanced` solves Σ (label / c − p) · design = 0, the unbiased estimating equations. Predicted and true sums then agree wherever
  the design has a column for it, also near 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]
Share = float | Floats  # of true examples that are labelled: of all, or of each [N]
_Derivatives = Callable[[Floats], tuple[Floats, Floats]]  # log-odds [N] → slopes and curvatures of the loss [N]
TINY = 1e-12


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + exp(−values)), without overflow."""
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))


def log_loss(probabilities: Floats, labels: Labels, weights: Floats, share: Share) -> float:
    """The negative log-likelihood of labels, if `share` of the true examples are labelled."""
    labelled = share * np.clip(probabilities, TINY, 1 - TINY)
    return float(-weights @ np.log(np.where(labels, labelled, 1 - labelled)))


def most_likely(design: Floats, labels: Labels, weights: Floats, share: Share, ridge: float | Floats, middle: Floats) -> Floats:
    """The parameters of the largest penalised likelihood, by Fisher scoring [D]."""

    def loss(log_odds: Floats) -> float:
        return log_loss(sigmoid(log_odds), labels, weights, share)

    def derivatives(log_odds: Floats) -> tuple[Floats, Floats]:
        true = np.clip(sigmoid(log_odds), TINY, 1 - TINY)
        labelled, slopes = share * true, share * true * (1 - true)
        variances = labelled * (1 - labelled)
        return weights * (labelled - labels) * slopes / variances, weights * slopes**2 / variances

    return _minimise(design, loss, derivatives, ridge, middle)


def balanced(design: Floats, labels: Labels, weights: Floats, share: Share, ridge: float | Floats, middle: Floats) -> Floats:
    """The parameters for which predicted and labelled sums agree, but for the ridge [D]: logistic loss with targets label / c."""
    targets = labels / share

    def loss(log_odds: Floats) -> float:
        return float((share * weights) @ (np.logaddexp(0, log_odds) - targets * log_odds))

    def derivatives(log_odds: Floats) -> tuple[Floats, Floats]:
        true = sigmoid(log_odds)
        return share * weights * (true - targets), share * weights * true * (1 - true)

    return _minimise(design, loss, derivatives, ridge, middle)


def _minimise(
    design: Floats, loss: Callable[[Floats], float], derivatives: _Derivatives, ridge: float | Floats, middle: Floats
) -> Floats:
    """Newton's method with halved steps where one goes too far; the penalty is the squared distance from `middle`."""
    ridges = np.broadcast_to(np.asarray(ridge, dtype=np.float64), middle.shape)

    def penalised(parameters: Floats) -> float:
        return loss(design @ parameters) + 0.5 * float(ridges @ (parameters - middle) ** 2)

    parameters, current = middle.copy(), penalised(middle)
    for _ in range(100):
        slopes, curvatures = derivatives(design @ parameters)
        gradient = design.T @ slopes + ridges * (parameters - middle)
        information = (design * curvatures[:, None]).T @ design + np.diag(ridges + 1e-8)
        step = np.linalg.solve(information, gradient)
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), TINY))
        following = penalised(parameters - step)
        while following > current and np.abs(step).max() > 1e-9:
            step /= 2
            following = penalised(parameters - step)
        if following > current:
            break
        parameters, gained, current = parameters - step, current - following, following
        if gained < 1e-9 * max(abs(current), 1.0):
            break
    return parameters
