"""What verification says, and on what evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

Kind = Literal["equivalent", "different", "invalid", "unverified"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One output, on one input, at one level of ONNX Runtime's optimizations.

    Attributes:
        case: kind of input: one of ``feeds.Kind``, ``branch`` (an integer that the model compares with),
            ``overridden`` (defaults of inputs changed) or ``user``.
        sizes: numbers of the symbolic sizes; empty for the user's own inputs.
        level: ``none`` or ``all``: how far ONNX Runtime optimized the candidate; ``float64``: both models evaluated in
            the operator table's own semantics, without ONNX Runtime.
        error: largest absolute difference; of what is not a float, the share of elements that differ.
        tolerance: what ``error`` may be; 0 where bits are compared.
        fault: what is wrong; empty if nothing is.
    """

    output: str
    case: str
    sizes: Mapping[str, int]
    level: Literal["none", "all", "float64"]
    error: float
    tolerance: float
    fault: str

    @property
    def agrees(self) -> bool:
        """Whether this output passed."""
        return not self.fault


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer.

    Attributes:
        kind: ``equivalent``; ``different``: an output differs; ``invalid``: the candidate fails the checker, has
            another interface or does not load; ``unverified``: the original never ran, so nothing can be said.
        reason: one sentence.
        evidence: one row per compared output.
        notes: what limits the answer: oracles, skipped inputs, random operators.
        checks: what was done, in order.
    """

    kind: Kind
    reason: str
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def equivalent(self) -> bool:
        """Whether the candidate may stand in for the original."""
        return self.kind == "equivalent"

    @property
    def is_rounding(self) -> bool:
        """Whether the models differ, and yet compute the same: they do in float64, or without ONNX Runtime's own
        optimizations, which then do to the candidate what they do not do to the original."""
        bad = [row for row in self.evidence if not row.agrees]
        if self.kind != "different" or not all(row.tolerance < row.error < inf for row in bad):
            return False
        asked = {row.level for row in self.evidence}
        faulty = {row.level for row in bad}
        return "float64" not in faulty and ("float64" in asked or "none" not in faulty)

    @property
    def sizes(self) -> dict[str, list[int]]:
        """The numbers that were tried for each symbolic size, in the order in which they were."""
        tried: dict[str, dict[int, None]] = {}
        for row in self.evidence:
            for name, number in row.sizes.items():
                tried.setdefault(name, {})[number] = None
        return {name: list(numbers) for name, numbers in tried.items()}

    @property
    def worst(self) -> Evidence | None:
        """The row that is furthest beyond its tolerance, or nearest to it."""
        return max(self.evidence, key=lambda e: (bool(e.fault), e.error / max(e.tolerance, 1e-300)), default=None)
