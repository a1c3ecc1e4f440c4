"""Values to feed a model: seeded, of several kinds, at given sizes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Literal

import numpy as np
import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType, evaluate
from egraph_opt.ir.sizes import symbols as symbols_of
from egraph_opt.onnx_io.shapes import input_type
from egraph_opt.ops import numpy_dtype
from egraph_opt.runtime import Array
from egraph_opt.verification.interface import required_inputs

Kind = Literal["normal", "unit", "small", "wide", "zeros", "nonfinite"]
"""``normal``: standard normal numbers. ``unit``: from [0, 1), as images are; booleans true. ``small``: normal numbers
divided by ten, which saturate no softmax; booleans false. ``wide``: magnitudes over seven decades with both signs and
both zeros. ``zeros``: 0 and -0, integers 0, booleans false. ``nonfinite``: as normal, with infinities, NaN, the largest
and the smallest numbers strewn in. Integers and other booleans are random."""

_RANGES = {"float16": (-3.0, 1.5), "bfloat16": (-4.0, 3.0), "float32": (-4.0, 3.0), "float64": (-4.0, 3.0)}
_WORDS = np.array(["", "a", "Zoe", "egg 42"], object)


def input_types(model: onnx_ir.Model) -> dict[str, TensorType]:
    """The declared types of the inputs that must be fed, with symbolic sizes.

    A size without a name of its own is called ``<input>:<axis>``.

    Raises:
        UsageError: an input is no tensor of known rank; nobody but the user knows what to feed it.
    """
    types = known_types(model)
    for value in required_inputs(model):
        if value.name not in types:
            raise UsageError(f"input {value.name!r} {_unknown(value)}")
    return types


def known_types(model: onnx_ir.Model) -> dict[str, TensorType]:
    """``input_types`` of those inputs that are tensors of known rank."""
    types = {str(value.name): input_type(value) for value in required_inputs(model)}
    return {name: type_ for name, type_ in types.items() if isinstance(type_, TensorType)}


def _unknown(value: onnx_ir.Value) -> str:
    if value.type is None or isinstance(value.type, onnx_ir.TensorType):
        return f"has no shape: give one with --shape {value.name}:1,3,224,224, or inputs with --verify-inputs"
    kind = {onnx_ir.SequenceType: "a sequence", onnx_ir.OptionalType: "an optional value"}.get(type(value.type))
    return f"is {kind or 'no tensor'}, for which no values are made up: nothing can be compared"


def check_feeds(model: onnx_ir.Model, feeds: Mapping[str, Array]) -> None:
    """Says that inputs of the user's own do not fit the model, which would not run on them.

    Raises:
        UsageError: there is no such input, one is missing, or one has another type, rank or fixed size.
    """
    known, needed = {str(value.name): value for value in model.graph.inputs}, required_inputs(model)
    for name in feeds:
        if name not in known:
            raise UsageError(f"--verify-inputs {name}: the inputs of the model are {', '.join(known) or 'none'}")
    if missing := [str(value.name) for value in needed if value.name not in feeds]:
        raise UsageError(f"--verify-inputs lacks {', '.join(missing)}: give all inputs without a default")
    for name, array in feeds.items():
        type_ = input_type(known[name])
        if isinstance(type_, TensorType):
            if not _has_type(array, type_.dtype):
                raise UsageError(
                    f"--verify-inputs {name} is {array.dtype}, but the model takes {type_.dtype}: convert it"
                )
            fits = len(array.shape) == type_.rank and all(
                size == number for size, number in zip(type_.shape, array.shape, strict=True) if isinstance(size, int)
            )
            if not fits:
                raise UsageError(f"--verify-inputs {name} has the shape {array.shape}, but the model takes {type_}")


def _has_type(array: Array, dtype: str) -> bool:
    return array.dtype.kind in "OUST" if dtype == "string" else array.dtype == numpy_dtype(dtype)


def symbols(model: onnx_ir.Model) -> list[str]:
    """Names of the symbolic sizes of the inputs, in order of appearance."""
    shapes = [size for type_ in known_types(model).values() for size in type_.shape]
    return list(dict.fromkeys(name for size in shapes for name in sorted(symbols_of(size))))


def leading_symbols(model: onnx_ir.Model) -> set[str]:
    """Sizes of first axes, which are batches as a rule; the only axis of a vector is not."""
    firsts = [type_.shape[0] for type_ in known_types(model).values() if type_.rank > 1]
    return {name for size in firsts for name in symbols_of(size)}


def input_elements(model: onnx_ir.Model, sizes: Mapping[str, int]) -> int:
    """Elements of all inputs together at these sizes, which name every symbol."""
    return sum(math.prod(evaluate(size, sizes) for size in t.shape) for t in input_types(model).values())


def random_feeds(
    model: onnx_ir.Model, sizes: Mapping[str, int], seed: int = 0, kind: Kind = "normal", *, integers: int = 2
) -> dict[str, Array]:
    """A value for every input without a default; the same for the same arguments, on every machine.

    Args:
        sizes: a number for every symbolic size (see ``symbols``); what else it holds is ignored.
        integers: integer inputs are drawn from [0, integers), 8-bit ones from their whole range if this is over 2.

    Raises:
        UsageError: a size is missing or negative, or an input is no tensor of known rank.
    """
    feeds: dict[str, Array] = {}
    for name, type_ in input_types(model).items():
        try:
            shape = tuple(evaluate(size, sizes) for size in type_.shape)
        except KeyError as error:
            raise UsageError(f"input {name!r} has the shape {type_}: size {error.args[0]!r} is not given") from None
        if min(shape, default=0) < 0:
            raise UsageError(f"input {name!r} cannot have the shape {shape}")
        rng = np.random.default_rng([seed, zlib.crc32(f"{kind} {name}".encode())])
        feeds[name] = _values(rng, TensorType(type_.dtype, shape), kind, integers)
    return feeds


def has_integers(model: onnx_ir.Model) -> bool:
    """Whether the range of integers matters to what is fed."""
    return any(np.issubdtype(numpy_dtype(t.dtype), np.integer) for t in input_types(model).values())


def _values(rng: np.random.Generator, type_: TensorType, kind: Kind, integers: int) -> Array:
    shape, dtype = type_.numbers(), numpy_dtype(type_.dtype)
    if type_.dtype == "bool":
        threshold = {"unit": 1.0, "small": 0.0, "zeros": 0.0}.get(kind, 0.5)
        return np.asarray(rng.random(shape) < threshold)
    if type_.dtype == "string":
        return rng.choice(_WORDS, shape)
    if np.issubdtype(dtype, np.integer):
        if kind == "zeros":
            return np.zeros(shape, dtype)
        low, high = _integer_range(dtype, integers)
        return rng.integers(low, high, shape).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(_floats(rng, shape, kind, type_.dtype)).astype(dtype)


def _integer_range(dtype: np.dtype[np.generic], integers: int) -> tuple[int, int]:
    if dtype.itemsize == 1 and integers > 2:
        return (0, 256) if dtype.kind == "u" else (-128, 128)
    return 0, integers


def _floats(rng: np.random.Generator, shape: tuple[int, ...], kind: Kind, dtype: str) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    if kind == "zeros":
        return np.resize(np.array([0.0, -0.0]), count).reshape(shape)
    if kind == "unit":
        return rng.random(shape)
    values = rng.standard_normal(count)
    if kind == "small":
        values /= 10
    elif kind == "wide":
        low, high = _RANGES.get(dtype, (-1.0, 1.0))
        values = np.sign(values) * 10.0 ** rng.uniform(low, high, count)
        values[rng.random(count) < 0.05] = 0.0
        values[rng.random(count) < 0.05] = -0.0
    elif kind == "nonfinite":
        largest = {"float16": 65504.0, "float64": 1.7e308}.get(dtype, 3.3e38)
        special = np.array([np.inf, -np.inf, np.nan, largest, -largest, 0.0, -0.0, 1e-7])
        chosen = rng.random(count) < 0.1
        chosen[: min(count, 1)] = True
        values[chosen] = rng.choice(special, int(chosen.sum()))
    return values.reshape(shape)
