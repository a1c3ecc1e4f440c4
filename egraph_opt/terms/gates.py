"""The gates that a rule passes before it may load: its two sides have one type and one value, wherever its conditions
hold.

Values are compared modulo a prime where the rule is made of additions, multiplications, data movement and functions
that may be any function (two polynomials of degree d that differ agree on random residues with probability at most
d/p per element, by Schwartz and Zippel), and in float64 always. The declared float class is held against what happens
to float32 bits, to large magnitudes, and to infinities and NaNs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import FLOATS, AttrValue, TensorType
from egraph_opt.ops import IllTyped, numpy_dtype, operator
from egraph_opt.terms.equation import FLOAT_CLASSES, Equation, FloatClass
from egraph_opt.terms.expressions import Undefined
from egraph_opt.terms.pattern import App, Number, Pattern, Var, walk
from egraph_opt.terms.sampling import Case, attribute_values, draw, right_type

Array = NDArray[Any]
Value = Array | tuple[Array, ...]
Apply = Callable[[str, tuple[AttrValue, ...], list[Value]], Value]

PRIME = 1_048_573
"""Largest prime below 2**20: products of residues and sums of thousands of them fit an int64."""
TOLERANCE = 1e-7
"""Largest difference of float64 results, relative to the scale of the values, that is taken for rounding."""


@dataclass(frozen=True)
class Verdict:
    """What the gates found.

    Attributes:
        cases: distinct shapes and attributes that were evaluated.
        ring: whether values were compared exactly, modulo a prime, as well.
        float_class: the least class that covers what was observed.
        error: largest float32 difference seen, relative to the scale of the result.
        reason: why the rule is refused, with the shapes that show it; empty for a rule that passed.
    """

    rule: str
    passed: bool
    cases: int
    ring: bool
    float_class: FloatClass
    error: float
    reason: str = ""


class _Refused(Exception):  # noqa: N818 - an answer, not a failure
    """A counterexample."""


def check_equation(rule: Equation, *, seed: int = 0, cases: int = 40) -> Verdict:
    """Gates (b) and (c) of a rule: values and types on ``cases`` random cases. Deterministic for a seed."""
    rng = np.random.default_rng([seed, *rule.name.encode()])
    ring = _ring_applies(rule)
    worst, error, seen = 0, 0.0, set[str]()
    try:
        for number in range(cases):
            case = draw(rule, rng)
            if case is None:
                raise _Refused("no shapes were found that fit its left side and conditions")
            seen.add(str(case))
            _check_types(rule, case)
            if ring:
                _check_ring(rule, case, rng)
            _check_float64(rule, case, rng, positive=number % 2 == 1)
            observed, seen_error = _observe(rule, case, rng)
            worst, error = max(worst, FLOAT_CLASSES.index(observed)), max(error, seen_error)
            if worst > FLOAT_CLASSES.index(rule.float_class):
                raise _Refused(f"its float class is {rule.float_class}, but it behaves as {observed} for {case}")
    except _Refused as refused:
        return Verdict(rule.name, False, len(seen), ring, FLOAT_CLASSES[worst], error, str(refused))
    return Verdict(rule.name, True, len(seen), ring, FLOAT_CLASSES[worst], error)


def holds(rule: Equation, case: Case, rng: np.random.Generator) -> bool:
    """Whether both sides of an equation have one type and one value in a case of its left side."""
    try:
        _check_types(rule, case)
        if _ring_applies(rule):
            _check_ring(rule, case, rng)
        for positive in (False, True):
            _check_float64(rule, case, rng, positive=positive)
    except _Refused:
        return False
    return True


def _check_types(rule: Equation, case: Case) -> None:
    for index, pattern in enumerate(rule.rhs):
        try:
            found = right_type(pattern, rule, case)
        except (IllTyped, Undefined) as error:
            raise _Refused(f"its right side is ill-typed for {case}: {error}") from None
        if found != case.roots[index]:
            raise _Refused(f"its right side is {found} instead of {case.roots[index]} for {case}")


def _ring_applies(rule: Equation) -> bool:
    parts = [p for side in (rule.lhs, rule.rhs) for q in side for p in walk(q)]
    numbers = [p.value for p in parts if isinstance(p, Number)]
    operators = [operator(p.op) for p in parts if isinstance(p, App)]
    return not rule.by_definition and all(o.ring != "no" for o in operators) and all(n.is_integer() for n in numbers)


def _check_ring(rule: Equation, case: Case, rng: np.random.Generator) -> None:
    inputs = {n: rng.integers(0, PRIME, t.numbers(), dtype=np.int64) for n, t in case.tensors.items()}
    for index, (left, right) in enumerate(zip(*_sides(rule, case, inputs, apply_ring, np.int64), strict=True)):
        if not all(np.array_equal(a, b) for a, b in zip(_parts(left), _parts(right), strict=True)):
            raise _Refused(f"root {index} differs (modulo {PRIME}) for {case}")


def _check_float64(rule: Equation, case: Case, rng: np.random.Generator, *, positive: bool) -> None:
    inputs = {n: _random(t, rng) for n, t in case.tensors.items()}
    if positive:
        inputs = {n: np.abs(a) + 0.1 if a.dtype.kind == "f" else a for n, a in inputs.items()}
    for index, (left, right) in enumerate(zip(*_sides(rule, case, inputs, _apply, np.float64), strict=True)):
        for a, b in zip(_parts(left), _parts(right), strict=True):
            if _difference(a, b) > TOLERANCE:
                raise _Refused(f"root {index} differs by {_difference(a, b):.2g} in float64 for {case}")


def _observe(rule: Equation, case: Case, rng: np.random.Generator) -> tuple[FloatClass, float]:
    """The float class of what happens to float32 values in this case, and the largest ordinary error."""
    plain = {n: _random(t, rng) for n, t in case.tensors.items()}
    plain = {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in plain.items()}
    left, right = _flat(rule, case, plain)
    error = _difference(left, right)
    observed: FloatClass = "exact" if _same_bits(left, right) else "reassociate"
    for name in plain:
        if not plain[name].size or plain[name].dtype.kind != "f":
            continue
        for scale in (1e25, 1e-25):
            factors = {n: scale if n == name else 1 / scale for n in plain}
            scaled = {n: a * np.float32(factors[n]) if a.dtype == np.float32 else a for n, a in plain.items()}
            left, right = _flat(rule, case, scaled)
            if bool(np.any(np.isfinite(left) & ~np.isfinite(right))):
                observed = _worse(observed, "overflow-risk")
        for special in (np.inf, -np.inf, np.nan, -0.0):
            changed = {n: a.copy() for n, a in plain.items()}
            changed[name].reshape(-1)[int(rng.integers(plain[name].size))] = special
            left, right = _flat(rule, case, changed)
            if not _same_bits(left, right):
                observed = _worse(observed, "reassociate")
            if bool(np.any(np.isfinite(left) & ~np.isfinite(right))):
                observed = _worse(observed, "spreads-nonfinite")
            if bool(np.any(~np.isfinite(left) & np.isfinite(right))):
                observed = _worse(observed, "drops-nonfinite")
    return observed, error


def _worse(a: FloatClass, b: FloatClass) -> FloatClass:
    return FLOAT_CLASSES[max(FLOAT_CLASSES.index(a), FLOAT_CLASSES.index(b))]


def _random(type_: TensorType, rng: np.random.Generator) -> Array:
    """Normally distributed for floats, small and signed for integers, both values for booleans."""
    if type_.dtype in FLOATS:
        return rng.normal(size=type_.numbers()).astype(numpy_dtype(type_.dtype))
    return rng.integers(-4, 5, type_.numbers()).astype(type_.dtype)


def _flat(rule: Equation, case: Case, inputs: dict[str, Array]) -> tuple[Array, Array]:
    sides = _sides(rule, case, inputs, _apply, np.float32)
    left, right = ([np.asarray(p, np.float64).reshape(-1) for v in side for p in _parts(v)] for side in sides)
    return np.concatenate(left), np.concatenate(right)


def _same_bits(a: Array, b: Array) -> bool:
    return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))))


def _difference(a: Array, b: Array) -> float:
    """Largest difference relative to the scale of a; infinities and NaNs must coincide."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return float("inf")
    scale = max(1.0, float(np.max(np.abs(a[finite]), initial=0.0)))
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale


