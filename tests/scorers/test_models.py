"""Scores by hand and by plain loops, construction by name, and dropout in training."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from hopwalk.errors import SettingsError, UnknownNameError
from hopwalk.learning.calibration import Calibration
from hopwalk.scorers.base import ProductScorer
from hopwalk.scorers.models import MODELS, build_scorer
from tests.support.scoring import HEADS, RELATIONS, TAILS, E, R, every_model, learnt, scorer_of, settings_of


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

    stacked = np.concatenate([values["entities"][head].reshape(3, 4), values["relations"][relation].reshape(3, 4)])
    stacked = normalised(stacked, "normalise_picture", 0)
    features = []
    for channel, (kernel, bias) in enumerate(zip(values["filters.weight"][:, 0], values["filters.bias"], strict=True)):
        convolved = np.empty((4, 2))  # 6 x 4 numbers under a 3 x 3 kernel
        for row, column in np.ndindex(4, 2):
            convolved[row, column] = (stacked[row : row + 3, column : column + 3] * kernel).sum() + bias
        if scorer.settings.conve_layers == "original":
            convolved = normalised(convolved, "normalise_features", channel)
        features.append(np.maximum(convolved, 0).ravel())
    query = values["project.weight"] @ np.concatenate(features) + values["project.bias"]
    query = np.maximum(normalised(query, "normalise_query", slice(None)), 0)
    scores: np.ndarray = values["entities"] @ query + values["tail_bias"]
    return scores


@pytest.mark.parametrize("layers", ["original", "released"])
def test_conve_agrees_with_loops(layers: str):
    scorer = scorer_of("conve", conve_layers=layers)
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
    torch.testing.assert_close(scorer.score_all_tails(HEADS, RELATIONS), scores)  # calibration does not change scores


def test_the_seed_determines_the_parameters():
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
        {"dimension": 12, "embedding_height": 1, "kernel_size": 3},  # 2 rows under a kernel of 3
    ],
    ids=str,
)
def test_a_dimension_that_cannot_be_reshaped(values: dict[str, int]):
    with pytest.raises(SettingsError, match=rf"scorer.dimension = {values['dimension']} is not valid for ConvE"):
        build_scorer(E, R, settings_of("conve", **values))


def test_dropout_of_the_released_layers_of_conve():
    """Before the first norm, so that the norm sees zeros; and of single features, not of whole maps."""
    features: dict[str, torch.Tensor] = {}
    for layers in ("original", "released"):
        scorer = scorer_of("conve", conve_layers=layers, feature_dropout=0.5, input_dropout=0.5).train()
        projected: list[torch.Tensor] = []
        pictures: list[torch.Tensor] = []
        scorer.get_submodule("project").register_forward_pre_hook(lambda _, inputs: projected.append(inputs[0]))  # noqa: B023
        scorer.get_submodule("normalise_picture").register_forward_pre_hook(lambda _, inputs: pictures.append(inputs[0]))  # noqa: B023
        heads, relations = scorer.entities[HEADS], scorer.relations[RELATIONS]
        scorer.query_vectors(heads, relations, torch.Generator().manual_seed(0))
        assert bool((pictures[0] == 0).any()) == (layers == "released")
        features[layers] = projected[0].view(len(HEADS), 4, -1) == 0
    whole_maps = {
        layers: float((dropped.all(dim=2) == dropped.any(dim=2)).float().mean()) for layers, dropped in features.items()
    }
    assert whole_maps["released"] < whole_maps["original"]


def test_the_smallest_dimension_of_conve():
    build_scorer(E, R, settings_of("conve", dimension=6, embedding_height=2, kernel_size=3))


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
