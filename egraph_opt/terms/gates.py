"""The gates that a rule passes before it may load: its two sides have one type and one value, wherever its conditions
hold.

Values are compared modulo a prime where the rule is made of additions, multiplications, data movement and functions
that may be any function (two polynomials of degree d that differ agree on random residues with probability at most
d/p per element, by Schwartz and Zippel), and in float64 always. The declared float class is held against what happens
to float32 bits, to large magnitudes, and to infinities and NaNs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, TensorType
from egraph_opt.ops import IllTyped, numpy_dtype, operator
from egraph_opt.terms.equation import FLOAT_CLASSES, Equation, FloatClass
from egraph_opt.terms.expressions import Undefined
from egraph_opt.terms.pattern import App, Number, walk
from egraph_opt.terms.program import Apply, Array, Bound, OutOfRange, Program, Value
from egraph_opt.terms.sampling import Case, Sampler

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
    sampler, gate = Sampler(rule), Gate(rule)
    least = least_class(rule)
    worst, error, seen = FLOAT_CLASSES.index(least), 0.0, set[str]()
    try:
        if worst > FLOAT_CLASSES.index(rule.float_class):
            raise _Refused(f"its float class is {rule.float_class}, but not all it computes is on the left: {least}")
        for number in range(cases):
            case = sampler.draw(rng)
            if case is None:
                raise _Refused("no shapes were found that fit its left side and conditions")
            seen.add(str(case))
            bound = gate.typed(case)
            if gate.ring:
                gate.check_ring(bound, rng)
            gate.check_float64(bound, rng, positive=number % 2 == 1)
            gate.check_unread(bound, rng)
            observed, seen_error = gate.observe(bound, rng, FLOAT_CLASSES[worst])
            worst, error = FLOAT_CLASSES.index(observed), max(error, seen_error)
            if worst > FLOAT_CLASSES.index(rule.float_class):
                raise _Refused(f"its float class is {rule.float_class}, but it behaves as {observed} for {case}")
    except _Refused as refused:
        return Verdict(rule.name, False, len(seen), gate.ring, FLOAT_CLASSES[worst], error, str(refused))
    return Verdict(rule.name, True, len(seen), gate.ring, FLOAT_CLASSES[worst], error)


def holds(rule: Equation, *, seed: int = 0, cases: int = 40) -> bool:
    """Whether both sides have one type and one value on ``cases`` random cases: the gates without what happens to
    float32 values, which takes most of their time and tells no more than the float class."""
    rng = np.random.default_rng([seed, *rule.name.encode()])
    sampler, gate = Sampler(rule), Gate(rule)
    drawn = (sampler.draw(rng) for _ in range(cases))
    return all(case is not None and gate.holds(case, rng) for case in drawn)


_SUMS = frozenset(
    {"MatMul", "Conv", "FusedConv", "ConvTranspose", "Gemm", "AveragePool", "GlobalAveragePool"}
    | {"ReduceSum", "ReduceMean", "ReduceProd", "Softmax", "LogSoftmax", "Attention"}
)
"""Operators that add or multiply up many elements, in an order that is the runtime's and depends on the operands."""


_UNSTEADY = frozenset({"Max", "Min", "MaxPool", "Softplus", "Log"})
"""Operators whose last bits, or whose sign of a zero or NaN, depend in runtimes on where an element lies: whole vectors
go through other instructions than what is left over at the end."""


def least_class(rule: Equation) -> FloatClass:
    """``reassociate`` where the right side sums over operands that the left side does not sum over, or moves the
    elements of an operator that is unsteady: rounding may then differ on another machine, though it did not here."""
    left, right = (
        {
            (p.op in _UNSTEADY and p.op, *map(str, p.operands))
            for q in side
            for p in walk(q)
            if isinstance(p, App) and p.op in _SUMS | _UNSTEADY
        }
        for side in (rule.lhs, rule.rhs)
    )
    return "exact" if right <= left else "reassociate"