def _sides(
    rule: Equation, case: Case, inputs: dict[str, Array], apply: Apply, dtype: type[np.generic]
) -> tuple[list[Value], list[Value]]:
    with np.errstate(all="ignore"):
        left = [_evaluate(p, case, inputs, apply, dtype) for p in rule.lhs]
        right = [_evaluate(p, case, inputs, apply, dtype) for p in rule.rhs]
    return left, right


def _evaluate(pattern: Pattern, case: Case, inputs: dict[str, Array], apply: Apply, dtype: type[np.generic]) -> Value:
    match pattern:
        case Var(name):
            return inputs[name]
        case Number(value):
            type_ = case.numbers.get(id(pattern))
            return np.full(type_.numbers() if type_ else (), value, dtype)
        case App(op, attrs, operands):
            values = [_evaluate(o, case, inputs, apply, dtype) for o in operands]
            if op == "Fill":  # its dtype is the model's; here it is the dtype of the check
                shape, value, _ = attribute_values(attrs, case)
                return np.full(shape, value, dtype)  # type: ignore[arg-type]
            return apply(op, attribute_values(attrs, case), values)


def _apply(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    return operator(op).evaluate(attrs, operands)  # type: ignore[arg-type]


def apply_ring(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    if operator(op).ring == "oracle":
        return _oracle(f"{op}{attrs!r}", np.asarray(operands[0]))
    result = _apply(op, attrs, operands)
    return tuple(p % PRIME for p in result) if isinstance(result, tuple) else result % PRIME  # type: ignore[operator]


def _oracle(name: str, x: Array) -> Array:
    """Some fixed function of each element, different for each ``name``: a random polynomial of degree 5."""
    coefficients = np.random.default_rng(list(name.encode())).integers(1, PRIME, 6)
    result = np.zeros_like(x)
    for coefficient in coefficients:
        result = (result * x + coefficient) % PRIME  # type: ignore[operator]
    return result


def _parts(value: Value) -> tuple[Array, ...]:
    return value if isinstance(value, tuple) else (value,)
