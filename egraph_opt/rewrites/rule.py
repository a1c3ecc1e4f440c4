"""The record of a rule: an equation between graphs, when it holds, how it rounds, and why we believe it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egraph_opt.rewrites.expressions import FUNCTIONS, names_in
from egraph_opt.rewrites.pattern import App, Pattern, PatternError, Var, attribute_names, parse, tensor_names, walk

FloatClass = Literal["exact", "reassociate", "overflow-risk", "spreads-nonfinite", "drops-nonfinite"]
FLOAT_CLASSES: tuple[FloatClass, ...] = (
    "exact",
    "reassociate",
    "overflow-risk",
    "spreads-nonfinite",
    "drops-nonfinite",
)
Numerics = Literal["exact", "standard", "fast"]
LEVELS: dict[Numerics, frozenset[str]] = {
    "exact": frozenset(FLOAT_CLASSES[:1]),
    "standard": frozenset(FLOAT_CLASSES[:4]),
    "fast": frozenset(FLOAT_CLASSES),
}
Status = Literal["proved", "definition", "unproved"]
DTYPES = ("float", "numeric", "any")


@dataclass(frozen=True)
class Rule:
    """``lhs[i]`` may be replaced by ``rhs[i]``, for every i at once, wherever the conditions hold.

    Attributes:
        when: conditions in the closed grammar; ``const(x)`` asks for a tensor known before the model runs.
        dtypes: what the first root may be: ``float``, ``numeric`` or ``any``.
        float_class: what the rewrite does to floating-point results (the worst that applies).
        status: ``definition`` (an operator spelled out), ``proved`` from the axioms, or ``unproved``.
        family: rules that are switched on and off, and blamed, together.
        source: where the law comes from.
        proof: ground instances of axioms that show it, where it is proved.
    """

    name: str
    lhs: tuple[Pattern, ...]
    rhs: tuple[Pattern, ...]
    when: tuple[str, ...] = ()
    dtypes: Literal["float", "numeric", "any"] = "float"
    float_class: FloatClass = "reassociate"
    status: Status = "unproved"
    family: str = ""
    source: str = ""
    proof: tuple[str, ...] = ()
    tensors: tuple[str, ...] = field(init=False)
    attributes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tensor_names(*self.lhs))
        object.__setattr__(self, "attributes", attribute_names(*self.lhs))
        self._check()

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
            raise PatternError(f"rule {self.name}: the two sides have different numbers of roots")
        if any(not isinstance(p, App) for p in self.lhs):
            raise PatternError(f"rule {self.name}: a left-hand side must be an operator")
        known = set(self.tensors) | set(self.attributes) | {"out"}
        for pattern in (p for side in self.lhs for p in walk(side) if isinstance(p, App)):
            for expression in pattern.attrs:
                if not (expression.is_name or expression.is_literal):
                    raise PatternError(f"rule {self.name}: {expression.text} on the left is no name or literal")
        used = {e.text for q in self.rhs for p in walk(q) if isinstance(p, App) for e in p.attrs}
        for text in (*self.conditions, *used):
            missing = names_in(text) - known - set(FUNCTIONS)
            if missing:
                raise PatternError(
                    f"rule {self.name}: {text} uses {sorted(missing)}, which the left side does not bind"
                )
        unbound = set(tensor_names(*self.rhs)) | set(self.constants)
        if unbound - set(self.tensors):
            raise PatternError(
                f"rule {self.name}: {sorted(unbound - set(self.tensors))} are not bound by the left side"
            )


def rule(
    name: str,
    lhs: str | tuple[str, ...],
    rhs: str | tuple[str, ...],
    *when: str,
    float_class: FloatClass = "reassociate",
    dtypes: Literal["float", "numeric", "any"] = "float",
    status: Status = "unproved",
    family: str = "",
    source: str = "",
) -> Rule:
    """A rule from its text."""
    left = tuple(parse(t) for t in ((lhs,) if isinstance(lhs, str) else lhs))
    right = tuple(parse(t) for t in ((rhs,) if isinstance(rhs, str) else rhs))
    return Rule(name, left, right, when, dtypes, float_class, status, family or name, source)


def _text(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Var) else str(pattern)
