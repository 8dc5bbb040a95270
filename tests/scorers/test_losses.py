"""Losses and their gradients against plain autograd, over all entities and over a sample of them."""

from copy import deepcopy
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn

from hopwalk.errors import SettingsError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.scorers.losses import binary_loss, softmax_loss
from hopwalk.scorers.queries import Batch, sample_candidates
from tests.support.scoring import BATCH, E, R, every_loss, every_model, learnt, scorer_of

# Losses


def plain_loss(
    loss: str,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    queries: Tensor,
    answers: Tensor,
    weights: Tensor | None = None,
    label_smoothing: float = 0.1,
    smoothing_sum: float = 0.0,
) -> Tensor:
    """The definition, for autograd."""
    scores = vectors @ table.T + (0 if bias is None else bias)
    weights = torch.ones(len(table)).to(scores) if weights is None else weights
    if loss == "softmax":
        return (torch.logsumexp(scores + weights.log(), dim=1)[queries] - scores[queries, answers]).mean()
    targets = torch.full_like(scores, (smoothing_sum or label_smoothing) / weights.sum().item())
    targets[queries, answers] += 1 - label_smoothing
    losses = nn.functional.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return (losses * weights).sum() / (len(vectors) * weights.sum())


Arguments = tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]


def fused_loss(loss: str, arguments: Arguments, label_smoothing: float = 0.1, smoothing_sum: float = 0.0) -> Tensor:
    return softmax_loss(*arguments) if loss == "softmax" else binary_loss(*arguments, label_smoothing, smoothing_sum)


