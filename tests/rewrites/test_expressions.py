"""Functions of the condition grammar against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from egraph_opt.ir import TensorType, symbol
from egraph_opt.terms.expressions import Undefined, evaluate

N = symbol("N")


def _whole_axes(shape: tuple[object, ...], split: tuple[object, ...], perm: tuple[int, ...]) -> tuple[int, ...]:
    environment = {"x": TensorType("float32", shape), "s": split, "p": perm}  # type: ignore[arg-type]
    return evaluate("whole_axes(shape(x), s, p)", environment)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("shape", "split"),
    [
        ((6, 4), (2, 3, 4)),
        ((6, 4), (2, 3, 2, 2)),
        ((6, 1, 4), (3, 2, 1, 4)),
        ((2, 3), (2, 3, 1)),
        ((2, 3), (1, 2, 3)),
        ((4, 2, 3), (2, 2, 2, 3)),
        ((5,), (5,)),
    ],
)
def test_where_axes_move_whole_the_transpose_is_one_of_those_axes(
    shape: tuple[int, ...], split: tuple[int, ...]
) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    defined = 0
    for perm in itertools.permutations(range(len(split))):
        wanted = x.reshape(split).transpose(perm)
        try:
            found = _whole_axes(shape, split, perm)
        except Undefined:
            continue
        defined += 1
        assert np.array_equal(x.transpose(found).reshape(wanted.shape), wanted)
    assert defined >= 1


def test_axes_that_are_torn_apart_have_no_permutation() -> None:
    with pytest.raises(Undefined):
        _whole_axes((6, 4), (2, 3, 4), (0, 2, 1))
    with pytest.raises(Undefined):
        _whole_axes((6, 4), (3, 2, 4), (1, 0, 2))
    with pytest.raises(Undefined):
        _whole_axes((6, 4), (4, 6), (1, 0))


def test_symbolic_axes_move_as_well() -> None:
    assert _whole_axes((N, 6), (N, 2, 3), (1, 2, 0)) == (1, 0)
    with pytest.raises(Undefined):
        _whole_axes((N, 6), (2, N, 3), (1, 2, 0))


BOUNDS = (None, -2.0, -0.5, 0.0, 1.0, 3.0)


@pytest.mark.parametrize(("p", "q"), list(itertools.product(BOUNDS, repeat=2)))
def test_bounds_of_bounds(p: float | None, q: float | None) -> None:
    x = np.linspace(-4, 4, 33)
    for r, s in itertools.product(BOUNDS, repeat=2):
        text = "s if q == None else lowest(q if r == None else max(q, r), s)"
        low = evaluate("highest(p, r)", {"p": p, "r": r})
        high = evaluate(text, {"q": q, "r": r, "s": s})
        assert np.array_equal(_clip(_clip(x, p, q), r, s), _clip(x, low, high))  # type: ignore[arg-type]


def _clip(x: np.ndarray, low: float | None, high: float | None) -> np.ndarray:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)
