"""Z3, and the only file that knows it (imported when the first question is asked).

Encoding (``facts/verification.md``, sections 1 and 9): uninterpreted sorts for tensors and for attributes; an operator
is a function of its attributes and operands; axioms are quantified, with both sides as patterns, a condition as one
predicate of the axiom's variables, a computed attribute as one function of them. What predicates and functions are for
the terms at hand comes in as ground facts, which the closed grammar's evaluator decided. An axiom without conditions
and computed attributes needs no facts: Z3 may use it wherever it matches.

E-matching alone saturates and says ``unknown`` in milliseconds where model-based instantiation would look for an
infinite model for ever (TASO's verifier hangs so); a second tier turns the latter on under a limit of resources.
Limits are resources and not seconds, seeds are fixed, and everything is asserted in a fixed order.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from egraph_opt.rewrites.prove.proof import Instance
from egraph_opt.rewrites.prove.terms import (
    Schema,
    Term,
    names,
    parse_term,
    schema,
    substitute,
    substitute_text,
    subterms,
)
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

RLIMIT = 4_000_000
"""Resources of one question; ordinary proofs take a hundredth."""
SECOND_RLIMIT = 2_000_000
"""Resources of the second tier."""


@dataclass(frozen=True)
class Answer:
    """What Z3 says: ``proved``, or ``unknown``; the axioms in its unsatisfiable core; how long it took."""

    status: Literal["proved", "unknown"]
    core: tuple[str, ...]
    tier: int
    milliseconds: float = field(compare=False)


class Oracle:
    """A solver that holds some axioms, for any number of questions."""

    def __init__(self, axioms: Sequence[Equation]) -> None:
        import z3

        self.z3: Any = z3
        self.T, self.V = z3.DeclareSort("Tensor"), z3.DeclareSort("Attribute")
        self.functions: dict[tuple[str, int, int], Any] = {}
        self.constants: dict[tuple[str, str], Any] = {}
        self.axioms = {a.name: a for a in axioms}
        self.present = z3.Function("present", self.T, z3.BoolSort())
        self.solvers = [self._solver(mbqi=False), self._solver(mbqi=True)]
        for axiom in axioms:
            formula = self._axiom(axiom)
            for solver in self.solvers:
                solver.assert_and_track(formula, z3.Bool(axiom.name))

    def ask(
        self, equation: Equation, world: World, instances: Sequence[Instance] = (), *, second: bool = False
    ) -> Answer:
        """Whether the axioms show the equation, given what is known of the conditions of ``instances``.

        Args:
            second: also try model-based instantiation, where matching alone does not answer.
        """
        begin = time.perf_counter()
        question = self._question(equation, world, instances)
        for tier in range(1 + second):
            # in a context of its own: what was asked before would change the order of terms and the limit's meaning
            context = self.z3.Context()
            solver = self.solvers[tier].translate(context)
            self._limit(solver, mbqi=tier == 1)
            solver.add(*(formula.translate(context) for formula in question))
            if solver.check() == self.z3.unsat:
                core = sorted(str(c) for c in solver.unsat_core())
                return Answer("proved", tuple(core), tier + 1, 1e3 * (time.perf_counter() - begin))
        return Answer("unknown", (), 1 + second, 1e3 * (time.perf_counter() - begin))

    def _solver(self, *, mbqi: bool) -> Any:
        solver = self.z3.SolverFor("UF") if mbqi else self.z3.SimpleSolver()
        self._limit(solver, mbqi=mbqi)
        return solver

    def _limit(self, solver: Any, *, mbqi: bool) -> None:
        options = {"auto_config": False, "mbqi": mbqi, "random_seed": 0, "rlimit": SECOND_RLIMIT if mbqi else RLIMIT}
        for name, value in options.items():
            solver.set(name, value)

    def _question(self, equation: Equation, world: World, instances: Sequence[Instance]) -> list[Any]:
        made, ground = schema(equation), self._grounding(world)
        terms = [t for side in (*made.lhs, *made.rhs) for t in subterms(side)]
        asked = [self.present(ground(term)) for term in terms]
        asked += [fact for instance in instances for fact in self._facts(instance, world, ground)]
        pairs = zip(made.lhs, made.rhs, strict=True)
        return [*asked, self.z3.Or([ground(a) != ground(b) for a, b in pairs])]

    # --- axioms

    def _axiom(self, axiom: Equation) -> Any:
        made = schema(axiom)
        variables = {n: self._constant("var", n, self.T) for n in made.tensors}
        variables |= {n: self._constant("var", n, self.V) for n in made.attributes}
        arguments = list(variables.values())
        lhs = [self._schematic(axiom, t, variables) for t in made.lhs]
        rhs = [self._schematic(axiom, t, variables) for t in made.rhs]
        body = self.z3.And([a == b for a, b in zip(lhs, rhs, strict=True)])
        if _guarded(made):
            body = self.z3.Implies(self._guard(axiom)(arguments), body)
        patterns = [self.z3.MultiPattern(*lhs)]
        patterns += [t for t, side in zip(rhs, made.rhs, strict=True) if not side.is_variable and _binds(made, side)]
        return self.z3.ForAll(arguments, body, patterns=patterns, qid=axiom.name)

    def _schematic(self, axiom: Equation, term: Term, variables: dict[str, Any]) -> Any:
        if term.operands is None:
            return variables[term.head]
        attrs = [self._attribute(axiom, text, variables) for text in term.attrs]
        operands = [self._schematic(axiom, o, variables) for o in term.operands]
        return self._operator(term)(*attrs, *operands)

    def _attribute(self, axiom: Equation, text: str, variables: dict[str, Any]) -> Any:
        if text in variables:
            return variables[text]
        if not _is_computed(text):
            return self._constant("value", _literal(text), self.V)
        return self._function(f"{axiom.name}: {text}", list(variables.values()))

    def _guard(self, axiom: Equation) -> Any:
        made = schema(axiom)
        sorts = [self.T] * len(made.tensors) + [self.V] * len(made.attributes)
        declared = self.z3.Function(f"{axiom.name} holds", *sorts, self.z3.BoolSort())
        return lambda arguments: declared(*arguments)

    def _function(self, name: str, arguments: list[Any]) -> Any:
        return self.z3.Function(name, *[a.sort() for a in arguments], self.V)(*arguments)

    # --- ground terms

    def _grounding(self, world: World) -> Callable[[Term], Any]:
        """What makes ground terms; each once, since instances hold the same ones over and over."""

        @cache
        def ground(term: Term) -> Any:
            if term.operands is None:
                return self._constant("tensor", term.head, self.T)
            attrs = [self._value(text, world) for text in term.attrs]
            return self._operator(term)(*attrs, *[ground(o) for o in term.operands])

        return ground

    def _value(self, text: str, world: World) -> Any:
        values = {repr(v) for v in world.values(text)}
        return self._constant("value", values.pop() if len(values) == 1 else world.key(text), self.V)

    def _facts(self, instance: Instance, world: World, ground: Callable[[Term], Any]) -> list[Any]:
        """That the conditions of an instance hold, and what its computed attributes are."""
        axiom = self.axioms[instance.axiom]
        made, binding = schema(axiom), dict(instance.binding)
        if not _guarded(made):
            return []
        arguments = [ground(parse_term(binding[n])) for n in made.tensors]
        arguments += [self._value(binding[n], world) for n in made.attributes]
        facts = [self._guard(axiom)(arguments)]
        full = {**binding, "out": str(substitute(made.lhs[0], binding))}
        for text in dict.fromkeys(t for side in made.rhs for p in subterms(side) for t in p.attrs):
            if text not in made.attributes and _is_computed(text):
                value = self._value(substitute_text(text, full), world)
                facts.append(self._function(f"{axiom.name}: {text}", arguments) == value)
        return facts

    def _operator(self, term: Term) -> Any:
        key = (term.head, len(term.attrs), len(term.operands or ()))
        if key not in self.functions:
            sorts = [self.V] * key[1] + [self.T] * key[2]
            declared = self.z3.Function(f"{key[0]}/{key[2]}", *sorts, self.T) if sorts else None
            self.functions[key] = declared if declared is not None else lambda: self._constant("op", key[0], self.T)
        return self.functions[key]

    def _constant(self, kind: str, name: str, sort: Any) -> Any:
        key = (f"{kind}/{sort}", name)
        if key not in self.constants:
            self.constants[key] = self.z3.Const(f"{kind} {name}", sort)
        return self.constants[key]


def _guarded(made: Schema) -> bool:
    """Whether facts are needed before the axiom may be used: it has conditions, or computes an attribute."""
    computed = [t for side in made.rhs for p in subterms(side) for t in p.attrs]
    return bool(made.given) or any(t not in made.attributes and _is_computed(t) for t in computed)


def _is_computed(text: str) -> bool:
    return bool(names(text))


def _literal(text: str) -> str:
    """A literal as Python writes its value."""
    return repr(ast.literal_eval(text))


def _binds(made: Schema, side: Term) -> bool:
    """Whether a pattern of this side binds every variable without computed attributes having to."""
    parts = list(subterms(side))
    found = {p.head for p in parts if p.is_variable} | {t for p in parts for t in p.attrs if t.isidentifier()}
    return {*made.tensors, *made.attributes} <= found
