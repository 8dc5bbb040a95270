"""Scorers against numbers worked out by hand, plain loops and plain autograd."""

from copy import deepcopy
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hopwalk.config import ScorerSettings
from hopwalk.errors import SettingsError, UnknownNameError
from hopwalk.optimizers import Optimizer
from hopwalk.randomness import dropout
from hopwalk.scorers.base import Calibration, ProductScorer
from hopwalk.scorers.losses import binary_loss, softmax_loss
from hopwalk.scorers.models import MODELS, build_scorer
from hopwalk.scorers.questions import Batch, TrainingQuestions, sample_candidates
from tests.helpers import FAMILY, dataset_of

E, R = 9, 3
HEADS, RELATIONS, TAILS = torch.tensor([0, 4, 8, 4, 1]), torch.tensor([0, 2, 3, 5, 2]), torch.tensor([3, 4, 0, 7, 1])
every_model = pytest.mark.parametrize("name", MODELS)
every_loss = pytest.mark.parametrize("loss", ["softmax", "binary"])

# Four questions; two of them share their head and two their relation, and entity 5 is an answer twice.
BATCH = Batch(
    heads=torch.tensor([0, 4, 4, 7]),
    relations=torch.tensor([2, 0, 5, 2]),
    questions=torch.tensor([0, 0, 0, 1, 2, 3, 3]),
    answers=torch.tensor([1, 5, 8, 5, 0, 2, 6]),
)


def settings_of(name: str, **values: Any) -> ScorerSettings:
    """A picture of two times 3 x 4 for ConvE, nothing that is drawn by chance in training, and no small numbers."""
    plain = {"dimension": 12, "picture_height": 3, "num_filters": 4, "initial_scale": 0.5, "n3": 0.0, "relation_weight": 0.0}
    no_dropout = {"input_dropout": 0.0, "feature_dropout": 0.0, "hidden_dropout": 0.0}
    return ScorerSettings(model=name, **(plain | no_dropout | values))


def scorer_of(name: str, *, num_entities: int = E, **values: Any) -> ProductScorer:
    """A scorer in float64, each of whose parameters and buffers matters."""
    scorer = cast("ProductScorer", build_scorer(num_entities, R, settings_of(name, **values))).double().eval()
    generator = torch.Generator().manual_seed(1)
    for key, value in scorer.state_dict().items():
        if "normalise" in key or "bias" in key:
            value.copy_(torch.empty(value.shape).uniform_(0.5, 1.5, generator=generator))
    return scorer


# What a score is


def test_distmult_by_hand():
    scorer = scorer_of("distmult", num_entities=3, dimension=2)
    with torch.no_grad():
        scorer.entities.copy_(torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]]))
        scorer.relations[1] = torch.tensor([10.0, 100.0])
        scorer.relations[4] = torch.tensor([-1.0, 1.0])
    of_relation, of_inverse = scorer.score_all_tails(torch.tensor([1, 1]), torch.tensor([1, 4])).tolist()
    assert of_relation == [30 - 200, 90 + 100, 15 - 400]
    assert of_inverse == [-3 - 2, -9 + 1, -1.5 - 4]


def test_complex_by_hand():
    scorer = scorer_of("complex", num_entities=2, dimension=2)
    entities, relation = [[1 + 2j, -1j], [3 - 1j, 2 + 5j]], [2 - 3j, 1j]
    with torch.no_grad():
        scorer.entities.copy_(torch.tensor([[1.0, 0, 2, -1], [3.0, 2, -1, 5]]))  # real parts, then imaginary parts
        scorer.relations[3] = torch.tensor([2.0, 0, -3, 1])
    scores = scorer.score_all_tails(torch.tensor([0, 1]), torch.tensor([3, 3]))
    for head in (0, 1):
        for tail in (0, 1):
            products = [h * r * t.conjugate() for h, r, t in zip(entities[head], relation, entities[tail], strict=True)]
            assert scores[head, tail] == sum(products).real
    assert scores.tolist() == [[10 + 0, 23 + 2], [-19 - 2, 20 + 0]]
    assert scores[0, 1] != scores[1, 0]  # the order matters, which it does not for DistMult


