"""Both sides of an equation as straight-line code, for the many inputs on which a gate tries one case.

Terms that occur twice are computed once, attributes are worked out once per case, and where one input of many changes,
only what depends on it is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import operator
from egraph_opt.terms.equation import Equation
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, Var
from egraph_opt.terms.sampling import Case, attribute_values

Array = NDArray[Any]
Value = Array | tuple[Array, ...]
Apply = Callable[[str, tuple[AttrValue, ...], list[Value]], Value]


class OutOfRange(Exception):  # noqa: N818 - what a gate asks about
    """An index lies outside of what it indexes. ``left``: in a term of the left side, so that this has no value."""

    def __init__(self, *, left: bool) -> None:
        super().__init__()
        self.left = left


@dataclass(frozen=True, slots=True)
class Step:
    """A term: an operator of earlier terms, or a literal (``op`` is empty).

    Attributes:
        operands: positions of earlier values.
        reads: the tensors that it depends on.
        number: the value of a literal; ``key`` is its key in ``Case.numbers``.
    """

    op: str
    attrs: tuple[Expr, ...] = ()
    operands: tuple[int, ...] = ()
    reads: frozenset[str] = frozenset()
    number: float = 0.0
    key: int = 0


class Program:
    """The terms of an equation in an order in which they can be computed, tensors first.

    Attributes:
        left, right: positions of the roots.
        reached: the position after the last term of the left side.
    """

    def __init__(self, rule: Equation) -> None:
        self.tensors = rule.tensors
        self.steps: list[Step] = []
        self._places: dict[object, int] = {name: i for i, name in enumerate(rule.tensors)}
        self.left = [self._place(p, drawn=True) for p in rule.lhs]
        self.reached = len(self.tensors) + len(self.steps)
        self.right = [self._place(p, drawn=False) for p in rule.rhs]

    def _place(self, pattern: Pattern, *, drawn: bool) -> int:
        """The position of a term's value. Two literals are two terms: each of the left has a shape of its own, those of
        the right are scalars."""
        match pattern:
            case Var(name):
                return self._places[name]
            case Number(value):
                key = id(pattern) if drawn else 0
                return self._added((key, value), Step("", number=value, key=key))
            case App(op, attrs, operands):
                places = tuple(self._place(o, drawn=drawn) for o in operands)
                reads = frozenset[str]().union(*(self._reads(p) for p in places))
                return self._added((op, attrs, places), Step(op, attrs, places, reads))

    def _added(self, key: object, step: Step) -> int:
        place = self._places.setdefault(key, len(self.tensors) + len(self.steps))
        if place == len(self.tensors) + len(self.steps):
            self.steps.append(step)
        return place

    def _reads(self, place: int) -> frozenset[str]:
        if place < len(self.tensors):
            return frozenset({self.tensors[place]})
        return self.steps[place - len(self.tensors)].reads

    def bind(self, case: Case) -> Bound:
        """The program for the types and attributes of a case.

        Raises:
            Undefined: an attribute has no value there.
        """
        return Bound(self, case)


class Bound:
    """A program in one case."""

    def __init__(self, program: Program, case: Case) -> None:
        self.program, self.case = program, case
        self.attrs = [attribute_values(step.attrs, case) for step in program.steps]

    def types(self) -> list[Type]:
        """The type of every term; a literal of the right side is a scalar of the first root's dtype.

        Raises:
            IllTyped: a term has none.
        """
        types: list[Type] = [self.case.tensors[name] for name in self.program.tensors]
        root = self.case.roots[0]
        assert isinstance(root, TensorType)
        for step, attrs in zip(self.program.steps, self.attrs, strict=True):
            if step.op:
                types.append(operator(step.op).infer(attrs, [types[o] for o in step.operands]))  # type: ignore[misc]
            else:
                types.append(self.case.numbers.get(step.key) or TensorType(root.dtype, ()))
        return types

    def run(self, inputs: Mapping[str, Array], apply: Apply, dtype: type[np.generic]) -> list[Value]:
        """The value of every term; literals have ``dtype``.

        Raises:
            OutOfRange: an index does.
        """
        values: list[Value] = [inputs[name] for name in self.program.tensors]
        with np.errstate(all="ignore"):
            for step, attrs in zip(self.program.steps, self.attrs, strict=True):
                values.append(self._value(len(values), step, attrs, values, apply, dtype))
        return values

    def rerun(
        self, values: list[Value], name: str, changed: Array, apply: Apply, dtype: type[np.generic]
    ) -> list[Value]:
        """What ``run`` gives, and raises, where one input is another."""
        values = list(values)
        values[self.program.tensors.index(name)] = changed
        with np.errstate(all="ignore"):
            for place, (step, attrs) in enumerate(
                zip(self.program.steps, self.attrs, strict=True), len(self.program.tensors)
            ):
                if name in step.reads:
                    values[place] = self._value(place, step, attrs, values, apply, dtype)
        return values

    def _value(
        self,
        place: int,
        step: Step,
        attrs: tuple[AttrValue, ...],
        values: list[Value],
        apply: Apply,
        dtype: type[np.generic],
    ) -> Value:
        if not step.op:
            type_ = self.case.numbers.get(step.key)
            return np.full(type_.numbers() if type_ else (), step.number, dtype)
        if step.op == "Fill":  # its dtype is the model's; here it is the dtype of the check
            shape, value, _ = attrs
            return np.full(shape, value, dtype)  # type: ignore[arg-type]
        try:
            return apply(step.op, attrs, [values[o] for o in step.operands])
        except IndexError:
            raise OutOfRange(left=place < self.program.reached) from None
