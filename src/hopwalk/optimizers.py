"""Adagrad and Adam, dense with PyTorch's fused steps, and Adagrad on chosen rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Optimizer:
    """Steps for the parameters of a model; its state can be saved as named tensors."""

    def __init__(self, model: nn.Module, kind: str, learning_rate: float) -> None:
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        make: Any = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[kind]
        self._steps = make(model.parameters(), lr=learning_rate, fused=True)
        self._learning_rate = learning_rate
        self._is_adagrad = kind == "adagrad"

    def set_learning_rate(self, learning_rate: float) -> None:
        """The size of the steps from now on."""
        self._learning_rate = learning_rate
        for group in self._steps.param_groups:
            group["lr"] = learning_rate

    def step(self) -> None:
        """One step for every parameter that has a gradient, and no gradients after it."""
        self._steps.step()
        self._steps.zero_grad()

    def step_rows(self, table: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """One step for some rows of a table, as if the gradient of the others were zero.

        A zero gradient leaves Adagrad's rows where they are, so only the rows given are read and written. With Adam they move on.
        """
        if not self._is_adagrad:
            table.grad = torch.zeros_like(table).index_copy_(0, rows, gradient)
            return  # taken by the next `step`
        squares = self._steps.state[table]["sum"]
        of_rows = squares[rows].addcmul_(gradient, gradient)
        squares.index_copy_(0, rows, of_rows)
        table.data.index_add_(0, rows, gradient.div_(of_rows.sqrt_().add_(1e-10)), alpha=-self._learning_rate)

    def state(self) -> dict[str, Tensor]:
        """What the next step depends on."""
        return {
            f"{self._names[parameter]}.{key}": value
            for parameter, values in self._steps.state.items()
            for key, value in values.items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        for parameter, name in self._names.items():
            found = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.rpartition(".")[0] == name}
            if found:
                self._steps.state[parameter] = found
