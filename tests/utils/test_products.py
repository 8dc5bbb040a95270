from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from hopwalk.utils import products
from hopwalk.utils.products import fast_products, linear, rounded_up


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    products.is_exact.cache_clear()
    yield
    products.is_exact.cache_clear()
    torch.set_float32_matmul_precision(before)


def test_products_keep_the_precision_of_float32() -> None:
    left, right = torch.rand(300, 200), torch.rand(200, 400)
    with fast_products():
        product = left @ right
    torch.testing.assert_close(product.double(), left.double() @ right.double(), rtol=1e-5, atol=0)


def test_the_setting_of_the_user_comes_back_also_after_an_error() -> None:
    torch.set_float32_matmul_precision("high")
    with pytest.raises(KeyError), fast_products():
        raise KeyError
    assert torch.get_float32_matmul_precision() == "high"


def test_blocks_may_overlap_as_those_of_threads_do() -> None:
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(fast_products())
        second.enter_context(fast_products())
        inside = torch.get_float32_matmul_precision()
        first.close()
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == "highest"


def test_numbers_of_rows_are_few() -> None:
    assert [rounded_up(number) for number in (0, 1, 127, 128, 129, 256, 257)] == [0, 1, 127, 128, 256, 256, 384]


def test_a_processor_that_rounds_keeps_the_setting_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch.Tensor.__matmul__

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        is_double = left.dtype == torch.float64
        return exact(left, right) if is_double else exact(left.bfloat16().float(), right.bfloat16().float())

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    assert not products.is_exact()
    with fast_products():
        assert torch.get_float32_matmul_precision() == "highest"


def test_a_precision_set_by_backend_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: pytest.fail("it was changed"))
    with fast_products():
        pass


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_rounded_layer_has_the_values_and_gradients_of_a_linear_layer_to_the_precision_of_bfloat16(has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = ((300, 200), (400, 200), (400,))
    exact = [torch.randn(size, generator=generator, requires_grad=True) for size in sizes]
    rounded = [tensor.detach().clone().requires_grad_() for tensor in exact]
    weights = torch.randn(300, 400, generator=generator)
    for tensors, is_rounded in ((exact, False), (rounded, True)):
        (linear(tensors[0], tensors[1], tensors[2] if has_bias else None, is_rounded=is_rounded) * weights).sum().backward()
    for one, other in zip(exact[: 2 + has_bias], rounded, strict=False):
        assert other.grad is not None and one.grad is not None and other.grad.dtype == torch.float32
        assert float((one.grad - other.grad).norm() / one.grad.norm()) < 0.01
    values, near = (linear(exact[0], exact[1], is_rounded=is_rounded).detach() for is_rounded in (False, True))
    assert 0 < float((values - near).norm() / values.norm()) < 0.01


@pytest.mark.parametrize("num_rows", [3, 128, 129, 300])
def test_products_without_gradients_have_few_shapes_and_the_same_values(num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, weight, bias, shapes = torch.rand(num_rows, 20), torch.rand(30, 20), torch.rand(30), []
    exact = torch.nn.functional.linear

    def spy(vectors: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        shapes.append(len(vectors))
        return exact(vectors, *others)

    monkeypatch.setattr(torch.nn.functional, "linear", spy)
    with torch.no_grad():
        torch.testing.assert_close(linear(vectors, weight, bias), vectors @ weight.t() + bias)
    assert shapes == [rounded_up(num_rows)]
    assert len(linear(vectors, weight)) == num_rows and shapes[-1] == num_rows  # training rounds up by itself
