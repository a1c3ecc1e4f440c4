"""Bottom-up enumeration: every term of a world by number of operators, one representative per value.

Operands are representatives only (Ruler, OOPSLA 2021, section 4), so the number of terms grows with the number of
different values and not with the number of ways to write them. Values are exact residues (or float64 rounded), so two
terms are grouped exactly when they agree on every element under every assignment.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.rewrites.generate.worlds import Form, World
from egraph_opt.terms import App, Expr, Number, Pattern, Var, parse, walk
from egraph_opt.terms.expressions import Environment, Undefined, evaluate
from egraph_opt.terms.gates import PRIME, Array, Value, apply_ring

DIGITS = 7
"""Decimal digits in which float64 values of one group agree."""


@dataclass(frozen=True, eq=False)
class Term:
    """A term, its role and size, and its types and values under each assignment."""

    pattern: Pattern
    role: str
    operators: int
    variants: frozenset[str]
    types: tuple[TensorType, ...]
    values: tuple[Array, ...]

    @property
    def key(self) -> bytes:
        """Equal for terms that are equal under every assignment."""
        digest = hashlib.blake2b(self.role.encode(), digest_size=16)
        for type_, value in zip(self.types, self.values, strict=True):
            digest.update(repr(type_.shape).encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        return digest.digest()


@dataclass
class Enumeration:
    """The terms of a world, by number of operators, and the equalities that came up.

    ``equal`` holds pairs ``(representative, other)``.
    """

    world: World
    levels: list[list[Term]] = field(default_factory=list[list[Term]])
    classes: dict[bytes, Term] = field(default_factory=dict[bytes, Term])
    equal: list[tuple[Term, Term]] = field(default_factory=list[tuple[Term, Term]])
    evaluated: int = 0

    def run(self, seed: int = 0) -> Enumeration:
        """Enumerates up to the world's number of operators. Deterministic for a seed."""
        rng = np.random.default_rng([seed, *self.world.name.encode()])
        self.levels = [[]]
        for variable in self.world.variables:
            types = tuple(TensorType("float64", shape) for shape in variable.shapes)
            values = tuple(self._random(rng, shape) for shape in variable.shapes)
            self._add(Term(Var(variable.name), variable.role, 0, frozenset(), types, values), self.levels[0])
        for number in self.world.numbers:
            types = (TensorType("float64", ()),) * self.world.assignments
            values = (np.asarray(self._number(number)),) * self.world.assignments
            self._add(Term(Number(number), "t", 0, frozenset(), types, values), self.levels[0])
        for count in range(1, self.world.operators + 1):
            level: list[Term] = []
            for form in self.world.forms:
                for operands in self._operands(form, count - 1):
                    term = self._apply(form, operands)
                    if term is not None:
                        self._add(term, level)
            self.levels.append(level)
        for text in self.world.templates:
            term = self._evaluate(parse(text), "t", frozenset())
            if term is not None:
                self._add(term, self.levels[-1])
        return self

    def _number(self, number: float) -> float | int:
        return int(number) % PRIME if self.world.semantics == "ring" else number

    def _random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if self.world.semantics == "ring":
            return rng.integers(0, PRIME, shape, dtype=np.int64)
        # more negative than positive: a maximum is not always above zero; rounded, as every value is
        return np.round(rng.normal(size=shape) - 0.3, DIGITS)

    def _add(self, term: Term, level: list[Term]) -> None:
        known = self.classes.setdefault(term.key, term)
        if known is term:
            level.append(term)
        elif known.pattern != term.pattern:
            self.equal.append((known, term))

    def _operands(self, form: Form, operators: int) -> Iterator[tuple[Term, ...]]:
        """Tuples of representatives of the right roles with ``operators`` operators in all."""
        arity = len(form.takes)
        for split in itertools.product(range(operators + 1), repeat=arity):
            if sum(split) != operators or (form.commutes and list(split) != sorted(split, reverse=True)):
                continue
            pools = [[t for t in self.levels[n] if t.role == role] for n, role in zip(split, form.takes, strict=True)]
            for operands in itertools.product(*pools):
                if form.commutes and split[0] == split[1] and str(operands[0].pattern) > str(operands[1].pattern):
                    continue
                if operators == 2 and form.variant and any(form.variant in o.variants for o in operands):
                    continue  # in terms of three operators a convolution is not applied to a convolution
                yield operands

    def _apply(self, form: Form, operands: tuple[Term, ...]) -> Term | None:
        holes = iter(operands)
        pattern = _fill(parse(form.text), holes)
        variants = frozenset({form.variant} - {""}).union(*(o.variants for o in operands))
        return self._evaluate(pattern, form.gives, variants, {o.pattern: o for o in operands})

    def _evaluate(
        self, pattern: Pattern, role: str, variants: frozenset[str], known: Mapping[Pattern, Term] | None = None
    ) -> Term | None:
        """The term of a pattern over ``known`` terms (variables and numbers, if not given); ``None`` if ill-typed."""
        known = known or {t.pattern: t for t in self.levels[0]}
        types: list[TensorType] = []
        values: list[Array] = []
        for index in range(self.world.assignments):
            try:
                type_, value = self._part(pattern, index, known)
            except (IllTyped, Undefined):
                return None
            assert isinstance(type_, TensorType)
            assert not isinstance(value, tuple)
            types.append(type_)
            values.append(value)
        self.evaluated += 1
        count = sum(isinstance(p, App) and p.op != "Get" for p in walk(pattern))
        return Term(pattern, role, count, variants, tuple(types), tuple(values))

    def _part(self, pattern: Pattern, index: int, known: Mapping[Pattern, Term]) -> tuple[Type, Value]:
        found = known.get(pattern)
        if found is not None:
            return found.types[index], found.values[index]
        assert isinstance(pattern, App)
        operands = [self._part(o, index, known) for o in pattern.operands]
        attrs = self._attributes(pattern, index)
        type_ = operator(pattern.op).infer(attrs, [t for t, _ in operands])  # type: ignore[arg-type]
        return type_, self._value(pattern.op, attrs, [v for _, v in operands])

    def _value(self, op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
        if self.world.semantics == "ring":
            return apply_ring(op, attrs, operands)
        result = operator(op).evaluate(attrs, operands)  # type: ignore[arg-type]
        if isinstance(result, tuple):
            return tuple(np.round(r, DIGITS) + 0.0 for r in result)
        return np.round(np.asarray(result), DIGITS) + 0.0

    def _attributes(self, pattern: App, index: int) -> tuple[AttrValue, ...]:
        environment: dict[str, AttrValue | TensorType] = {n: v[index] for n, v in self.world.attributes.items()}
        for variable in self.world.variables:
            environment[variable.name] = TensorType("float64", variable.shapes[index])
        return tuple(_value_of(e, environment) for e in pattern.attrs)


def _fill(pattern: Pattern, holes: Iterator[Term]) -> Pattern:
    """A form's pattern with the next operands in its holes, from left to right."""
    if isinstance(pattern, App):
        return App(pattern.op, pattern.attrs, tuple(_fill(o, holes) for o in pattern.operands))
    return next(holes).pattern


def _value_of(expression: Expr, environment: Environment) -> AttrValue:
    return expression.literal if expression.is_literal else evaluate(expression.text, environment)
