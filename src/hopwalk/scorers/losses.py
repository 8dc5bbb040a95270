"""The two losses over all tails of a query. Both compute their gradient in the forward pass, from the scores in memory.

Scores are [C, Q], candidates by queries: matrix products with few columns are twice as fast as with few rows on the processors
we measured (docs/decisions.md). The matrix of scores is overwritten by its gradient, so memory is one such matrix, and none is
kept for a backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def softmax_loss(
    vectors: Tensor, table: Tensor, bias: Tensor | None, queries: Tensor, answers: Tensor, weights: Tensor | None
) -> Tensor:
    """The multi-class loss of Lacroix et al. (2018) grouped by query, a mean over answers.

    The loss of a query with n answers is `n · logsumexp(scores) − Σ scores[answers]`. `vectors` [Q, D] are the query vectors,
    `table` [C, D] the candidates' embeddings, `bias` [C]. Answer i belongs to row `queries[i]` of the vectors and is row
    `answers[i]` of the table. `weights` [C] are the numbers of entities that sampled candidates stand for.
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
        answer_scores = scores[answers, queries]
        if weights is not None:
            answer_scores = answer_scores - weights.log()[answers]
        highest = scores.amax(dim=0)
        totals = scores.sub_(highest).exp_().sum(dim=0)
        loss = counts @ (totals.log() + highest) - answer_scores.sum()
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
    smoothing_sum: float = 0.0,
) -> Tensor:
    """Binary cross-entropy over all candidates of all queries, a mean (the paper's; Dettmers et al., 2018).

    The target is `(1 − label_smoothing) · is_answer + smoothing_sum / num_entities`; a `smoothing_sum` of 0 stands for
    `label_smoothing`. Other arguments are those of `softmax_loss`.
    """
    arguments = (vectors, table, bias, queries, answers, weights, label_smoothing, smoothing_sum or label_smoothing)
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
        smoothing_sum: float,
    ) -> Tensor:
        scores = table @ vectors.T
        if bias is not None:
            scores += bias[:, None]
        num_entities = len(table) if weights is None else float(weights.sum())
        base_target, answer_target = smoothing_sum / num_entities, 1 - label_smoothing
        answer_score = scores[answers, queries].sum()
        per_candidate = scores.sum(dim=1) if smoothing_sum else scores.new_zeros(len(table))
        misses = scores.neg_().sigmoid_()  # 1 − p, exact even if p is close to 1
        losses = -misses.clamp_min(1e-38).log_().sum(dim=1) - base_target * per_candidate
        gradient = misses.neg_().add_(1 - base_target)
        if weights is not None:
            losses *= weights
            gradient *= weights[:, None]
        loss = losses.sum() - answer_target * answer_score
        gradient.index_put_((answers, queries), gradient.new_tensor(-answer_target), accumulate=True)
        return _keep_gradients(ctx, loss, gradient, vectors, table, bias, 1 / (num_entities * len(vectors)))

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> Any:
        return (*_gradients(ctx, outer), None, None)


def _keep_gradients(
    ctx: Any, loss: Tensor, gradient: Tensor, vectors: Tensor, table: Tensor, bias: Tensor | None, scale: float
) -> Tensor:
    """The scaled loss; the gradients of vectors, table and bias, from that of the scores [C, Q], are stored in `ctx`."""
    bias_gradient = None if bias is None else gradient.sum(dim=1).mul_(scale)
    ctx.gradients = (gradient.T @ (table * scale), gradient @ (vectors * scale), bias_gradient)
    return loss * scale


def _gradients(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
    gradients, ctx.gradients = ctx.gradients, None
    return (*(None if gradient is None else gradient * outer for gradient in gradients), None, None, None)