class Gate:
    """What is asked of a rule in one case after another.

    Attributes:
        ring: whether its values can be compared modulo a prime.
    """

    def __init__(self, rule: Equation) -> None:
        self.program = Program(rule)
        self.ring = _ring_applies(rule)
        self._few = np.random.default_rng(0)  # of its own: what it draws moves no other draw

    def holds(self, case: Case, rng: np.random.Generator) -> bool:
        """Whether both sides of the rule have one type and one value in a case of its left side."""
        try:
            bound = self.typed(case)
            if self.ring:
                self.check_ring(bound, rng)
            for positive in (False, True):
                self.check_float64(bound, rng, positive=positive)
            self.check_unread(bound, rng)
        except _Refused:
            return False
        return True

    def typed(self, case: Case) -> Bound:
        """The rule in a case in which the right side has the types of the left one; raises _Refused."""
        try:
            bound = self.program.bind(case)
            types = bound.types()
        except (IllTyped, Undefined) as error:
            raise _Refused(f"its right side is ill-typed for {case}: {error}") from None
        for place, wanted in zip(self.program.right, case.roots, strict=True):
            if types[place] != wanted:
                raise _Refused(f"its right side is {types[place]} instead of {wanted} for {case}")
        return bound

    def check_ring(self, bound: Bound, rng: np.random.Generator) -> None:
        """Refuses a rule whose sides differ modulo a prime."""
        limits = bound.case.limits
        inputs = {
            n: rng.integers(0, PRIME, t.numbers(), dtype=np.int64) if n not in limits else _within(limits[n], t, rng)
            for n, t in bound.case.tensors.items()
        }
        values = self._run(bound, inputs, apply_ring, np.int64)
        for index, (left, right) in enumerate(self._sides(values)):
            if not all(np.array_equal(a % PRIME, b % PRIME) for a, b in zip(parts(left), parts(right), strict=True)):
                raise _Refused(f"root {index} differs (modulo {PRIME}) for {bound.case}")

    def check_float64(self, bound: Bound, rng: np.random.Generator, *, positive: bool) -> None:
        """Refuses a rule whose sides differ by more than rounding."""
        inputs = _inputs(bound.case, rng)
        if positive:
            inputs = {n: np.abs(a) + 0.1 if a.dtype.kind == "f" else a for n, a in inputs.items()}
        values = self._run(bound, inputs, numeric, np.float64)
        for index, (left, right) in enumerate(self._sides(values)):
            for a, b in zip(parts(left), parts(right), strict=True):
                if _difference(a, b) > TOLERANCE:
                    raise _Refused(f"root {index} differs by {_difference(a, b):.2g} in float64 for {bound.case}")

    def check_unread(self, bound: Bound, rng: np.random.Generator) -> None:
        """Refuses a rule whose right side needs an index that the left side never looks at: that may lie anywhere."""
        inputs = _inputs(bound.case, rng) if bound.case.limits else {}
        for name, limits in bound.case.limits.items():
            changed = inputs[name].copy()
            if not changed.size:
                continue
            changed.reshape(-1)[int(rng.integers(changed.size))] = (
                limits[1] + 1 if rng.random() < 0.5 else limits[0] - 1
            )
            try:
                bound.run({**inputs, name: changed}, numeric, np.float64)
            except OutOfRange as found:
                if not found.left:
                    raise _Refused(
                        f"its right side needs indices that its left side does not look at for {bound.case}"
                    ) from None

    def observe(self, bound: Bound, rng: np.random.Generator, known: FloatClass = "exact") -> tuple[FloatClass, float]:
        """The float class of what happens to float32 values in this case, and the largest ordinary error.

        Args:
            known: the class that other cases have shown: what cannot show a worse one is not looked at.
        """
        plain = _inputs(bound.case, rng)
        plain = {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in plain.items()}
        values = self._run(bound, plain, numeric, np.float32)
        behaviour = _Behaviour(self._sides(values))
        error, observed = behaviour.error, known if behaviour.same_bits else _worse(known, "reassociate")
        if observed == "exact" and not self._keeps_zeros(bound, plain):
            observed = "reassociate"
        for name, array in plain.items():
            if not array.size or array.dtype.kind != "f":
                continue
            for scale in (1e25, 1e-25):
                if _worse(observed, "overflow-risk") == observed:
                    break
                factors = {n: scale if n == name else 1 / scale for n in plain}
                scaled = {n: a * np.float32(factors[n]) if a.dtype == np.float32 else a for n, a in plain.items()}
                if _Behaviour(self._sides(bound.run(scaled, numeric, np.float32))).spreads:
                    observed = "overflow-risk"
            for special in (np.inf, -np.inf, np.nan, -0.0):
                place = int(rng.integers(array.size))
                if observed == FLOAT_CLASSES[-1]:
                    continue
                changed = array.copy()
                changed.reshape(-1)[place] = special
                behaviour = _Behaviour(self._sides(bound.rerun(values, name, changed, numeric, np.float32)))
                observed = _worse(observed, behaviour.float_class)
        return observed, error

    def _keeps_zeros(self, bound: Bound, plain: dict[str, Array]) -> bool:
        """Whether the sides have the same bits on values among which many cancel: the signs of zeros may differ."""
        few = np.array([-1.0, -0.0, 0.0, 1.0], np.float32)
        drawn = {n: self._few.choice(few, a.shape) if a.dtype == np.float32 else a for n, a in plain.items()}
        return _Behaviour(self._sides(bound.run(drawn, numeric, np.float32))).same_bits

    def _run(self, bound: Bound, inputs: dict[str, Array], apply: Apply, dtype: type[np.generic]) -> list[Value]:
        """What ``bound.run`` gives; raises _Refused where an index lies outside of what it indexes."""
        try:
            return bound.run(inputs, apply, dtype)
        except OutOfRange as found:
            why = "its left side computes indices that lie outside" if found.left else "its right side reads outside"
            raise _Refused(f"{why} of a tensor for {bound.case}") from None

    def _sides(self, values: list[Value]) -> list[tuple[Value, Value]]:
        """The values of the roots, left and right."""
        return [(values[a], values[b]) for a, b in zip(self.program.left, self.program.right, strict=True)]


