"""The record of an axiom: an equation between operators that rules are proved from, and how it is to be tested."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_opt.terms import Dtypes, Equation, FloatClass, sides

UNARY = (
    *((name, "") for name in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Exp", "Log", "Sqrt", "Abs", "Erf")),
    *((name, "") for name in ("Reciprocal", "Softplus")),
    *((name, ", **u") for name in ("Clip", "LeakyRelu", "Elu", "HardSigmoid", "Gelu")),
)
"""Element-wise operators of one operand that axioms are stated for, and how their attributes are written."""
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
"""Element-wise operators of two operands that axioms are stated for."""


@dataclass(frozen=True)
class Axiom(Equation):
    """``lhs[0] = rhs[0]`` for every type and attribute that the left side and the conditions accept.

    Attributes:
        needs_order: it holds because numbers are ordered, so it is tested on signed numbers and not modulo a prime.
        definition: it says what an operator is, by simpler operators.
        family: the file it is written in.
    """

    needs_order: bool = False
    definition: bool = False
    family: str = ""

    @property
    def by_definition(self) -> bool:
        return self.definition or self.needs_order


def axiom(
    name: str,
    lhs: str,
    rhs: str,
    *when: str,
    float_class: FloatClass = "reassociate",
    dtypes: Dtypes = "float",
    needs_order: bool = False,
    definition: bool = False,
    family: str = "",
    source: str = "algebra",
) -> Axiom:
    """An axiom from its text."""
    return Axiom(
        name,
        sides(lhs),
        sides(rhs),
        when,
        dtypes,
        float_class,
        source,
        needs_order=needs_order,
        definition=definition,
        family=family,
    )
