"""Adagrad and Adam: PyTorch's fused steps for dense gradients, own steps for some rows of large tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's constants


class Optimizer:
    """An optimizer of the parameters of a model; its state can be saved as named tensors."""

    def __init__(
        self, model: nn.Module, kind: str, learning_rate: float, *, with_sparse_rows: frozenset[str] = frozenset()
    ) -> None:
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        make: Any = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[kind]
        dense = [parameter for name, parameter in model.named_parameters() if name not in with_sparse_rows]
        self._sparse = [parameter for name, parameter in model.named_parameters() if name in with_sparse_rows]
        self._steps = make(dense, lr=learning_rate, fused=True)
        self._learning_rate = learning_rate
        self._is_adagrad = kind == "adagrad"

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the step size of the next steps."""
        self._learning_rate = learning_rate
        for group in self._steps.param_groups:
            group["lr"] = learning_rate

    def clip(self, largest: float) -> None:
        """Scale the gradient of all parameters together down to this norm, if it is larger."""
        for table in self._sparse:
            if table.grad is not None:
                table.grad = table.grad.coalesce()
        gradients = [parameter.grad for parameter in self._names if parameter.grad is not None]
        values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
        norm = torch.stack([value.norm() for value in values]).norm()
        scale = torch.clamp(largest / (norm + 1e-6), max=1.0)
        for value in values:
            value.mul_(scale)

    def step(self) -> None:
        """Make one step for every parameter that has a gradient, then clear the gradients."""
        self._steps.step()
        self._steps.zero_grad()
        for table in self._sparse:
            if table.grad is not None:
                self._step_sparse(table, table.grad.coalesce())
                table.grad = None

    @torch.no_grad()
    def _step_sparse(self, table: nn.Parameter, gradient: Tensor) -> None:
        """Adam for the rows that have a gradient; other rows and their moments stay unchanged."""
        rows, values = gradient.indices()[0], gradient.values()
        state = self._steps.state[table]
        if not state:
            state.update(step=torch.zeros(()), exp_avg=torch.zeros_like(table), exp_avg_sq=torch.zeros_like(table))
        state["step"] += 1
        step = float(state["step"])
        mean = state["exp_avg"][rows].lerp_(values, 1 - _BETA_1)
        square = state["exp_avg_sq"][rows].mul_(_BETA_2).addcmul_(values, values, value=1 - _BETA_2)
        state["exp_avg"].index_copy_(0, rows, mean)
        state["exp_avg_sq"].index_copy_(0, rows, square)
        size = square.sqrt_().div_((1 - _BETA_2**step) ** 0.5).add_(_EPSILON)
        table.index_add_(0, rows, mean.div_(size), alpha=-self._learning_rate / (1 - _BETA_1**step))

    def step_rows(self, table: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """Make one step for some rows of a table, as if the gradient of the others were zero.

        With a zero gradient, rows do not change under Adagrad, so only the given rows are read and written. Under Adam they do.
        """
        if not self._is_adagrad:
            table.grad = torch.zeros_like(table).index_copy_(0, rows, gradient)
            return  # the next `step` uses it
        squares = self._steps.state[table]["sum"]
        row_squares = squares[rows].addcmul_(gradient, gradient)
        squares.index_copy_(0, rows, row_squares)
        table.data.index_add_(0, rows, gradient.div_(row_squares.sqrt_().add_(1e-10)), alpha=-self._learning_rate)

    def state(self) -> dict[str, Tensor]:
        """The state that the next step depends on, by name."""
        return {
            f"{self._names[parameter]}.{key}": value
            for parameter, values in self._steps.state.items()
            for key, value in values.items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state` returned."""
        for parameter, name in self._names.items():
            found = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.rpartition(".")[0] == name}
            if found:
                self._steps.state[parameter] = found
