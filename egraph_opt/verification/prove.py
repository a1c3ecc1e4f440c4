"""Whether two models are equal by the rules: both in one e-graph, and nothing run.

The rules are applied to both models at once. An output is proved when its two expressions end in one class: then a
chain of rules, each of which holds for every input, leads from one to the other. That no rule was found says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules, select_rules
from egraph_opt.rewrites.validation import admit
from egraph_opt.saturation import Frozen, Limits, Saturation, saturate
from egraph_opt.saturation.congruence import Congruence
from egraph_opt.verification.compare import Numerics
from egraph_opt.verification.interface import interface_difference
from egraph_opt.verification.joined import Joined, join

Array = NDArray[np.generic]
ROUNDS = (0, 2, 4, 8, 16)
"""Rounds of saturation after which the search looks whether the outputs have met."""
ROUNDING = 64
"""Units in the last place, of a constant's largest element, that two foldings of one constant may differ by."""


@dataclass(frozen=True, slots=True)
class OutputEquality:
    """One output.

    Attributes:
        rules: those among the rules of the whole proof without which this output is not merged.
        reason: why it was not merged, where that is known.
    """

    name: str
    merged: bool
    rules: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Equality:
    """The answer.

    Attributes:
        kind: ``proved``: every output merged; ``not shown``: some did not, which disproves nothing; ``different
            interface``: there is nothing to compare.
        rules: rules that suffice for the outputs that merged, and that were all needed if ``minimal``.
        constants: pairs of constants that met because their values agree; ``difference`` is the largest, relative to
            the constant's largest element (0: bit for bit).
        rounds: rounds of saturation; ``nodes`` e-nodes were made.
    """

    kind: Literal["proved", "not shown", "different interface"]
    reason: str
    outputs: tuple[OutputEquality, ...] = ()
    rules: tuple[str, ...] = ()
    minimal: bool = True
    constants: int = 0
    difference: float = 0.0
    rounds: int = 0
    nodes: int = 0
    seconds: float = 0.0

    @property
    def proved(self) -> bool:
        """Whether every output was merged."""
        return self.kind == "proved"


def prove(
    original: onnx_ir.Model,
    candidate: onnx_ir.Model,
    *,
    numerics: Numerics = "standard",
    rules: Sequence[Rule] = (),
    limits: Limits | None = None,
    explain_seconds: float = 30.0,
) -> Equality:
    """Tries to show by rules that two models are equal; neither is changed, and neither is run.

    Args:
        numerics: which rules may be used: what they do to rounding, overflow and infinities. Constants that rules
            computed must have the same bits for ``exact``, else agree to rounding.
        rules: rules to use instead of those that ship.
        limits: of one saturation.
        explain_seconds: time for finding out which rules are needed, by leaving some out.

    Raises:
        UsageError: ``numerics`` is none of the three.
        BudgetError: not even the two models fitted into the limits.
    """
    if numerics not in get_args(Numerics):
        raise UsageError(f"unknown numerics {numerics!r}: choose one of {', '.join(get_args(Numerics))}")
    start = time.monotonic()
    difference = interface_difference(original, candidate)
    if difference:
        return Equality("different interface", difference)
    chosen = admit(select_rules(rules or all_rules(), numerics))
    search = _Search(join(original, candidate), numerics, limits or Limits())
    found = search.first(chosen)
    needed, breaks, minimal = search.needed(found, explain_seconds) if found.merged else ((), {}, True)
    outputs = tuple(
        OutputEquality(
            value.name or "",
            index in found.merged,
            tuple(rule for rule in needed if index in breaks.get(rule, ())),
            search.why_not(index) if index not in found.merged else "",
        )
        for index, value in enumerate(original.graph.outputs)
    )
    proved = all(o.merged for o in outputs)
    return Equality(
        "proved" if proved else "not shown",
        _sentence(len(outputs), len(found.merged), found),
        outputs,
        needed,
        minimal,
        found.constants,
        found.difference,
        found.rounds,
        found.saturation.report.nodes,
        time.monotonic() - start,
    )


def _sentence(total: int, merged: int, found: _Attempt) -> str:
    if merged == total:
        return "every output of the two is one class of the e-graph"
    why = found.saturation.report.reason
    return f"{total - merged} of {total} outputs did not merge ({why}); that does not show that they differ"


@dataclass(frozen=True)
class _Attempt:
    """One saturation, and the outputs (by position) whose two sides met in it."""

    rules: tuple[Rule, ...]
    saturation: Saturation
    rounds: int
    merged: frozenset[int]
    constants: int
    difference: float


