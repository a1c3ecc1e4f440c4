"""The closed grammar of conditions and computed attributes, and its only evaluator.

Expressions are Python's: comparisons, ``and``/``or``/``not``, ``in``, integer arithmetic, tuples, indexing, and calls
of the functions below; names are the rule's tensors (which stand for their types) and attributes. Nothing else
parses, so a rule from a file can do no more than compute. The same evaluator serves the e-graph and the gates.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from types import CodeType

from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, Size, TensorType, floordiv, product
from egraph_opt.ops import IllTyped
from egraph_opt.ops.base import broadcast

Environment = Mapping[str, AttrValue | TensorType]

_ALLOWED = (
    ast.Expression, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.Tuple,
    ast.Subscript, ast.Slice, ast.IfExp, ast.And, ast.Or, ast.Not, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv,
    ast.Mod, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Load,
)  # fmt: skip


class ExpressionError(ValueError):
    """The text is outside the grammar."""


class Undefined(Exception):  # noqa: N818 - it is a state of affairs that callers ask about, not a failure
    """The expression has no value here, so the rule does not apply."""


@cache
def compile_expression(text: str) -> tuple[CodeType, frozenset[str]]:
    """Code of an expression and the names it reads.

    Raises:
        ExpressionError: it is outside the grammar; the message names the part.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"{text!r}: {error.msg}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ExpressionError(f"{text!r}: {type(node).__name__} is not part of the grammar of conditions")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise ExpressionError(f"{text!r}: {ast.unparse(node.func)} is not a known function")
        if isinstance(node, ast.Name) and node.id not in FUNCTIONS:
            names.add(node.id)
    return compile(tree, "<rule>", "eval"), frozenset(names)


def names_in(text: str) -> frozenset[str]:
    """The tensors and attributes that an expression reads."""
    return compile_expression(text)[1]


def evaluate(text: str, environment: Environment) -> AttrValue:
    """The value of an expression.

    Raises:
        Undefined: it has none for these types and attributes (an axis that is not there, say).
    """
    code, _ = compile_expression(text)
    try:
        return eval(code, _GLOBALS, environment)  # noqa: S307 - the grammar is closed, and stores nothing
    except (
        IllTyped,
        NameError,
        Undefined,
        IndexError,
        TypeError,
        ValueError,
        ZeroDivisionError,
        KeyError,
        AttributeError,
    ) as error:
        raise Undefined(f"{text}: {error}") from None


# --- the functions; each takes types (of tensors), sizes and tuples, and gives a size, a tuple or a truth value


def _size(x: TensorType, axis: int) -> Size:
    return x.shape[axis]


def _require(condition: object, value: AttrValue) -> AttrValue:
    if not condition:
        raise Undefined("a condition of a computed attribute does not hold")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int)


