"""Products of few rows: which tilings there are, and that their kernel computes the product (without a GPU)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulator import COMPILER, run_thin

from egraph_opt.runtime.cuda import thin
from egraph_opt.runtime.cuda.steps import Product
from egraph_opt.runtime.cuda.views import View


def product(shape: tuple[int, int, int, int], dtype: str, result: str, *, more: bool = False) -> Product:
    """(batch, rows, inner, columns); the batch cuts the inner axis. ``more``: with bias, residual, scale and Relu."""
    batch, rows, inner, columns = shape
    a = View(0, dtype, (batch, rows, inner), (inner, batch * inner, 1))
    b = View(1, dtype, (batch, inner, columns), (inner, 1, batch * inner))
    d = View(2, result, (batch, rows, columns), (rows * columns, columns, 1))
    step = Product("product", (a, b), (d,), a, b, d)
    if not more:
        return step
    bias, c = View(3, result, (columns,), (1,)), replace(d, buffer=4)
    return replace(step, bias=bias, c=c, alpha=0.5, activation="Relu")


CASES = [
    ((1, 64, 256, 64), "float16", "float16", True),
    ((2, 20, 128, 96), "float16", "float32", False),
    ((1, 3, 128, 128), "float32", "float32", True),
    ((1, 49, 256, 32), "bfloat16", "bfloat16", False),
]


BOUNDS = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}


def problem(
    shape: tuple[int, int, int, int], dtype: str, result: str, *, more: bool
) -> tuple[Product, dict[str, np.ndarray], np.ndarray]:
    """A product, the memory of its operands and of its result, and what the result must be."""
    batch, rows, inner, columns = shape
    step, rng = product(shape, dtype, result, more=more), np.random.default_rng(0)
    a, b = rng.standard_normal((rows, batch * inner)), rng.standard_normal((columns, batch * inner))
    bias, c = rng.standard_normal(columns), rng.standard_normal((batch, rows, columns))
    arrays = {"a": _stored(a, dtype), "b": _stored(b, dtype), "d": np.full((batch, rows, columns), 7, _numpy(result))}
    left, right = (value_of(arrays[n], dtype).reshape(-1, batch, inner).swapaxes(0, 1) for n in "ab")
    wanted = left @ right.swapaxes(1, 2)
    if more:
        arrays |= {"bias": _stored(bias, result), "c": _stored(c, result)}
        wanted = np.maximum(0.5 * wanted + value_of(arrays["bias"], result) + value_of(arrays["c"], result), 0)
    return step, arrays, wanted


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("shape", "dtype", "result", "more"), CASES)
def test_the_kernel_computes_the_product(
    shape: tuple[int, int, int, int], dtype: str, result: str, more: bool, tmp_path: Path
) -> None:
    step, arrays, wanted = problem(shape, dtype, result, more=more)
    ways = thin.tilings(step, True)
    assert ways
    for tiling in ways:
        arrays["d"][...] = 7
        run_thin(step, tiling, arrays, tmp_path)
        bound = BOUNDS[result] * np.abs(wanted).max()
        np.testing.assert_allclose(value_of(arrays["d"], result), wanted, rtol=0, atol=bound)


def test_products_that_do_not_fit_have_no_tiling() -> None:
    good = product((1, 64, 128, 64), "float16", "float16")
    assert thin.tilings(good, False)
    assert not thin.tilings(product((1, 65, 128, 64), "float16", "float16"), False)  # more rows than a block holds
    assert not thin.tilings(product((1, 64, 128, 64), "float32", "float32"), False)  # exact arithmetic
    assert not thin.tilings(product((1, 64, 128, 60), "float16", "float16"), False)  # no whole tiles
    assert not thin.tilings(replace(good, a=replace(good.a, offset=1)), False)  # rows between vector boundaries
    assert not thin.tilings(replace(good, b=replace(good.b, strides=(0, 64, 1))), False)  # columns fastest


def _numpy(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


def _stored(value: np.ndarray, dtype: str) -> np.ndarray:
    """``value`` as it lies in memory; bfloat16 are the upper halves of float32."""
    if dtype != "bfloat16":
        return value.astype(dtype)
    return (value.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def value_of(stored: np.ndarray, dtype: str) -> np.ndarray:
    """What lies in memory, as numbers."""
    if dtype == "bfloat16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)