class _Behaviour:
    """How the float32 values of the two sides differ.

    Attributes:
        same_bits: they are the same, signs of zeros included; a NaN is like any other.
        error: the largest difference, relative to the scale of the left side.
        spreads: the right side is infinite or NaN where the left is not.
        drops: the left side is infinite or NaN where the right is not.
    """

    def __init__(self, sides: Sequence[tuple[Value, Value]]) -> None:
        self.same_bits, self.error, self.spreads, self.drops = True, 0.0, False, False
        pairs = [p for left, right in sides for p in zip(parts(left), parts(right), strict=True)]
        if all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs):
            return
        left, right = (np.concatenate([p.astype(np.float64).reshape(-1) for p in s]) for s in zip(*pairs, strict=True))
        self.same_bits, self.error = _same_bits(left, right), _difference(left, right)
        finite = np.isfinite(left), np.isfinite(right)
        self.spreads, self.drops = bool(np.any(finite[0] & ~finite[1])), bool(np.any(~finite[0] & finite[1]))

    @property
    def float_class(self) -> FloatClass:
        """The class of a rule that does this to special values."""
        if self.drops:
            return "drops-nonfinite"
        return "spreads-nonfinite" if self.spreads else "exact" if self.same_bits else "reassociate"


def _ring_applies(rule: Equation) -> bool:
    terms = [p for side in (rule.lhs, rule.rhs) for q in side for p in walk(q)]
    numbers = [p.value for p in terms if isinstance(p, Number)]
    operators = [operator(p.op) for p in terms if isinstance(p, App)]
    return not rule.by_definition and all(o.ring != "no" for o in operators) and all(n.is_integer() for n in numbers)


def _worse(a: FloatClass, b: FloatClass) -> FloatClass:
    return FLOAT_CLASSES[max(FLOAT_CLASSES.index(a), FLOAT_CLASSES.index(b))]


def _inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Random values of the tensors of a case, within their limits."""
    limits = case.limits
    return {n: _within(limits[n], t, rng) if n in limits else _random(t, rng) for n, t in case.tensors.items()}


def _within(limits: tuple[int, int], type_: TensorType, rng: np.random.Generator) -> Array:
    """Every value from the lowest to the highest is as likely."""
    return rng.integers(*limits, type_.numbers(), endpoint=True).astype(numpy_dtype(type_.dtype))


def _random(type_: TensorType, rng: np.random.Generator) -> Array:
    """Normally distributed for floats, small and signed for integers, both values for booleans."""
    if type_.dtype in FLOATS:
        return rng.normal(size=type_.numbers()).astype(numpy_dtype(type_.dtype))
    return rng.integers(-4, 5, type_.numbers()).astype(type_.dtype)


def _same_bits(a: Array, b: Array) -> bool:
    return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))))


def _difference(a: Array, b: Array) -> float:
    """Largest difference relative to the scale of a; infinities and NaNs must coincide."""
    if np.array_equal(a, b):  # most are, and this is quicker
        return 0.0
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return float("inf")
    scale = max(1.0, float(np.max(np.abs(a[finite]), initial=0.0)))
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale


def numeric(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    """The value of an operator, in the dtype of its operands."""
    return operator(op).compute(attrs, operands)  # type: ignore[arg-type]


def apply_ring(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    """The value of an operator modulo the prime; one that is not linear is some function of its own."""
    if operator(op).ring == "oracle":
        return _oracle(f"{op}{attrs!r}", np.asarray(operands[0]))
    result = numeric(op, attrs, operands)
    if operator(op).rearranges:  # residues stay residues, and indices from the end stay negative
        return result
    return tuple(p % PRIME for p in result) if isinstance(result, tuple) else result % PRIME  # type: ignore[operator]


def _oracle(name: str, x: Array) -> Array:
    """Some fixed function of each element, different for each ``name``: a random polynomial of degree 5."""
    result = np.zeros_like(x)
    for coefficient in _coefficients(name):
        result = (result * x + coefficient) % PRIME
    return result


@lru_cache(4096)
def _coefficients(name: str) -> tuple[int, ...]:
    return tuple(int(c) for c in np.random.default_rng(list(name.encode())).integers(1, PRIME, 6))


def parts(value: Value) -> tuple[Array, ...]:
    """The arrays of a value: those of a tuple, or itself."""
    return value if isinstance(value, tuple) else (value,)