def _compose(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of ``Transpose(Transpose(x, first), second)``."""
    return tuple(first[axis] for axis in second)


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _pad_rank(x: TensorType, rank: int) -> tuple[Size, ...]:
    if x.rank > rank:
        raise Undefined("the rank is larger already")
    return (1,) * (rank - x.rank) + x.shape


def _along(s: TensorType, y: TensorType, axis: int) -> tuple[Size, ...]:
    """The shape of ``s`` where it broadcasts against ``y`` and varies along ``axis`` alone: (1,) or (n,)."""
    shape = _pad_rank(s, y.rank)
    axis %= y.rank
    if any(n != 1 for i, n in enumerate(shape) if i != axis) or shape[axis] not in (1, y.shape[axis]):
        raise Undefined("the operand varies along another axis")
    return (shape[axis],)


def _column(sizes: tuple[Size, ...], rank: int) -> tuple[Size, ...]:
    """``sizes`` followed by 1s up to ``rank``."""
    return sizes + (1,) * (rank - len(sizes))


def _per_group(s: TensorType, x: TensorType, group: int) -> tuple[Size, ...]:
    """``s``, which varies along axis 1 of x alone, shaped to scale weights (group, M/group, C/group, *kernel)."""
    (size,) = _along(s, x, 1)
    if size == 1:
        return (1,) * (x.rank + 1)
    return (group, 1, floordiv(size, group)) + (1,) * (x.rank - 2)


def _fits(s: TensorType, x: TensorType) -> bool:
    """Whether combining ``s`` with x element-wise leaves the shape of x as it is."""
    return s.rank <= x.rank and all(n in (1, m) for n, m in zip(_pad_rank(s, x.rank), x.shape, strict=True))


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(perm.index(axis) for axis in range(len(perm)))


def _whole_axes(shape: tuple[Size, ...], split: tuple[Size, ...], perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of the axes of ``shape``, where ``split`` spells each of them out in consecutive axes, and
    ``perm`` moves those of one axis together and in their order."""
    groups: list[tuple[int, ...]] = []
    end = 0
    for size in shape:
        start, end = end, end + 1
        while product(split[start:end]) != size:
            if end >= len(split):
                raise Undefined("an axis is not spelled out by axes of its own")
            end += 1
        groups.append(tuple(range(start, end)))
    if any(size != 1 for size in split[end:]):
        raise Undefined("an axis is not spelled out by axes of its own")
    groups[-1] += tuple(range(end, len(split)))
    places = {axis: place for place, axis in enumerate(perm)}
    if any(places[b] != places[a] + 1 for group in groups for a, b in pairwise(group)):
        raise Undefined("the axes of one axis are moved apart")
    return tuple(sorted(range(len(groups)), key=lambda axis: places[groups[axis][0]]))


def _lowest(*bounds: float | None) -> float | None:
    """The lowest of some upper bounds, ``None`` being none."""
    return min((b for b in bounds if b is not None), default=None)


def _highest(*bounds: float | None) -> float | None:
    """The highest of some lower bounds, ``None`` being none."""
    return max((b for b in bounds if b is not None), default=None)


def _moves_only_ones(shape: tuple[Size, ...], perm: tuple[int, ...]) -> bool:
    """Whether the axes that are not 1 keep their order, so that no element moves in memory."""
    kept = [axis for axis in perm if shape[axis] != 1]
    return kept == sorted(kept)


@lru_cache(maxsize=64)  # its parts are asked for one after the other
def _sliced(*attributes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Axes, starts, ends and steps of a slice of a slice, both with positive steps and numbers as bounds."""
    first, second = (dict(zip(a[0], zip(*a[1:], strict=True), strict=True)) for a in (attributes[:4], attributes[4:]))
    rows: list[tuple[int, int, int, int]] = []
    for axis in sorted({*first, *second}):
        rows.append((axis, *_slice_twice(first.get(axis), second.get(axis))))
    return tuple(zip(*rows, strict=True))


def _slice_twice(first: tuple[int, ...] | None, second: tuple[int, ...] | None) -> tuple[int, int, int]:
    if first is None or second is None:
        start, end, step = first or second or (0, 0, 1)
        return start, end, step
    (start, end, step), (again, last, stride) = first, second
    if step < 1 or stride < 1 or not all(isinstance(v, int) for v in (*first, *second)):
        raise Undefined("a slice with a negative step or a bound that is not a number")
    count = max(-(-(last - again) // stride), 0)
    if not count:
        return 0, 0, 1
    begin = start + again * step
    return begin, begin + (count - 1) * step * stride + 1, step * stride if count > 1 else 1


def _spatial(pads: tuple[int, ...]) -> tuple[int, ...]:
    """Pads of a convolution from those of a ``Pad`` that leaves the first two axes alone."""
    rank = len(pads) // 2
    if any(pads[i] for i in (0, 1, rank, rank + 1)):
        raise Undefined("batch and channels are padded too")
    return pads[2:rank] + pads[rank + 2 :]


def _broadcast(*tensors: TensorType) -> tuple[Size, ...]:
    """The shape of an element-wise combination of the tensors."""
    return broadcast([x.shape for x in tensors])


FUNCTIONS: dict[str, Callable[..., AttrValue] | frozenset[str]] = {
    "size": _size,
    "rank": lambda x: x.rank,
    "shape": lambda x: x.shape,
    "dtype": lambda x: x.dtype,
    "elements": lambda x: product(x.shape),
    "static": lambda x: x.is_static,
    "number": _is_number,
    "product": lambda sizes: product(sizes),
    "length": len,
    "require": _require,
    "compose": _compose,
    "sorted": lambda values: tuple(sorted(values)),
    "sum": sum,
    "min": min,
    "max": max,
    "tuple": tuple,
    "range": lambda *bounds: tuple(range(*bounds)),
    "swaps_last_two": _swaps_last_two,
    "pad_rank": _pad_rank,
    "along": _along,
    "per_group": _per_group,
    "fits": _fits,
    "broadcast": _broadcast,
    "inverse": _inverse,
    "moves_only_ones": _moves_only_ones,
    "whole_axes": _whole_axes,
    "lowest": _lowest,
    "highest": _highest,
    "sliced": _sliced,
    "column": _column,
    "spatial": _spatial,
    "plus": lambda s, t: tuple(a + b for a, b in zip(s, t, strict=True)),
    "minus": lambda s, t: tuple(a - b for a, b in zip(s, t, strict=True)),
    "times": lambda s, t: tuple(a * b for a, b in zip(s, t, strict=True)),
    "reciprocal": lambda n: 1.0 / n,
    "float": float,
    "FLOATS": FLOATS,
    "NUMERIC": NUMERIC,
}
_GLOBALS: dict[str, object] = {"__builtins__": {}, **FUNCTIONS}
