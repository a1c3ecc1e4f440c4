"""Windows of pools: each holds an element of its operand, or the pool is refused."""

from __future__ import annotations

import numpy as np
import pytest

from egraph_opt.ir import TensorType, symbol
from egraph_opt.ops import IllTyped, operator

POOLS = ("MaxPool", "AveragePool")


def attributes(
    name: str, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: int
) -> tuple[object, ...]:
    return ((kernel,), (stride,), pads, (dilation,), ceil, *((0,) if name == "AveragePool" else ()))


def elements(size: int, kernel: int, stride: int, pad: int, dilation: int, count: int) -> list[int]:
    """How many elements of the axis each window holds, counted one by one."""
    starts = [i * stride - pad for i in range(count)]
    return [sum(0 <= s + j * dilation < size for j in range(kernel)) for s in starts]


@pytest.mark.parametrize("name", POOLS)
def test_exactly_the_pools_with_a_window_of_padding_only_are_refused(name: str) -> None:
    rng, refused, kept = np.random.default_rng(0), 0, 0
    for _ in range(3000):
        size, kernel, stride, dilation = (int(n) for n in rng.integers(1, (6, 5, 4, 4)))
        pads = (int(rng.integers(kernel)), int(rng.integers(kernel)))
        attrs = attributes(name, kernel, stride, pads, dilation, int(rng.integers(2)))
        room = size + sum(pads) - (kernel - 1) * dilation - 1
        if room < 0:
            continue
        count = room // stride + 1
        if attrs[4] and room % stride and count * stride < size + pads[0]:
            count += 1
        held = elements(size, kernel, stride, pads[0], dilation, count)
        x = TensorType("float32", (1, 1, size))
        if min(held):
            kept += 1
            assert operator(name).infer(attrs, (x,)) == TensorType("float32", (1, 1, count)), attrs
            assert np.isfinite(operator(name).evaluate(attrs, [np.ones((1, 1, size), np.float32)])).all()
        else:
            refused += 1
            with pytest.raises(IllTyped, match="padding only"):
                operator(name).infer(attrs, (x,))
    assert refused > 10
    assert kept > 100


@pytest.mark.parametrize("name", POOLS)
def test_symbolic_axes_are_taken_where_no_size_can_miss(name: str) -> None:
    x = TensorType("float32", (1, 1, symbol("N") + 1))
    assert operator(name).infer(attributes(name, 3, 1, (1, 1), 1, 0), (x,))
    assert operator(name).infer(attributes(name, 3, 1, (0, 2), 2, 0), (x,))
    with pytest.raises(IllTyped, match="padding only"):
        operator(name).infer(attributes(name, 3, 1, (1, 1), 2, 0), (x,))


@pytest.mark.parametrize("name", POOLS)
def test_cases_are_drawn_with_short_axes_too(name: str) -> None:
    rng = np.random.default_rng(0)
    params = [None] * len(operator(name).params)
    drawn = [s for _ in range(300) if (s := operator(name).complete(rng, params, [None])) is not None]
    assert {1, 2} <= {n for s in drawn for n in s.types[0].numbers()[2:]}
