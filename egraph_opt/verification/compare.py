"""Whether two arrays are the same output, under a tolerance that the original itself sets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from egraph_opt.runtime import Array

Numerics = Literal["exact", "standard", "fast"]

SPREAD_FACTOR = 4.0
"""The candidate may be this many times as far off as ONNX Runtime's own optimizations are."""

_RELATIVE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}
_FAST = 20.0  # TF32 keeps 10 bits
_SMALL_CASE = 1e-3  # share of the tolerance at the output's usual scale that holds on inputs where it almost vanishes


@dataclass(frozen=True)
class Reference:
    """What is expected of one output on one input.

    Attributes:
        value: from the original without optimizations.
        tolerance: largest absolute difference that counts as equal; for integers, the share of elements that may
            differ.
        settled: elements on which ONNX Runtime's lowest and highest level agree whether they are finite.
        alike: elements on which they also agree whether they are NaN, and on the sign of an infinity.
    """

    value: Array
    tolerance: float
    settled: Array
    alike: Array


@dataclass(frozen=True, slots=True)
class Comparison:
    """``error`` is the largest absolute difference (of what is not a float, the share of elements that differ);
    ``fault`` says what is wrong, empty if nothing is."""

    error: float
    fault: str


def reference(
    low: Array, high: Array | None, usual_scale: float, numerics: Numerics, computed_in: Collection[str] = ()
) -> Reference:
    """Calibrates one output from the original's two runs; ``high`` is ``None`` where the optimized one failed.

    Args:
        usual_scale: the largest finite magnitude of this output over all inputs.
        computed_in: the floats of the values that it was computed from, where they are others than its own.
    """
    comparable = high is not None and high.shape == low.shape and high.dtype == low.dtype
    other = high if high is not None and comparable else low
    if not _inexact(low):
        differing = _share_different(low, other)
        return Reference(low, SPREAD_FACTOR * differing, np.ones(low.shape, bool), np.ones(low.shape, bool))
    finite, other_finite = np.isfinite(low), np.isfinite(other)
    spread = _largest_difference(low, other, finite & other_finite)
    floor = rounding(low, numerics, computed_in) * max(scale(low), _SMALL_CASE * usual_scale)
    return Reference(low, SPREAD_FACTOR * spread + floor, finite == other_finite, _kind(low) == _kind(other))


def rounding(like: Array, numerics: Numerics, computed_in: Collection[str] = ()) -> float:
    """Relative difference that is rounding in the dtype of ``like``, or in a coarser one that it was computed in; 0 for
    what is no float."""
    if not _inexact(like):
        return 0.0
    coarsest = max(_RELATIVE.get(name, 0.1) for name in (like.dtype.name, *computed_in))
    return coarsest * (_FAST if numerics == "fast" else 1.0)


def compare(expected: Reference, got: Array, numerics: Numerics, *, bits: bool) -> Comparison:
    """Compares one output of the candidate.

    Args:
        bits: whether every bit must agree (any NaN equals any NaN); the tolerance then plays no part.
    """
    value = expected.value
    if got.dtype != value.dtype:
        return Comparison(np.inf, f"dtype {got.dtype} instead of {value.dtype}")
    if got.shape != value.shape:
        return Comparison(np.inf, f"shape {list(got.shape)} instead of {list(value.shape)}")
    if not _inexact(value):
        share = _share_different(value, got)
        return Comparison(share, f"{share:.2%} of the elements differ" if share > expected.tolerance else "")
    if bits:
        same = _same_bits(value, got)
        error = _largest_difference(value, got, np.isfinite(value) & np.isfinite(got))
        return Comparison(error, "" if same.all() else f"{_count(~same)} differ in their bits")
    return _within(expected, got, numerics)


def _within(expected: Reference, got: Array, numerics: Numerics) -> Comparison:
    value = expected.value
    finite, got_finite = np.isfinite(value), np.isfinite(got)
    error = _largest_difference(value, got, finite & got_finite)
    lost = expected.settled & finite & ~got_finite
    if lost.any():
        return Comparison(error, f"{_count(lost)} became infinite or NaN")
    gained = expected.settled & ~finite & got_finite
    if gained.any() and numerics != "fast":  # only rules of the level fast may drop an infinity or a NaN
        return Comparison(error, f"{_count(gained)} should be infinite or NaN")
    turned = expected.alike & ~finite & ~got_finite & (_kind(value) != _kind(got))
    if turned.any() and numerics != "fast":
        return Comparison(error, f"{_count(turned)} became another of NaN, inf and -inf")
    if error > expected.tolerance:
        return Comparison(error, f"off by {error:.3g}, more than {expected.tolerance:.3g}")
    return Comparison(error, "")


def scale(array: Array) -> float:
    """The largest finite magnitude; 0 where there is none."""
    if not _inexact(array) or array.size == 0:
        return 0.0
    magnitudes = np.abs(_wide(array))
    return float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))


def flatten(values: Sequence[object], names: Sequence[str]) -> list[tuple[str, Array]]:
    """Outputs as named arrays; elements of sequences and entries of maps become outputs of their own."""
    flat: list[tuple[str, Array]] = []
    for name, value in zip(names, values, strict=True):
        if isinstance(value, list):
            flat += flatten(value, [f"{name}[{i}]" for i in range(len(value))])
        elif isinstance(value, dict):
            keys = sorted(value, key=repr)
            flat += flatten([value[k] for k in keys], [f"{name}[{k!r}]" for k in keys])
        else:
            flat.append((name, np.asarray(value)))
    return flat


def _inexact(array: Array) -> bool:
    return (
        np.issubdtype(array.dtype, np.inexact) or array.dtype.name in _RELATIVE or array.dtype.name.startswith("float")
    )


def _wide(array: Array) -> Array:
    return array if np.issubdtype(array.dtype, np.complexfloating) else array.astype(np.float64)


def _largest_difference(a: Array, b: Array, where: Array) -> float:
    if not where.any():
        return 0.0
    with np.errstate(all="ignore"):
        difference = np.abs(_wide(a) - _wide(b))
    return float(np.max(difference, where=where, initial=0.0))


def _kind(array: Array) -> Array:
    """0 for a number, 1 for NaN, 2 and 3 for the infinities."""
    negative = np.real(_wide(array)) < 0
    return np.where(np.isnan(array), 1, np.where(np.isfinite(array), 0, 2 + negative))


def _share_different(a: Array, b: Array) -> float:
    return float(np.mean(a != b)) if a.size else 0.0


def _same_bits(a: Array, b: Array) -> Array:
    """Elements with equal bits; NaNs are alike whatever their payload."""
    if np.issubdtype(a.dtype, np.complexfloating):
        return np.asarray(_same_bits(np.real(a), np.real(b)) & _same_bits(np.imag(a), np.imag(b)))
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    same = np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned)
    return np.asarray(same | (np.isnan(a) & np.isnan(b)))


def _count(mask: Array) -> str:
    return f"{int(mask.sum())} of {mask.size} elements"