@every_loss
@pytest.mark.parametrize(("label_smoothing", "smoothing_sum"), [(0.0, 0.0), (0.1, 0.0), (0.1, 1.0)])
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_losses_and_their_gradients(loss: str, has_bias: bool, has_weights: bool, label_smoothing: float, smoothing_sum: float):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()

    vectors, table, bias = draw(4, 5), draw(E, 5), draw(E) if has_bias else None
    leaves = [vectors, table, *([] if bias is None else [bias])]
    weights = None
    if has_weights:  # entities that are not an answer stand for others too
        weights = torch.ones(E, dtype=torch.float64)
        weights[3], weights[4], weights[7] = 2.5, 3.0, 7.25
        weights[5] = 4.0 if loss == "softmax" else 1.0
    arguments = (vectors, table, bias, BATCH.queries, BATCH.answers, weights)
    expected = plain_loss(loss, *arguments, label_smoothing=label_smoothing, smoothing_sum=smoothing_sum)
    found = fused_loss(loss, arguments, label_smoothing, smoothing_sum)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    # Times three: the outer gradient must be passed on.
    for got, gradient in zip(torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(got, gradient, rtol=1e-10, atol=1e-12)


@every_loss
@pytest.mark.parametrize("size", [40.0, 1000.0])
def test_losses_of_large_scores(loss: str, size: float):
    """Gradients are right even where plain exponentials in float32 are infinite or zero."""
    vectors = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    table = torch.tensor([[size], [-size], [0.0]], requires_grad=True)
    places = torch.tensor([0, 1]), torch.tensor([1, 2])
    found = fused_loss(loss, (vectors, table, None, *places, None))
    expected = plain_loss(loss, vectors.double(), table.double(), None, *places)
    assert found.isfinite()
    if loss == "softmax" or size < 87:  # beyond, a single binary loss is cut at 87.5
        assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    gradients = torch.autograd.grad(expected, (vectors, table))
    torch.testing.assert_close(torch.autograd.grad(found, (vectors, table)), gradients, rtol=1e-5, atol=1e-8)


@every_model
@every_loss
def test_learning_follows_the_gradient_of_the_whole_model(name: str, loss: str):
    scorer = scorer_of(name, loss=loss)
    plain = deepcopy(scorer).train()  # batch normalisation by the batch
    scores = plain.score_all_tails(BATCH.heads, BATCH.relations)
    expected = plain_loss(loss, scores, torch.eye(E).double(), None, BATCH.queries, BATCH.answers)
    expected.backward()
    found, gradients = learnt(scorer)
    assert found == pytest.approx(expected.item(), rel=1e-12)
    for key, parameter in plain.named_parameters():
        torch.testing.assert_close(gradients[key], parameter.grad, rtol=1e-9, atol=1e-12)


@every_model
@pytest.mark.parametrize("candidates", [0, 3])
def test_n3_is_the_mean_over_facts(name: str, candidates: int):
    """Lacroix et al. (2018): every fact pays for its head, its relation and its tail, as often as they occur."""
    without, with_n3 = (learnt(scorer_of(name, n3=n3, num_sampled_tails=candidates)) for n3 in (0.0, 0.7))
    assert with_n3[0] == without[0]  # the loss is reported without the penalty
    scorer = scorer_of(name)
    penalty = torch.zeros((), dtype=torch.float64)
    for query, answer in zip(BATCH.queries.tolist(), BATCH.answers.tolist(), strict=True):
        for row in (
            scorer.entities[BATCH.heads[query]],
            scorer.relations[BATCH.relations[query]],
            scorer.entities[answer],
        ):
            numbers = torch.complex(row[:12], row[12:]) if name == "complex" else row
            penalty = penalty + (numbers.abs() ** 3).sum()
    (0.7 * penalty / len(BATCH.answers)).backward()
    for key, parameter in scorer.named_parameters():
        difference = with_n3[1][key] - without[1][key]
        expected = torch.zeros_like(difference) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(difference, expected, rtol=1e-9, atol=1e-12)


def test_n3_of_numbers_that_are_zero():
    scorer = scorer_of("complex", n3=0.1)
    with torch.no_grad():
        scorer.entities[1].zero_()
    _, gradients = learnt(scorer)
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@pytest.mark.parametrize("name", ["distmult", "complex"])
@pytest.mark.parametrize("candidates", [0, 3])
def test_predicting_the_relation(name: str, candidates: int):
    """Chen et al. (2021): every fact also predicts its relation, among all relations and inverses."""
    without, with_it = (learnt(scorer_of(name, relation_weight=weight, num_sampled_tails=candidates)) for weight in (0.0, 0.7))
    assert with_it[0] == without[0]
    scorer = scorer_of(name)
    heads, relations = (column[BATCH.queries] for column in (BATCH.heads, BATCH.relations))
    every = [scorer.score_triples(heads, torch.full_like(heads, relation), BATCH.answers) for relation in range(2 * R)]
    (0.7 * nn.functional.cross_entropy(torch.stack(every, dim=1), relations)).backward()
    for key, parameter in scorer.named_parameters():
        torch.testing.assert_close(with_it[1][key] - without[1][key], parameter.grad, rtol=1e-9, atol=1e-12)


def test_conve_cannot_predict_the_relation():
    with pytest.raises(SettingsError, match=r"scorer\.relation_weight = 0\.5 is not valid for ConvE"):
        learnt(scorer_of("conve", relation_weight=0.5))


@pytest.mark.parametrize("candidates", [0, 3])
def test_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch, candidates: int):
    """All together are scaled to the norm."""
    monkeypatch.setattr(Optimizer, "step", lambda _: None)  # keeps the gradients
    _, whole = learnt(scorer_of("distmult", num_sampled_tails=candidates))
    scorer = scorer_of("distmult", optimizer="adam", gradient_clip=0.01, num_sampled_tails=candidates).train()
    scorer.learn(BATCH, Optimizer(scorer, "adam", 0.1), torch.Generator().manual_seed(0))
    norm = torch.stack([gradient.norm() for gradient in whole.values()]).norm()
    assert norm > 0.01
    for name, parameter in scorer.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name] * 0.01 / norm, rtol=1e-3, atol=1e-9)


def test_clipping_does_not_go_with_adagrad_and_sampled_tails():
    with pytest.raises(SettingsError, match=r"scorer\.gradient_clip = 5\.0 is not valid with Adagrad and sampled tails"):
        scorer_of("distmult", gradient_clip=5.0, num_sampled_tails=3)


