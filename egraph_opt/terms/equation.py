"""An equation between graphs: what it says, where it holds, what it does to rounding. Axioms and rules are such."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from egraph_opt.terms.expressions import FUNCTIONS, names_in
from egraph_opt.terms.pattern import App, Number, Pattern, PatternError, Var, attribute_names, parse, tensor_names, walk

FloatClass = Literal["exact", "reassociate", "overflow-risk", "spreads-nonfinite", "drops-nonfinite"]
FLOAT_CLASSES: tuple[FloatClass, ...] = (
    "exact",
    "reassociate",
    "overflow-risk",
    "spreads-nonfinite",
    "drops-nonfinite",
)
Dtypes = Literal["float", "numeric", "any"]


@dataclass(frozen=True)
class Equation:
    """``lhs[i] = rhs[i]``, for every i at once, wherever the conditions hold.

    Attributes:
        when: conditions in the closed grammar; ``const(x)`` asks for a tensor known before the model runs.
        dtypes: what the first root may be: ``float``, ``numeric`` or ``any``.
        float_class: what replacing left by right does to floating-point results (the worst that applies).
        source: where the law comes from.
    """

    name: str
    lhs: tuple[Pattern, ...]
    rhs: tuple[Pattern, ...]
    when: tuple[str, ...] = ()
    dtypes: Dtypes = "float"
    float_class: FloatClass = "reassociate"
    source: str = ""
    tensors: tuple[str, ...] = field(init=False)
    attributes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tensor_names(*self.lhs))
        object.__setattr__(self, "attributes", attribute_names(*self.lhs))
        self._check()

    @property
    def by_definition(self) -> bool:
        """Whether it holds because of what its operators are, and not for any function in their place."""
        return False

    @property
    def equation(self) -> str:
        """The rule as people read it."""
        sides = [", ".join(_text(p) for p in side) for side in (self.lhs, self.rhs)]
        return " => ".join(sides)

    @property
    def shrinks(self) -> bool:
        """Whether the right side applies fewer operators than the left: such a rule also tidies constants."""
        left, right = (sum(isinstance(p, App) for q in side for p in walk(q)) for side in (self.lhs, self.rhs))
        return right < left

    @cached_property
    def heads(self) -> frozenset[str]:
        """What either side is made of: names of operators, and ``Number`` where there is a literal."""
        parts = {p for side in (*self.lhs, *self.rhs) for p in walk(side)}
        return frozenset(
            {p.op for p in parts if isinstance(p, App)} | {"Number" for p in parts if isinstance(p, Number)}
        )

    @property
    def constants(self) -> tuple[str, ...]:
        """Tensors that must be known before the model runs."""
        return tuple(c[6:-1].strip() for c in self.when if c.startswith("const("))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions on types and attributes, that is, all but ``const``."""
        return tuple(c for c in self.when if not c.startswith("const("))

    def _check(self) -> None:
        if len(self.lhs) != len(self.rhs) or not self.lhs:
            raise PatternError(f"{self.name}: the two sides have different numbers of roots")
        if any(not isinstance(p, App) for p in self.lhs):
            raise PatternError(f"{self.name}: a left-hand side must be an operator")
        known = set(self.tensors) | set(self.attributes) | {"out"}
        for pattern in (p for side in self.lhs for p in walk(side) if isinstance(p, App)):
            for expression in pattern.attrs:
                if not (expression.is_name or expression.is_literal):
                    raise PatternError(f"{self.name}: {expression.text} on the left is no name or literal")
        used = {e.text for q in self.rhs for p in walk(q) if isinstance(p, App) for e in p.attrs}
        for text in (*self.conditions, *used):
            missing = names_in(text) - known - set(FUNCTIONS)
            if missing:
                raise PatternError(f"{self.name}: {text} uses {sorted(missing)}, which the left side does not bind")
        unbound = set(tensor_names(*self.rhs)) | set(self.constants)
        if unbound - set(self.tensors):
            raise PatternError(f"{self.name}: {sorted(unbound - set(self.tensors))} are not bound by the left side")


def sides(text: str | tuple[str, ...]) -> tuple[Pattern, ...]:
    """The patterns of one side, from its text or texts."""
    return tuple(parse(t) for t in ((text,) if isinstance(text, str) else text))


def _text(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Var) else str(pattern)
