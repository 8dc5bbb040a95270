"""A tiny scorer of every model, a batch of questions, and what is learnt from it."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from hopwalk.config.settings import ScorerSettings
from hopwalk.learning.optimizers import Optimizer
from hopwalk.scorers.base import ProductScorer
from hopwalk.scorers.models import MODELS, build_scorer
from hopwalk.scorers.queries import Batch

E, R = 9, 3
HEADS, RELATIONS, TAILS = torch.tensor([0, 4, 8, 4, 1]), torch.tensor([0, 2, 3, 5, 2]), torch.tensor([3, 4, 0, 7, 1])
every_model = pytest.mark.parametrize("name", MODELS)
every_loss = pytest.mark.parametrize("loss", ["softmax", "binary"])

# Four questions; two of them share their head and two their relation, and entity 5 is an answer twice.
BATCH = Batch(
    heads=torch.tensor([0, 4, 4, 7]),
    relations=torch.tensor([2, 0, 5, 2]),
    queries=torch.tensor([0, 0, 0, 1, 2, 3, 3]),
    answers=torch.tensor([1, 5, 8, 5, 0, 2, 6]),
)


def settings_of(name: str, **values: Any) -> ScorerSettings:
    """A picture of two times 3 x 4 for ConvE, nothing that is drawn by chance in training, and no small numbers."""
    plain = {"dimension": 12, "embedding_height": 3, "num_filters": 4, "initial_scale": 0.5, "n3": 0.0, "relation_weight": 0.0}
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
