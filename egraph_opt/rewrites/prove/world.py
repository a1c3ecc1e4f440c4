"""The cases on which types, attributes and conditions are decided.

Rules are schematic: their sizes, axes and ranks are variables. What an attribute of a proof is, and whether a condition
holds, is asked of the closed grammar's own evaluator in a number of drawn cases of the rule that is being proved, where
sizes differ between axes, ranks vary and the rule's conditions hold. Two attributes are the same if they have one
value in every case. That is a test and no proof, and proofs say so (``Justified``); the equalities between *tensors*
follow from axioms alone.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from functools import cache

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.rewrites.prove.terms import (
    NUMBER,
    Schema,
    Term,
    is_operator,
    names,
    number_names,
    parse_term,
    schema,
    substitute,
    term_of,
)
from egraph_opt.terms import Case, Equation
from egraph_opt.terms.expressions import Undefined, evaluate
from egraph_opt.terms.sampling import Sampler

Values = tuple[AttrValue, ...]
Environment = dict[str, AttrValue | TensorType]


class Untyped(Exception):  # noqa: N818 - it is a state of affairs that callers ask about
    """The term has no type, or the expression no value, in some case."""


class World:
    """Cases of an equation, with the types of terms and the values of attributes in each of them."""

    def __init__(self, equation: Equation, cases: int, seed: int) -> None:
        """Draws the cases, the same ones for the same equation and seed.

        Raises:
            Untyped: nothing fits the equation's left side and conditions.
        """
        rng = np.random.default_rng([seed, *equation.equation.encode(), *"".join(equation.when).encode()])
        sampler = Sampler(equation)
        found: list[Case] = []
        for _ in range(cases):
            case = sampler.draw(rng)
            if case is not None:
                found.append(case)
            elif not found:  # after thousands of attempts; as many for each further case would find none either
                raise Untyped(f"{equation.name}: no shapes fit its left side and conditions")
        shapes = number_names(equation)
        self.environments: list[Environment] = [_environment(case, shapes) for case in found]
        self.given = frozenset(schema(equation).given)
        self._types: dict[Term, tuple[Type, ...]] = {}
        self._values: dict[str, Values] = {}
        self._keys: dict[str, str] = {}

    def types(self, term: Term) -> tuple[Type, ...]:
        """The type of a term in every case; raises Untyped."""
        found = self._types.get(term)
        if found is None:
            found = self._types[term] = self._infer(term)
        return found

    def _infer(self, term: Term) -> tuple[Type, ...]:
        if term.operands is None:
            try:
                return tuple(e[term.head] for e in self.environments)  # type: ignore[misc]
            except KeyError:
                raise Untyped(f"{term.head} is no tensor of the rule") from None
        attrs = list(zip(*(self.values(text) for text in term.attrs), strict=True)) or [()] * len(self.environments)
        if term.head == NUMBER:
            return tuple(
                TensorType(str(e["_dtype"]), shape)  # type: ignore[arg-type]
                for e, (_, shape) in zip(self.environments, attrs, strict=True)
            )
        rows = list(zip(*(self.types(o) for o in term.operands), strict=True)) or [()] * len(self.environments)
        try:
            return tuple(operator(term.head).infer(a, list(r)) for a, r in zip(attrs, rows, strict=True))  # type: ignore[arg-type]
        except (IllTyped, AttributeError, TypeError, ValueError, IndexError) as error:
            raise Untyped(f"{term}: {error}") from None

    def values(self, text: str) -> Values:
        """The value of an expression in every case; raises Untyped."""
        found = self._values.get(text)
        if found is None:
            found = self._values[text] = self._evaluate(text)
        return found

    def _evaluate(self, text: str) -> Values:
        plain, terms = _without_terms(text)
        bound = {name: self.types(term) for name, term in terms}
        try:
            return tuple(
                evaluate(plain, {**environment, **{name: types[i] for name, types in bound.items()}})  # type: ignore[dict-item]
                for i, environment in enumerate(self.environments)
            )
        except (Undefined, OverflowError) as error:
            raise Untyped(str(error)) from None

    def key(self, text: str) -> str:
        """What tells attributes apart: two texts have one key where they have the same value in every case."""
        found = self._keys.get(text)
        if found is None:
            found = self._keys[text] = repr(self.values(text))
        return found

    def holds(self, condition: str) -> bool:
        """Whether a condition is true in every case."""
        try:
            return all(self.values(condition))
        except Untyped:
            return False

    def all_hold(self, made: Schema, binding: Mapping[str, str]) -> bool:
        """Whether the conditions of a schema are true in every case for these terms and expressions.

        What ``holds`` says of each condition with the terms written into it, without writing them.
        """
        try:
            bound = {n: self.types(parse_term(binding[n])) for n in made.tensors}
            if any("out" in names(condition) for condition in made.given):
                bound["out"] = self.types(substitute(made.lhs[0], binding))
            known = {n: self.values(binding[n]) for n in made.attributes} if made.given else {}
            return all(
                evaluate(condition, {n: v[i] for n, v in (bound | known).items()})  # type: ignore[dict-item]
                for i in range(len(self.environments))
                for condition in made.given
            )
        except (Untyped, Undefined, OverflowError):
            return False

    def justify(self, condition: str) -> str:
        """Why a condition holds: ``given``, ``constant`` or ``cases``; empty if it does not hold."""
        if not self.holds(condition):
            return ""
        if condition in self.given:
            return "given"
        return "cases" if _reads_variables(condition) else "constant"

    def dtypes(self, term: Term) -> Counter[str]:
        """Dtypes that a term has in the cases."""
        return Counter(t.dtype for t in self.types(term) if isinstance(t, TensorType))


def _environment(case: Case, shapes: dict[int, str]) -> Environment:
    literals = {shapes[i]: t.shape for i, t in case.numbers.items()}
    known = [t for t in (*case.roots, *case.numbers.values(), *case.tensors.values()) if isinstance(t, TensorType)]
    return {**case.environment, **literals, "_dtype": known[0].dtype}  # type: ignore[dict-item]


@cache
def _without_terms(text: str) -> tuple[str, tuple[tuple[str, Term], ...]]:
    """An expression with a fresh name in place of each term, and those terms."""
    found: dict[str, Term] = {}

    class Extract(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            if isinstance(node.func, ast.Name) and is_operator(node.func.id):
                name = f"_t{len(found)}"
                found[name] = term_of(node)
                return ast.Name(name, ast.Load())
            self.generic_visit(node)
            return node

    tree = Extract().visit(ast.parse(text, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree)), tuple(found.items())


@cache
def _reads_variables(text: str) -> bool:
    tree = ast.parse(text, mode="eval")
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id not in called for n in ast.walk(tree))
