"""Every case of an axiom in a space, by unification: what is known of one operand restricts the next.

The left side is walked top-down and operands first to last. An operator asks its operands for shapes of a form (a
domain per axis, ``None`` where any size will do); a tensor that is bound already either fits or ends the branch, a free
one takes every shape of the form. Conditions are tested as soon as everything that they mention is bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from egraph_opt.axioms.links import Domain, Form, links, refined
from egraph_opt.axioms.record import Axiom
from egraph_opt.axioms.space import Space
from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.terms import App, Case, Expr, Number, Pattern, Var
from egraph_opt.terms.expressions import Undefined, evaluate, names_in
from egraph_opt.terms.pattern import walk

Chooser = Callable[[tuple[Any, ...]], Iterable[AttrValue]]
Choice = Callable[["Enumeration", App, Form], Iterator[Type]]
"""The types of an application of one operator that are of a form, with its attributes and operands bound."""
SCALAR = TensorType("float64", ())


@lru_cache(maxsize=1 << 18)
def infer(op: str, attrs: tuple[AttrValue, ...], types: tuple[TensorType, ...]) -> Type | None:
    """The type of an application, ``None`` where it has none."""
    try:
        return operator(op).infer(attrs, types)
    except IllTyped:
        return None


@lru_cache(maxsize=1 << 16)
def tensor(shape: tuple[int, ...]) -> TensorType:
    """A float64 tensor type, one object per shape."""
    return TensorType("float64", shape)


@lru_cache(maxsize=4096)
def shapes_of(form: tuple[Domain, ...], sizes: tuple[int, ...]) -> tuple[TensorType, ...]:
    """Every shape of a form."""
    return tuple(tensor(s) for s in itertools.product(*(sizes if d is None else d for d in form)))


class Enumeration:
    """Walks the cases of one axiom; with ``rng`` in random order. ``choices`` says which cases an operator has:
    ``choices.cases_of`` makes one for the operators of the space."""

    def __init__(
        self, axiom: Axiom, space: Space, choices: Mapping[str, Choice], rng: np.random.Generator | None = None
    ) -> None:
        self.axiom, self.space, self.choices, self.rng = axiom, space, choices, rng
        self.tensors: dict[str, TensorType] = {}
        self.attributes: dict[str, AttrValue] = {}
        self.numbers: dict[int, TensorType] = {}
        self._bound: dict[str, Any] = {}  # tensors and attributes, as conditions see them
        self.skipped = 0
        self.stacks = _leaves_batch_alone(axiom)
        self._conditions: dict[str, list[tuple[str, frozenset[str]]]] = {}
        self._late: list[str] = []
        for text in axiom.conditions:
            names = names_in(text)
            if "out" in names:
                self._late.append(text)
            for name in names if "out" not in names else ():
                self._conditions.setdefault(name, []).append((text, names))
        self._links, self._given = links(axiom), _given(axiom)

    def __iter__(self) -> Iterator[Case]:
        for type_ in self.fill(self.axiom.lhs[0], None):
            case = Case(dict(self.tensors), dict(self.attributes), dict(self.numbers), (type_,))
            if all(self._holds(text, case.environment) for text in self._late):
                yield case
            else:
                self.skipped += 1

    def sample(self, count: int) -> list[Case]:
        """At most ``count`` different cases, by restarts in random order."""
        found: dict[str, Case] = {}
        for _ in range(4 * count):
            self._forget()
            walk_once = iter(self)
            case = next(walk_once, None)
            walk_once.close()  # type: ignore[attr-defined]
            if case is None:
                break
            found.setdefault(str(case), case)
            if len(found) == count:
                break
        self._forget()
        return list(found.values())

    def _forget(self) -> None:
        self.tensors, self.attributes, self._bound = {}, {}, {}

    # --- what operators use

    def shuffled(self, values: Iterable[Any]) -> Sequence[Any]:
        """The values, in random order if this walk is a random one."""
        found = list(values)
        if self.rng is not None and len(found) > 1:
            return [found[i] for i in self.rng.permutation(len(found))]
        return found

    def fill(self, pattern: Pattern, *forms: Form) -> Iterator[Type]:
        """Types of ``pattern`` of one of the forms, its variables bound while each is out."""
        if isinstance(pattern, Number):
            scalar = any(fits(SCALAR, form) for form in forms)  # where it broadcasts, one shape tells as much as all
            for type_ in (SCALAR,) if scalar else self.shuffled(self._free(forms)):
                self.numbers[id(pattern)] = type_
                yield type_
        elif isinstance(pattern, App):
            for form in self.shuffled(forms):
                yield from self.choices[pattern.op](self, pattern, form)
        else:
            yield from self._bind(pattern, forms)

    def _bind(self, pattern: Var, forms: tuple[Form, ...]) -> Iterator[Type]:
        name = pattern.name
        known = self.tensors.get(name)
        if known is not None:
            if any(fits(known, form) for form in forms):
                yield known
            return
        narrowed = (refined(form, self._links.get(name, []), self.tensors) for form in forms)
        left = tuple(dict.fromkeys(form for form in narrowed if not isinstance(form, str)))
        for type_ in self.shuffled(self._free(left)):
            self.tensors[name] = self._bound[name] = type_
            try:
                if self._consistent(name):
                    yield type_
                else:
                    self.skipped += 1
            finally:
                del self.tensors[name], self._bound[name]

    def _free(self, forms: tuple[Form, ...]) -> Iterator[TensorType]:
        for form in forms:
            if form is None:
                for rank in self.space.ranks:
                    yield from shapes_of((None,) * rank, self.space.sizes)
            else:
                yield from shapes_of(form, self.space.sizes)

    def bind(self, exprs: Sequence[Expr], *choosers: Chooser) -> Iterator[tuple[Any, ...]]:
        """Values of attributes, each chooser given those before it."""
        return self._bind_from(exprs, choosers, ())

    def _bind_from(
        self, exprs: Sequence[Expr], choosers: Sequence[Chooser], chosen: tuple[Any, ...]
    ) -> Iterator[tuple[Any, ...]]:
        count = len(exprs)
        while len(chosen) < count and (known := self._known(exprs[len(chosen)])):
            chosen += known
        if len(chosen) == count:
            yield chosen
            return
        name, last = exprs[len(chosen)].text, len(chosen) == count - 1
        for value in self._determined(name) or self.shuffled(choosers[len(chosen)](chosen)):
            self.attributes[name] = self._bound[name] = value
            try:
                if not self._consistent(name):
                    self.skipped += 1
                elif last:
                    yield (*chosen, value)
                else:
                    yield from self._bind_from(exprs, choosers, (*chosen, value))
            finally:
                del self.attributes[name], self._bound[name]

    def _known(self, expr: Expr) -> tuple[AttrValue, ...]:
        """The value of an attribute that is bound or written out; nothing where it is free."""
        if expr.text in self.attributes:
            return (self.attributes[expr.text],)
        return (expr.literal,) if expr.is_literal else ()

    def emit(self, app: App, attrs: tuple[AttrValue, ...], types: Sequence[Type], form: Form) -> Iterator[Type]:
        """The type of the application, if it has one of that form."""
        result = infer(app.op, attrs, tuple(types))  # type: ignore[arg-type]
        if result is None or not fits(result, form):
            self.skipped += 1
        else:
            yield result

    def _determined(self, name: str) -> tuple[AttrValue, ...]:
        """The value that a condition gives an attribute; nothing where none does yet."""
        text = self._given.get(name)
        if text is None or not names_in(text) <= self._bound.keys():
            return ()
        try:
            value = evaluate(text, self._bound)
        except Undefined:
            return ()
        return (value,) if value is not None else ()

    def _consistent(self, name: str) -> bool:
        bound = self._bound
        for text, names in self._conditions.get(name, ()):
            if names <= bound.keys() and not self._holds(text, bound):
                return False
        return True

    @staticmethod
    def _holds(text: str, environment: dict[str, Any]) -> bool:
        try:
            return bool(evaluate(text, environment))
        except Undefined:
            return False


def fits(type_: Type, form: Form) -> bool:
    """Whether a tensor type is of a form."""
    if form is None:
        return True
    if not isinstance(type_, TensorType) or len(type_.shape) != len(form):
        return False
    for size, domain in zip(type_.shape, form, strict=True):  # noqa: SIM110 - a third of the time, of millions of calls
        if domain is not None and size not in domain:
            return False
    return True


def exactly(shape: Sequence[int]) -> tuple[Domain, ...]:
    """The form of one shape."""
    return tuple((n,) for n in shape)


def _given(axiom: Axiom) -> dict[str, str]:
    """Attributes that a condition ``name == expression`` determines."""
    found: dict[str, str] = {}
    for text in axiom.conditions:
        name, _, right = (part.strip() for part in text.partition("=="))
        if name in axiom.attributes and "==" not in right and right and "out" not in names_in(right):
            found.setdefault(name, right)
    return found


_BATCHED = {"Conv", "FusedConv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}


def _leaves_batch_alone(axiom: Axiom) -> bool:
    """Whether every row of the batch axis of its convolutions and pools is a case of its own."""
    apps = [p for side in (axiom.lhs, axiom.rhs) for q in side for p in walk(q) if isinstance(p, App)]
    joined = any(a.op == "Concat" and a.attrs[0].text == "0" and not _of_weights(axiom, a) for a in apps)
    return bool(axiom.tensors) and any(a.op in _BATCHED for a in apps) and not joined


def _of_weights(axiom: Axiom, concat: App) -> bool:
    """Whether the concatenated tensors are weights or biases of convolutions, on either side."""
    apps = [p for side in (axiom.lhs, axiom.rhs) for q in side for p in walk(q) if isinstance(p, App)]
    weights = {id(o) for a in apps if a.op in ("Conv", "FusedConv") for o in a.operands[1:]}
    return id(concat) in weights
