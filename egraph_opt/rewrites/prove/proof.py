"""What a proof is: ground instances of axioms, from which the two sides follow by congruence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egraph_opt.rewrites.prove.terms import Schema, Term, schema, substitute, substitute_text
from egraph_opt.terms import Equation

Axioms = Mapping[str, Equation]


@dataclass(frozen=True, order=True)
class Instance:
    """An axiom with terms (as text) for its tensors and expressions for its attributes, sorted by name."""

    axiom: str
    binding: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.axiom}({', '.join(f'{name}: {text}' for name, text in self.binding)})"


@dataclass(frozen=True)
class Justified:
    """How many conditions of the instances of a proof hold for which reason.

    Attributes:
        given: they are conditions of the rule, word for word.
        constant: they read no variables.
        cases: they hold in every case that was drawn (a test, not a proof).
    """

    given: int = 0
    constant: int = 0
    cases: int = 0


@dataclass(frozen=True)
class Proof:
    """Instances of axioms that show an equation.

    Attributes:
        equation: name of what is proved.
        instances: in an order in which they can be read.
        justified: how the conditions of the instances were justified.
    """

    equation: str
    instances: tuple[Instance, ...]
    justified: Justified = Justified()

    @property
    def axioms(self) -> tuple[str, ...]:
        """Names of the axioms used, sorted."""
        return tuple(sorted({i.axiom for i in self.instances}))


@dataclass(frozen=True)
class Ground:
    """An instance spelled out: ``equalities`` hold if the conditions do."""

    equalities: tuple[tuple[Term, Term], ...]
    conditions: tuple[str, ...]


def spell_out(axiom: Equation, instance: Instance) -> Ground:
    """The ground equalities and conditions of an instance; ``out`` in its expressions is the first left side.

    Raises:
        ValueError: its binding is not one of exactly the axiom's variables, or holds something that is no term.
    """
    made = schema(axiom)
    binding = dict(instance.binding)
    if set(binding) != {*made.tensors, *made.attributes}:
        raise ValueError(f"{instance}: {axiom.name} has the variables {sorted({*made.tensors, *made.attributes})}")
    equal = equalities(made, binding)
    full = {**binding, "out": str(equal[0][0])}
    return Ground(equal, tuple(substitute_text(c, full) for c in made.given))


def equalities(made: Schema, binding: Mapping[str, str]) -> tuple[tuple[Term, Term], ...]:
    """The ground equalities of a schema alone: writing its conditions takes as long, and searches need only these."""
    lhs = [substitute(t, binding) for t in made.lhs]
    full = {**binding, "out": str(lhs[0])}
    return tuple(zip(lhs, (substitute(t, full) for t in made.rhs), strict=True))


def by_name(axioms: Sequence[Equation]) -> dict[str, Equation]:
    """Axioms by name."""
    return {axiom.name: axiom for axiom in axioms}