def conve_by_loops(scorer: ProductScorer, head: int, relation: int) -> np.ndarray:
    """The scores of all tails, number by number as in Dettmers et al. (2018), from the parameters alone."""
    values = {name: value.numpy() for name, value in scorer.state_dict().items()}

    def normalised(numbers: np.ndarray, layer: str, channel: int | slice) -> np.ndarray:
        mean, variance = values[f"{layer}.running_mean"][channel], values[f"{layer}.running_var"][channel]
        scale = values[f"{layer}.weight"][channel] / np.sqrt(variance + 1e-5)
        result: np.ndarray = (numbers - mean) * scale + values[f"{layer}.bias"][channel]
        return result

    picture = np.concatenate([values["entities"][head].reshape(3, 4), values["relations"][relation].reshape(3, 4)])
    picture = normalised(picture, "normalise_picture", 0)
    features = []
    for channel, (kernel, bias) in enumerate(zip(values["filters.weight"][:, 0], values["filters.bias"], strict=True)):
        convolved = np.empty((4, 2))  # 6 x 4 numbers under a 3 x 3 kernel
        for row, column in np.ndindex(4, 2):
            convolved[row, column] = (picture[row : row + 3, column : column + 3] * kernel).sum() + bias
        features.append(np.maximum(normalised(convolved, "normalise_features", channel), 0).ravel())
    query = values["project.weight"] @ np.concatenate(features) + values["project.bias"]
    query = np.maximum(normalised(query, "normalise_query", slice(None)), 0)
    scores: np.ndarray = values["entities"] @ query + values["tail_bias"]
    return scores


def test_conve_agrees_with_loops():
    scorer = scorer_of("conve")
    scores = scorer.score_all_tails(HEADS, RELATIONS).detach().numpy()
    for row, (head, relation) in enumerate(zip(HEADS.tolist(), RELATIONS.tolist(), strict=True)):
        np.testing.assert_allclose(scores[row], conve_by_loops(scorer, head, relation), rtol=1e-12)
    assert len(np.unique(scores.round(6))) > 20  # ReLU did not make them all the same


@every_model
def test_every_way_to_score_gives_the_same_number(name: str):
    scorer = scorer_of(name)
    heads, relations, tails = torch.cartesian_prod(torch.arange(E), torch.arange(2 * R), torch.arange(E)).T
    all_tails = scorer.score_all_tails(heads[::E], relations[::E])
    assert all_tails.shape == (E * 2 * R, E)
    torch.testing.assert_close(scorer.score_triples(heads, relations, tails).view(-1, E), all_tails, rtol=1e-12, atol=1e-12)
    from_numpy = scorer.numpy_scores(heads[::E].numpy().astype(np.int32), relations[::E].numpy().astype(np.int32))
    np.testing.assert_array_equal(from_numpy, all_tails.detach().numpy())
    assert len(all_tails.unique(dim=0)) == len(all_tails)  # every relation and every inverse has a vector of its own


@every_model
@pytest.mark.parametrize("calibration", [Calibration(), Calibration(0.3, -2.0), Calibration(1.7, 2.5, is_relative=True)], ids=str)
def test_probabilities(name: str, calibration: Calibration):
    scorer = scorer_of(name)
    scores = scorer.score_all_tails(HEADS, RELATIONS)
    scorer.calibration = calibration
    probabilities = scorer.probability_of_all_tails(HEADS, RELATIONS)
    inputs = scores - scores.exp().sum(dim=1, keepdim=True).log() if calibration.is_relative else scores
    torch.testing.assert_close(probabilities, 1 / (1 + (-calibration.slope * inputs - calibration.offset).exp()))
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    of_triples = scorer.probability_of_triples(HEADS, RELATIONS, TAILS)
    torch.testing.assert_close(of_triples, probabilities[torch.arange(len(TAILS)), TAILS])
    torch.testing.assert_close(scorer.score_all_tails(HEADS, RELATIONS), scores)  # scores are not what is calibrated


# Building


def test_a_seed_makes_the_parameters():
    for name in MODELS:
        first, same, other = (build_scorer(E, R, settings_of(name, seed=seed)).state_dict() for seed in (3, 3, 4))
        assert all(torch.equal(first[key], same[key]) for key in first)
        assert not torch.equal(first["entities"], other["entities"])
        assert not torch.equal(first["relations"], other["relations"])
        assert len(first["relations"]) == 2 * R