@dataclass(frozen=True)
class _Search:
    joined: Joined
    numerics: Numerics
    limits: Limits

    def first(self, rules: Sequence[Rule]) -> _Attempt:
        """The attempt with the fewest rounds in which all outputs met, else the last one."""
        attempt = self.attempt((), 0)
        for rounds in sorted({min(r, self.limits.iterations) for r in ROUNDS[1:]}):
            if len(attempt.merged) == len(self.joined.outputs[0]):
                break
            attempt = self.attempt(rules, rounds)
            if len(attempt.saturation.report.iterations) < rounds:
                break
        return attempt

    def attempt(self, rules: Sequence[Rule], rounds: int) -> _Attempt:
        """Saturates for some rounds, lets equal constants meet, and sees which outputs are one class."""
        limits = replace(self.limits, iterations=rounds)
        guard = self.numerics != "fast"
        saturation = saturate(self.joined.graph, rules, limits, guard_cancellation=guard, sides=self.joined.sides)
        frozen = saturation.frozen
        classes = Congruence(frozen.folder.enodes, len(frozen.class_types))
        met = list(self._equal_constants(frozen))
        classes.unite((a, b) for a, b, _ in met)
        merged = frozenset(
            index
            for index, (a, b) in enumerate(zip(*self.joined.outputs, strict=True))
            if classes.find(frozen.original[a]) == classes.find(frozen.original[b])
        )
        return _Attempt(tuple(rules), saturation, rounds, merged, len(met), max((d for _, _, d in met), default=0.0))

    def needed(self, found: _Attempt, seconds: float) -> tuple[tuple[str, ...], Mapping[str, Collection[int]], bool]:
        """Rules that suffice for what was merged, the outputs that each is needed for, and whether time was enough.

        Halves, quarters... of the rules are left out as long as everything still merges (Zeller and Hildebrandt,
        "Simplifying and isolating failure-inducing input", TSE 2002); in the end single ones.
        """
        deadline = time.monotonic() + seconds
        fired = {name for names in found.saturation.frozen.fired.values() for name in names}
        rules = [r for r in found.rules if r.name in fired]
        size = (len(rules) + 1) // 2
        while size > 1:
            start = 0
            while start < len(rules):
                if time.monotonic() > deadline:
                    return tuple(r.name for r in rules), {}, False
                rest = rules[:start] + rules[start + size :]
                if self.attempt(rest, found.rounds).merged >= found.merged:
                    rules = rest
                else:
                    start += size
            size = min((size + 1) // 2, len(rules))
        return self._single(rules, found, deadline)

    def _single(
        self, rules: list[Rule], found: _Attempt, deadline: float
    ) -> tuple[tuple[str, ...], Mapping[str, Collection[int]], bool]:
        breaks: dict[str, Collection[int]] = {}
        for rule in tuple(rules):
            if time.monotonic() > deadline:
                return tuple(r.name for r in rules), breaks, False
            rest = [r for r in rules if r is not rule]
            lost = found.merged - self.attempt(rest, found.rounds).merged
            if lost:
                breaks[rule.name] = lost
            else:
                rules = rest
        return tuple(r.name for r in rules), breaks, True

    def why_not(self, index: int) -> str:
        """What is known of an output that did not merge."""
        a, b = (self.joined.graph.types[side[index]] for side in self.joined.outputs)
        return f"it is {a} in one model and {b} in the other" if a != b else "no chain of rules was found"

    def _equal_constants(self, frozen: Frozen) -> Iterator[tuple[int, int, float]]:
        """Pairs of classes of one value, and how far they are apart.

        Of interest are constants that only one of the models holds: the other computes them, or never will. Each is
        compared with every constant class of its type.
        """
        graph, (first, second) = self.joined.graph, self.joined.sides
        alone = [i for i in sorted(first ^ second) if graph.nodes[i].op == "Const"]
        wanted = dict.fromkeys(frozen.original[i] for i in alone)
        by_type: dict[str, list[int]] = {}
        for cls in frozen.folder.recipe:
            by_type.setdefault(repr(frozen.class_types[cls]), []).append(cls)
        for cls in wanted:
            type_ = frozen.class_types[cls]
            if not isinstance(type_, TensorType) or cls not in frozen.folder.recipe:
                continue
            value = frozen.folder.value(cls)
            for other in by_type[repr(type_)]:
                if other == cls or (other in wanted and other < cls):
                    continue
                apart = self._apart(np.asarray(value), np.asarray(frozen.folder.value(other)))
                if apart is not None:
                    yield cls, other, apart

    def _apart(self, a: Array, b: Array) -> float | None:
        """How far two constants are apart, relative to the largest element; ``None`` if they are different ones."""
        if a.tobytes() == b.tobytes():
            return 0.0
        if self.numerics == "exact" or a.dtype.kind != "f" or not (np.isfinite(a).all() and np.isfinite(b).all()):
            return None
        x, y = a.astype(np.float64), b.astype(np.float64)
        scale = float(np.max(np.abs(x), initial=0.0))
        apart = float(np.max(np.abs(x - y), initial=0.0))
        return apart / scale if apart <= ROUNDING * float(np.finfo(str(a.dtype)).eps) * scale else None
