"""Bottom-up enumeration: every term of a world by number of operators, one representative per value.

Operands are representatives only (Ruler, OOPSLA 2021, section 4), so the number of terms grows with the number of
different values and not with the number of ways to write them. Values are exact residues (or float64 rounded), so two
terms are grouped exactly when they agree on every element under every assignment.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.rewrites.generate.worlds import Form, World
from egraph_opt.terms import App, Expr, Pattern, Var, parse
from egraph_opt.terms.expressions import Environment, Undefined, evaluate
from egraph_opt.terms.gates import PRIME, Array, apply_ring

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
        for count in range(1, self.world.operators + 1):
            level: list[Term] = []
            for form in self.world.forms:
                for operands in self._operands(form, count - 1):
                    term = self._apply(form, operands)
                    if term is not None:
                        self._add(term, level)
            self.levels.append(level)
        return self

    def _random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if self.world.semantics == "ring":
            return rng.integers(0, PRIME, shape, dtype=np.int64)
        return rng.normal(size=shape) - 0.3  # more negative than positive: a maximum is not always above zero

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
        pattern = self._pattern(form, operands)
        types: list[TensorType] = []
        values: list[Array] = []
        for index in range(self.world.assignments):
            inputs = [o.types[index] for o in operands]
            try:
                attrs = self._attributes(pattern, index)
                found: Type = operator(pattern.op).infer(attrs, inputs)
            except (IllTyped, Undefined):
                return None
            assert isinstance(found, TensorType)
            types.append(found)
            values.append(self._value(pattern.op, attrs, [o.values[index] for o in operands]))
        self.evaluated += 1
        variants = frozenset({form.variant} - {""}).union(*(o.variants for o in operands))
        count = 1 + sum(o.operators for o in operands)
        return Term(pattern, form.gives, count, variants, tuple(types), tuple(values))

    def _value(self, op: str, attrs: tuple[AttrValue, ...], operands: list[Array]) -> Array:
        if self.world.semantics == "ring":
            result = apply_ring(op, attrs, list(operands))
        else:
            result = operator(op).evaluate(attrs, operands)
            result = np.round(np.asarray(result), DIGITS) + 0.0
        assert not isinstance(result, tuple)
        return result

    @staticmethod
    def _pattern(form: Form, operands: tuple[Term, ...]) -> App:
        shape = parse(form.text)
        assert isinstance(shape, App)
        return App(shape.op, shape.attrs, tuple(o.pattern for o in operands))

    def _attributes(self, pattern: App, index: int) -> tuple[AttrValue, ...]:
        environment: dict[str, AttrValue | TensorType] = {n: v[index] for n, v in self.world.attributes.items()}
        for variable in self.world.variables:
            environment[variable.name] = TensorType("float64", variable.shapes[index])
        return tuple(_value_of(e, environment) for e in pattern.attrs)


def _value_of(expression: Expr, environment: Environment) -> AttrValue:
    return expression.literal if expression.is_literal else evaluate(expression.text, environment)