# Sampled candidates


@every_model
@every_loss
def test_all_entities_sampled_is_the_full_loss(name: str, loss: str):
    full, sampled = (learnt(scorer_of(name, loss=loss, n3=0.1, num_sampled_tails=candidates)) for candidates in (0, 1000))
    assert sampled[0] == pytest.approx(full[0], rel=1e-10)
    for key, gradient in full[1].items():
        torch.testing.assert_close(sampled[1][key], gradient, rtol=1e-8, atol=1e-10)


def test_sampled_candidates():
    answers, heads = {*BATCH.answers.tolist()}, {*BATCH.heads.tolist()}
    for seed in range(20):
        rows, found = sample_candidates(BATCH, 2, E, torch.Generator().manual_seed(seed))
        assert found.entities is not None
        assert found.weights is not None
        candidates = found.entities.tolist()
        assert len({*candidates}) == len(candidates) == len(answers) + 2
        assert answers < {*candidates}
        assert rows[: len(candidates)].tolist() == candidates
        assert {*rows.tolist()} == {*candidates} | heads
        assert len({*rows.tolist()}) == len(rows)
        assert rows[found.heads].tolist() == BATCH.heads.tolist()
        assert rows[found.answers].tolist() == BATCH.answers.tolist()
        assert found.weights.tolist() == [1.0 if entity in answers else 3 / 2 for entity in candidates]  # 3 are not answers


def test_the_number_of_candidates_does_not_depend_on_the_batch():
    sizes = set()
    for num_answers in (1, 7, 50):
        ids = torch.arange(num_answers)
        batch = Batch(ids, ids, ids, ids)
        _, found = sample_candidates(batch, 300, 1000, torch.Generator().manual_seed(0))
        assert found.entities is not None and found.weights is not None
        assert float(found.weights.sum()) == pytest.approx(1000)
        sizes.add(len(found.entities))
    assert sizes == {384}


@every_loss
def test_samples_estimate_without_bias(loss: str):
    """Every set of entities is equally likely, and the mean over all sets is exact."""
    batch = Batch(torch.tensor([0, 2]), torch.tensor([1, 4]), torch.tensor([0, 1]), torch.tensor([3, 6]))
    if loss == "softmax":  # the exponential of its loss is a sum if there is one answer
        batch = Batch(batch.heads[:1], batch.relations[:1], batch.queries[:1], batch.answers[:1])
    num_others = E - len(batch.answers)
    scorer = scorer_of("distmult", loss=loss, num_sampled_tails=2)
    found: dict[frozenset[int], Tensor] = {}
    counts: dict[frozenset[int], int] = {}
    for seed in range(1500):
        _, candidates = sample_candidates(batch, 2, E, torch.Generator().manual_seed(seed))
        assert candidates.entities is not None
        drawn = frozenset(candidates.entities.tolist()) - {*batch.answers.tolist()}
        counts[drawn] = counts.get(drawn, 0) + 1
        if drawn not in found:
            value, gradients = learnt(scorer, batch, seed)
            estimates = [torch.tensor([value]).double(), *(gradients[key].flatten() for key in ("entities", "relations"))]
            found[drawn] = torch.cat(estimates) if loss == "binary" else estimates[0].exp()
    assert {*found} == {frozenset(pair) for pair in combinations({*range(E)} - {*batch.answers.tolist()}, 2)}
    fair = 1500 / (num_others * (num_others - 1) / 2)
    assert all(abs(count - fair) < 5 * fair**0.5 for count in counts.values())
    value, gradients = learnt(scorer_of("distmult", loss=loss), batch)
    full = torch.cat([torch.tensor([value]).double(), gradients["entities"].flatten(), gradients["relations"].flatten()])
    mean = torch.stack([*found.values()]).mean(dim=0)
    torch.testing.assert_close(mean, full if loss == "binary" else full[:1].exp(), rtol=1e-6, atol=1e-8)
