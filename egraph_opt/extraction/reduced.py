"""What shrinking a problem gives: a smaller one, and the way between choices of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_opt.extraction.problem import Choice, Problem


@dataclass(frozen=True)
class Reduced:
    """A smaller problem over the same class and e-node numbers.

    Attributes:
        problem: classes that were removed have no e-nodes and are nobody's operand; operands are distinct.
        base: cost of what is selected in any case. A choice costs the original this much more than ``problem``.
        fixed: for each class that was removed although selections may need it, its e-node.
        replaced: for each e-node that a sibling replaces at no higher cost, that sibling.
        lower_bound: no selection that costs less than ``upper`` costs less than this; -inf with negative costs.
        removed: per step, how many e-nodes and operands it removed, over all rounds.
    """

    problem: Problem
    base: float
    fixed: dict[int, int]
    replaced: dict[int, int]
    lower_bound: float
    removed: dict[str, int]

    def then(self, further: Reduced) -> Reduced:
        """Both reductions as one, where ``further`` is one of ``problem``."""
        removed = {
            step: self.removed.get(step, 0) + further.removed.get(step, 0)
            for step in {**self.removed, **further.removed}
        }
        bound = max(self.lower_bound, self.base + further.lower_bound)
        base = self.base + further.base
        return Reduced(
            further.problem, base, self.fixed | further.fixed, self.replaced | further.replaced, bound, removed
        )

    def lower(self, choice: Sequence[int]) -> Choice:
        """What is left of a choice for the original; -1 where that has to be completed."""
        lowered = list(choice)
        for cls, node in enumerate(lowered):
            while node in self.replaced:
                node = self.replaced[node]
            lowered[cls] = node if not self.problem.nodes[cls] or node in self.problem.nodes[cls] else -1
        return lowered

    def lift(self, original: Problem, choice: Sequence[int]) -> Choice:
        """The trimmed choice for ``original`` that a choice for ``problem`` stands for."""
        lifted = list(choice)
        for cls, node in self.fixed.items():
            lifted[cls] = node
        return original.trim(lifted)