def test_the_scale_of_fresh_parameters():
    for scale, expected in ((0.001, 0.001), (0.0, (2 / (2000 + 50)) ** 0.5)):  # 0: Glorot and Bengio (2010)
        scorer = build_scorer(2000, R, settings_of("distmult", dimension=50, initial_scale=scale))
        assert cast("ProductScorer", scorer).entities.std().item() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("written", "name"), [("ComplEx", "complex"), ("Dist-Mult", "distmult"), ("conv_e", "conve")])
def test_names_may_be_written_in_several_ways(written: str, name: str):
    assert type(build_scorer(E, R, settings_of(written))) is MODELS[name]


@pytest.mark.parametrize(
    ("name", "remedy"), [("complx", "Did you mean 'complex'"), ("zzz", "Scorers are: distmult, complex, conve")]
)
def test_unknown_names(name: str, remedy: str):
    with pytest.raises(UnknownNameError, match=f"there is no scorer '{name}'. {remedy}"):
        build_scorer(E, R, settings_of(name))


@pytest.mark.parametrize(
    "values",
    [
        {"dimension": 13},  # no multiple of 3
        {"dimension": 6},  # 2 columns under a kernel of 3
        {"dimension": 12, "picture_height": 1, "kernel_size": 3},  # 2 rows under a kernel of 3
    ],
    ids=str,
)
def test_a_dimension_that_makes_no_picture(values: dict[str, int]):
    with pytest.raises(SettingsError, match=rf"scorer.dimension = {values['dimension']} does not make a picture"):
        build_scorer(E, R, settings_of("conve", **values))


def test_the_smallest_picture():
    build_scorer(E, R, settings_of("conve", dimension=6, picture_height=2, kernel_size=3))


# Losses


def plain_loss(
    loss: str,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    questions: Tensor,
    answers: Tensor,
    weights: Tensor | None = None,
    label_smoothing: float = 0.1,
) -> Tensor:
    """The definition, for autograd."""
    scores = vectors @ table.T + (0 if bias is None else bias)
    weights = torch.ones(len(table)).to(scores) if weights is None else weights
    if loss == "softmax":
        return (torch.logsumexp(scores + weights.log(), dim=1)[questions] - scores[questions, answers]).mean()
    targets = torch.full_like(scores, label_smoothing / weights.sum().item())
    targets[questions, answers] += 1 - label_smoothing
    losses = nn.functional.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return (losses * weights).sum() / (len(vectors) * weights.sum())


Arguments = tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]


def fused_loss(loss: str, arguments: Arguments, label_smoothing: float = 0.1) -> Tensor:
    return softmax_loss(*arguments) if loss == "softmax" else binary_loss(*arguments, label_smoothing)


