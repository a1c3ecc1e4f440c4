"""The record of a rule: a directed equation, and why we believe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egraph_opt.terms import FLOAT_CLASSES, Dtypes, Equation, FloatClass, sides

Numerics = Literal["exact", "standard", "fast"]
LEVELS: dict[Numerics, frozenset[str]] = {
    "exact": frozenset(FLOAT_CLASSES[:1]),
    "standard": frozenset(FLOAT_CLASSES[:4]),
    "fast": frozenset(FLOAT_CLASSES),
}
Effort = Literal["standard", "thorough"]
"""``thorough`` also loads rules that enlarge e-graphs: expansions, and moves that gain nothing by themselves."""
Status = Literal["proved", "definition", "unproved"]


@dataclass(frozen=True)
class Rule(Equation):
    """``lhs[i]`` may be replaced by ``rhs[i]``, for every i at once, wherever the conditions hold.

    Attributes:
        status: ``definition`` (an operator spelled out), ``proved`` (no one may say so without a recorded proof), or
            ``unproved``.
        family: rules that are switched on and off, and blamed, together.
        needs_order: it holds because numbers are ordered, so it is tested on signed numbers and not modulo a prime.
        effort: from which effort on it is loaded.
    """

    status: Status = "unproved"
    family: str = ""
    needs_order: bool = False
    effort: Effort = "standard"

    @property
    def by_definition(self) -> bool:
        return self.status == "definition" or self.needs_order


def rule(
    name: str,
    lhs: str | tuple[str, ...],
    rhs: str | tuple[str, ...],
    *when: str,
    float_class: FloatClass = "reassociate",
    dtypes: Dtypes = "float",
    status: Status = "unproved",
    family: str = "",
    source: str = "",
    effort: Effort = "standard",
) -> Rule:
    """A rule from its text."""
    return Rule(
        name,
        sides(lhs),
        sides(rhs),
        when,
        dtypes,
        float_class,
        source,
        status=status,
        family=family or name,
        effort=effort,
    )
