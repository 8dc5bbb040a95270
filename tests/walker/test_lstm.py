"""One LSTM layer and its gradient, against those of torch."""

import torch

from hopwalk.walker.lstm import LSTMLayer


def test_values_are_those_of_torch():
    torch.manual_seed(0)
    layer, cell = LSTMLayer(3, 4), torch.nn.LSTMCell(3, 4)
    with torch.no_grad():
        cell.weight_ih.copy_(layer.input.weight)
        cell.weight_hh.copy_(layer.recurrent.weight)
        cell.bias_ih.copy_(layer.input.bias)
        cell.bias_hh.zero_()
    rows, inputs, h, c = torch.tensor([1, 0, 1]), torch.randn(3, 3), torch.randn(2, 4), torch.randn(2, 4)
    for found, expected in (
        (layer(layer.input(inputs), (h, c), rows), cell(inputs, (h[rows], c[rows]))),
        (layer(layer.input(inputs)), cell(inputs)),  # from the empty path
    ):
        assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, expected, strict=True))


def test_gradient():
    torch.manual_seed(0)
    layer, rows = LSTMLayer(3, 4).double(), torch.tensor([1, 0, 1])

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.double, requires_grad=True)

    assert torch.autograd.gradcheck(lambda x, h, c: layer(x, (h, c), rows), (values(3, 16), values(2, 4), values(2, 4)))
    assert torch.autograd.gradcheck(lambda x, h, c: layer(x, (h, c)), (values(2, 16), values(2, 4), values(2, 4)))
    assert torch.autograd.gradcheck(layer, (values(2, 16),))


def test_states_without_gradients_are_those_of_training() -> None:
    layer, rows = LSTMLayer(3, 4), torch.tensor([1, 0, 1])
    before, inputs = (torch.rand(2, 4), torch.rand(2, 4)), torch.rand(3, 3)
    trained = layer(layer.input(inputs), before, rows)
    with torch.no_grad():
        asked = layer(layer.input(inputs), before, rows)
        started = layer(layer.input(inputs))
    for one, other in zip(trained + layer(layer.input(inputs)), asked + started, strict=True):
        torch.testing.assert_close(one, other)