@every_loss
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_losses_and_their_gradients(loss: str, has_bias: bool, has_weights: bool, label_smoothing: float):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()

    vectors, table, bias = draw(4, 5), draw(E, 5), draw(E) if has_bias else None
    leaves = [vectors, table, *([] if bias is None else [bias])]
    weights = None
    if has_weights:  # entities that no question has as its answer stand for others too
        weights = torch.ones(E, dtype=torch.float64)
        weights[3], weights[4], weights[7] = 2.5, 3.0, 7.25
        weights[5] = 4.0 if loss == "softmax" else 1.0
    arguments = (vectors, table, bias, BATCH.questions, BATCH.answers, weights)
    expected = plain_loss(loss, *arguments, label_smoothing=label_smoothing)
    found = fused_loss(loss, arguments, label_smoothing)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    # Times three: what comes from outside must be passed on.
    for got, wanted in zip(torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


@every_loss
@pytest.mark.parametrize("size", [40.0, 1000.0])
def test_losses_of_surprising_scores(loss: str, size: float):
    """Where plain exponentials of float32 are long infinite or zero, gradients are still right."""
    vectors = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    table = torch.tensor([[size], [-size], [0.0]], requires_grad=True)
    places = torch.tensor([0, 1]), torch.tensor([1, 2])
    found = fused_loss(loss, (vectors, table, None, *places, None))
    expected = plain_loss(loss, vectors.double(), table.double(), None, *places)
    assert found.isfinite()
    if loss == "softmax" or size < 87:  # beyond, a single binary surprise counts as 87.5
        assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    wanted = torch.autograd.grad(expected, (vectors, table))
    torch.testing.assert_close(torch.autograd.grad(found, (vectors, table)), wanted, rtol=1e-5, atol=1e-8)


class KeepGradients:
    """An optimizer that does not step: the gradients stay where they are."""

    def step(self) -> None:
        pass

    def step_rows(self, table: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        table.grad = torch.zeros_like(table).index_copy_(0, rows, gradient)


def learnt(scorer: ProductScorer, batch: Batch = BATCH, seed: int = 0) -> tuple[float, dict[str, Tensor]]:
    """The loss and the gradients of a batch."""
    scorer.train()
    scorer.zero_grad()
    loss = scorer.learn(batch, cast("Optimizer", KeepGradients()), torch.Generator().manual_seed(seed))
    gradients = {name: parameter.grad for name, parameter in scorer.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    return loss, cast(
        "dict[str, Tensor]", {name: gradient.clone() for name, gradient in gradients.items() if gradient is not None}
    )


@every_model
@every_loss
def test_learning_follows_the_gradient_of_the_whole_model(name: str, loss: str):
    scorer = scorer_of(name, loss=loss)
    plain = deepcopy(scorer).train()  # batch normalisation by the batch
    scores = plain.score_all_tails(BATCH.heads, BATCH.relations)
    expected = plain_loss(loss, scores, torch.eye(E).double(), None, BATCH.questions, BATCH.answers)
    expected.backward()
    found, gradients = learnt(scorer)
    assert found == pytest.approx(expected.item(), rel=1e-12)
    for key, parameter in plain.named_parameters():
        torch.testing.assert_close(gradients[key], parameter.grad, rtol=1e-9, atol=1e-12)


@every_model
@pytest.mark.parametrize("candidates", [0, 3])
def test_n3_is_the_mean_over_facts(name: str, candidates: int):
    """Lacroix et al. (2018): every fact pays for its head, its relation and its tail, as often as they occur."""
    without, with_n3 = (learnt(scorer_of(name, n3=n3, candidates=candidates)) for n3 in (0.0, 0.7))
    assert with_n3[0] == without[0]  # the loss is told without the penalty
    scorer = scorer_of(name)
    penalty = torch.zeros((), dtype=torch.float64)
    for question, answer in zip(BATCH.questions.tolist(), BATCH.answers.tolist(), strict=True):
        for row in (
            scorer.entities[BATCH.heads[question]],
            scorer.relations[BATCH.relations[question]],
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
def test_telling_the_relation(name: str, candidates: int):
    """Chen et al. (2021): every fact also asks for its relation, among all relations and inverses."""
    without, with_it = (learnt(scorer_of(name, relation_weight=weight, candidates=candidates)) for weight in (0.0, 0.7))
    assert with_it[0] == without[0]
    scorer = scorer_of(name)
    heads, relations = (column[BATCH.questions] for column in (BATCH.heads, BATCH.relations))
    every = [scorer.score_triples(heads, torch.full_like(heads, relation), BATCH.answers) for relation in range(2 * R)]
    (0.7 * nn.functional.cross_entropy(torch.stack(every, dim=1), relations)).backward()
    for key, parameter in scorer.named_parameters():
        torch.testing.assert_close(with_it[1][key] - without[1][key], parameter.grad, rtol=1e-9, atol=1e-12)


def test_conve_cannot_tell_the_relation():
    with pytest.raises(SettingsError, match=r"scorer\.relation_weight has no meaning for ConvE"):
        learnt(scorer_of("conve", relation_weight=0.5))


# Sampled candidates


@every_model
@every_loss
def test_all_entities_sampled_is_the_full_loss(name: str, loss: str):
    full, sampled = (learnt(scorer_of(name, loss=loss, n3=0.1, candidates=candidates)) for candidates in (0, 1000))
    assert sampled[0] == pytest.approx(full[0], rel=1e-10)
    for key, gradient in full[1].items():
        torch.testing.assert_close(sampled[1][key], gradient, rtol=1e-8, atol=1e-10)


def test_what_is_sampled():
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
        assert found.weights.tolist() == [1.0 if entity in answers else 3 / 2 for entity in candidates]  # 3 are no answers


@every_loss
def test_samples_estimate_without_bias(loss: str):
    """Every set of entities is drawn as often as any other, and over all of them the sums come out right, exactly."""
    batch = Batch(torch.tensor([0, 2]), torch.tensor([1, 4]), torch.tensor([0, 1]), torch.tensor([3, 6]))
    if loss == "softmax":  # the exponential of its loss is a sum if there is one answer
        batch = Batch(batch.heads[:1], batch.relations[:1], batch.questions[:1], batch.answers[:1])
    num_others = E - len(batch.answers)
    scorer = scorer_of("distmult", loss=loss, candidates=2)
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


# Optimizers


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(6, 4, generator=generator, dtype=torch.float64))
        self.bias = nn.Parameter(torch.randn(6, generator=generator, dtype=torch.float64))


def table_and_optimizer(kind: str) -> tuple[Table, Optimizer]:
    model = Table()
    return model, Optimizer(model, kind, 0.3)


@pytest.mark.parametrize("kind", ["adagrad", "adam"])
def test_steps_of_rows_are_steps_with_no_gradient_elsewhere(kind: str):
    model, optimizer = table_and_optimizer(kind)
    dense = deepcopy(model)
    reference = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[kind](dense.parameters(), lr=0.3)
    generator = torch.Generator().manual_seed(5)
    for rows in ([0, 2], [2], [5, 1, 2], [0, 1, 2, 3, 4, 5], [4, 0]):
        gradient = torch.randn(len(rows), 4, generator=generator, dtype=torch.float64)
        model.bias.grad = torch.randn(6, generator=generator, dtype=torch.float64)
        dense.bias.grad, dense.weight.grad = model.bias.grad.clone(), torch.zeros(6, 4, dtype=torch.float64)
        dense.weight.grad[rows] = gradient
        reference.step()
        before = model.weight.detach().clone()
        optimizer.step_rows(model.weight, torch.tensor(rows), gradient.clone())
        optimizer.step()
        assert [parameter.grad for parameter in model.parameters()] == [None, None]
        torch.testing.assert_close(model.weight, dense.weight, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(model.bias, dense.bias, rtol=1e-10, atol=1e-12)
        if kind == "adagrad":
            others = [row for row in range(6) if row not in rows]
            assert torch.equal(model.weight[others], before[others])


def test_the_first_step_of_adagrad_is_the_sign():
    model, optimizer = table_and_optimizer("adagrad")
    before = model.weight.detach().clone()
    optimizer.step_rows(model.weight, torch.tensor([1]), torch.tensor([[2.0, -0.5, 1e-3, 0.0]], dtype=torch.float64))
    moved = (model.weight - before)[1].tolist()
    assert moved == pytest.approx([-0.3, 0.3, -0.3, 0.0], rel=1e-6)


@pytest.mark.parametrize("kind", ["adagrad", "adam"])
def test_the_state_of_an_optimizer_is_all_that_the_next_step_depends_on(kind: str):
    model, optimizer = table_and_optimizer(kind)

    def step(model: Table, optimizer: Optimizer, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in (model.weight, model.bias):
            parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        optimizer.step()

    for seed in range(3):
        step(model, optimizer, seed)
    other, fresh = deepcopy(model), deepcopy(model)
    going_on = Optimizer(other, kind, 0.3)
    going_on.load_state({name: value.clone() for name, value in optimizer.state().items()})
    beginning = Optimizer(fresh, kind, 0.3)
    for a_model, an_optimizer in ((model, optimizer), (other, going_on), (fresh, beginning)):
        step(a_model, an_optimizer, 7)
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.bias, other.bias)
    assert not torch.equal(model.weight, fresh.weight)


# Questions

FACTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("pqr"), st.sampled_from("abcdef")), min_size=1, max_size=40)


@hypothesis_settings(deadline=None, max_examples=60)
@given(FACTS, st.integers(1, 30), st.integers(0, 2**32))
def test_questions_agree_with_a_dictionary(facts, size: int, seed: int):
    dataset = dataset_of(facts)
    num_relations = len(dataset.relations)
    expected: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in dataset.facts.array().tolist():
        expected.setdefault((head, relation), set()).add(tail)
        expected.setdefault((tail, relation + num_relations), set()).add(head)
    questions = TrainingQuestions.of(dataset)
    pairs = [*zip(questions.heads.tolist(), questions.relations.tolist(), strict=True)]
    assert len(questions) == len(expected)
    assert pairs == sorted(expected)  # those of one head stand together
    for number, pair in enumerate(pairs):
        answers = questions.answers[questions.offsets[number] : questions.offsets[number + 1]].tolist()
        assert len(answers) == len({*answers})
        assert {*answers} == expected[pair]
    batches = [*questions.batches(size, torch.Generator().manual_seed(seed))]
    found: dict[tuple[int, int], set[int]] = {}
    for batch in batches:
        asked = [*zip(batch.heads.tolist(), batch.relations.tolist(), strict=True)]
        assert not found.keys() & {*asked}
        for question, answer in zip(batch.questions.tolist(), batch.answers.tolist(), strict=True):
            assert answer not in found.setdefault(asked[question], set())
            found[asked[question]].add(answer)
    assert found == expected
    again = [*questions.batches(size, torch.Generator().manual_seed(seed))]
    assert [batch.answers.tolist() for batch in again] == [batch.answers.tolist() for batch in batches]


def test_the_order_of_questions_is_drawn():
    questions = TrainingQuestions.of(dataset_of(FAMILY))
    orders = {tuple(next(questions.batches(100, torch.Generator().manual_seed(seed))).heads.tolist()) for seed in range(5)}
    assert len(orders) == 5
    sizes = [len(batch.heads) for batch in questions.batches(4, torch.Generator().manual_seed(0))]
    assert max(sizes) <= 5
    assert sum(sizes) == len(questions) == 11


def test_questions_are_about_the_graph_not_the_training_questions():
    dataset = dataset_of([("a", "r", "b")], facts=[("a", "r", "b"), ("b", "q", "a")])
    assert TrainingQuestions.of(dataset).heads.tolist() == [0, 0, 1, 1]
    assert TrainingQuestions.of(dataset).relations.tolist() == [1, 2, 0, 3]


# Dropout


def test_dropout_keeps_the_mean():
    values = torch.linspace(1, 2, 20_000).view(100, 200)
    dropped = dropout(values, 0.25, torch.Generator().manual_seed(0))
    is_kept = dropped != 0
    torch.testing.assert_close(dropped[is_kept], values[is_kept] / 0.75)
    assert is_kept.float().mean().item() == pytest.approx(0.75, abs=0.01)
    assert torch.equal(dropped, dropout(values, 0.25, torch.Generator().manual_seed(0)))
    assert not torch.equal(dropped, dropout(values, 0.25, torch.Generator().manual_seed(1)))


def test_dropout_of_whole_slices():
    dropped = dropout(torch.ones(30, 20, 4, 2), 0.5, torch.Generator().manual_seed(0), (30, 20, 1, 1))
    of_slices = dropped.flatten(2)
    assert (of_slices == of_slices[:, :, :1]).all()
    assert {*of_slices[:, :, 0].flatten().tolist()} == {0.0, 2.0}


def test_no_dropout_without_a_generator():
    values = torch.ones(5)
    assert dropout(values, 0.5, None) is values
    assert dropout(values, 0.0, torch.Generator()) is values


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in MODELS for kind in ("input_dropout", "tail_dropout")),
        ("conve", "feature_dropout"),
        ("conve", "hidden_dropout"),
    ],
)
def test_dropout_in_training_only(name: str, kind: str):
    dropouts: dict[str, Any] = {kind: 0.4}
    scorer, plain = scorer_of(name, **dropouts), scorer_of(name)
    first, same, other = (learnt(scorer, seed=seed)[1]["relations"] for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert not torch.equal(first, learnt(plain, seed=1)[1]["relations"])
    scorer.load_state_dict(plain.state_dict())
    assert torch.equal(scorer.eval().score_all_tails(HEADS, RELATIONS), plain.eval().score_all_tails(HEADS, RELATIONS))
