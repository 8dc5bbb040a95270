"""The two losses over all tails of a question. Each makes its own gradient while the scores are at hand.

Scores stand as [C, Q], candidates by questions: matrix products with few columns run at twice the rate of the other way round on
the processors we measured (docs/decisions.md). The matrix of scores is overwritten by its own gradient, so that memory is one
such matrix, and nothing is kept for a backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def softmax_loss(
    vectors: Tensor, table: Tensor, bias: Tensor | None, queries: Tensor, answers: Tensor, weights: Tensor | None
) -> Tensor:
    """The multi-class loss grouped by question, a mean over answers (Lacroix et al., 2018, in the form of DESIGN.md).

    A question with n answers costs `n · logsumexp(scores) − Σ scores[answers]`. `vectors` [Q, D] are the query vectors, `table`
    [C, D] the candidates' embeddings, `bias` [C]. Answer i belongs to row `queries[i]` of the vectors and is row `answers[i]`
    of the table. `weights` [C] say how many entities a sampled candidate stands for.
    """
    if weights is not None:
        bias = weights.log() if bias is None else bias + weights.log()
    return _SoftmaxLoss.apply(vectors, table, bias, queries, answers, weights)  # type: ignore[no-any-return, no-untyped-call]


class _SoftmaxLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, table: Tensor, bias: Tensor | None, queries: Tensor, answers: Tensor, weights: Tensor | None
    ) -> Tensor:
        scores = table @ vectors.T
        if bias is not None:
            scores += bias[:, None]
        counts = torch.bincount(queries, minlength=len(vectors)).to(scores.dtype)
        of_answers = scores[answers, queries]
        if weights is not None:
            of_answers = of_answers - weights.log()[answers]
        highest = scores.amax(dim=0)
        totals = scores.sub_(highest).exp_().sum(dim=0)
        loss = counts @ (totals.log() + highest) - of_answers.sum()
        gradient = scores.mul_(counts / totals).index_put_((answers, queries), scores.new_tensor(-1.0), accumulate=True)
        return _keep_gradients(ctx, loss, gradient, vectors, table, bias, 1 / len(answers))

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> Any:
        return _gradients(ctx, outer)


def binary_loss(
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    queries: Tensor,
    answers: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
) -> Tensor:
    """Binary cross-entropy over all candidates of all questions, a mean (the paper's; Dettmers et al., 2018).

    The target is `(1 − label_smoothing) · is_answer + label_smoothing / num_entities`. Arguments are those of `softmax_loss`.
    """
    arguments = (vectors, table, bias, queries, answers, weights, label_smoothing)
    return _BinaryLoss.apply(*arguments)  # type: ignore[no-any-return, no-untyped-call]


class _BinaryLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        table: Tensor,
        bias: Tensor | None,
        queries: Tensor,
        answers: Tensor,
        weights: Tensor | None,
        label_smoothing: float,
    ) -> Tensor:
        scores = table @ vectors.T
        if bias is not None:
            scores += bias[:, None]
        num_entities = len(table) if weights is None else float(weights.sum())
        everywhere, at_answers = label_smoothing / num_entities, 1 - label_smoothing
        of_answers = scores[answers, queries].sum()
        per_candidate = scores.sum(dim=1) if label_smoothing else scores.new_zeros(len(table))
        misses = scores.neg_().sigmoid_()  # 1 − p, exact also where p is close to 1
        surprise = -misses.clamp_min(1e-38).log_().sum(dim=1) - everywhere * per_candidate
        gradient = misses.neg_().add_(1 - everywhere)
        if weights is not None:
            surprise *= weights
            gradient *= weights[:, None]
        loss = surprise.sum() - at_answers * of_answers
        gradient.index_put_((answers, queries), gradient.new_tensor(-at_answers), accumulate=True)
        return _keep_gradients(ctx, loss, gradient, vectors, table, bias, 1 / (num_entities * len(vectors)))

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> Any:
        return (*_gradients(ctx, outer), None)


def _keep_gradients(
    ctx: Any, loss: Tensor, gradient: Tensor, vectors: Tensor, table: Tensor, bias: Tensor | None, scale: float
) -> Tensor:
    """The scaled loss; from the gradient of the scores [C, Q], those of the vectors, the table and the bias are kept in `ctx`."""
    for_bias = None if bias is None else gradient.sum(dim=1).mul_(scale)
    ctx.gradients = (gradient.T @ (table * scale), gradient @ (vectors * scale), for_bias)
    return loss * scale


def _gradients(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
    gradients, ctx.gradients = ctx.gradients, None
    return (*(None if gradient is None else gradient * outer for gradient in gradients), None, None, None)
