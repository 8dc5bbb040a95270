"""Steps of the optimizers against those of PyTorch's, and the state that they depend on."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from hopwalk.learning.optimizers import Optimizer


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
