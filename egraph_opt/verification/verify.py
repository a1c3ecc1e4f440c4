"""Whether one model may stand in for another: static checks, then both run on the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import onnx_ir
import onnxruntime as ort

from egraph_opt.errors import UsageError
from egraph_opt.runtime import Array, run_session
from egraph_opt.verification.cases import Case, planned_cases
from egraph_opt.verification.compare import (
    Comparison,
    Numerics,
    Reference,
    compare,
    flatten,
    reference,
    rounding,
    scale,
)
from egraph_opt.verification.interface import interface_difference
from egraph_opt.verification.oracle import DoubleOracle, NotCovered
from egraph_opt.verification.precision import computed_in
from egraph_opt.verification.serialize import Runnable, checker_complaint, runnable
from egraph_opt.verification.verdict import Evidence, Verdict

Outputs = list[tuple[str, Array]]
Feeds = Mapping[str, Array]
Plan = Callable[[ort.InferenceSession], list[Case]]
"""The cases to try, given the original without optimizations."""
_USUAL = ("user", "normal")  # kinds of input that show an output's usual magnitude
ORACLE_CASES = 2
"""Ordinary inputs on which both models are also evaluated in float64."""
_FLOAT16_NOTE = "ONNX Runtime computes float16 in float32 on the CPU: overflow inside the model is not seen"


def verify(
    original: onnx_ir.Model,
    candidate: onnx_ir.Model,
    *,
    numerics: Numerics = "standard",
    sizes: Sequence[Mapping[str, int]] = (),
    others: bool = False,
    feeds: Feeds | Sequence[Feeds] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
) -> Verdict:
    """Compares two models; neither is changed.

    The oracle is ONNX Runtime without optimizations on the original. The candidate runs there too, and once more at
    the highest level, as users run it. How far the original's own two levels are apart sets the tolerance.

    Args:
        numerics: ``exact`` compares bits, and feeds infinities and NaN; ``fast`` allows reduced precision.
        sizes: numbers for the symbolic sizes, one mapping per case; found by trial when there is none.
        others: also compare at other sizes than the first of ``sizes``, found by trial.
        feeds: the user's own inputs, run besides the random ones.
        seed: of the random inputs.
        time_limit: seconds after which no further input is tried; the first one is always run.

    Raises:
        UsageError: ``numerics`` is none of the three.
    """
    if numerics not in get_args(Numerics):
        raise UsageError(f"unknown numerics {numerics!r}: choose one of {', '.join(get_args(Numerics))}")
    return _Verification(original, candidate, numerics, time_limit).run(sizes, _as_list(feeds), seed, others=others)


def _as_list(feeds: Feeds | Sequence[Feeds] | None) -> list[Feeds]:
    if feeds is None:
        return []
    return [feeds] if isinstance(feeds, Mapping) else list(feeds)


@dataclass
class _Verification:
    original: onnx_ir.Model
    candidate: onnx_ir.Model
    numerics: Numerics
    time_limit: float | None
    notes: list[str] = field(default_factory=list[str])
    checks: list[str] = field(default_factory=list[str])
    started: float = field(default_factory=time.monotonic)
    computed_in: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])

    def run(self, sizes: Sequence[Mapping[str, int]], feeds: Sequence[Feeds], seed: int, *, others: bool) -> Verdict:
        fault = self._static_fault()
        if fault:
            return self._verdict("invalid", fault)
        with ExitStack() as stack:
            old, new = stack.enter_context(runnable(self.original)), stack.enter_context(runnable(self.candidate))

            def plan(session: ort.InferenceSession) -> list[Case]:
                return planned_cases(
                    self.original, self.numerics, sizes, feeds, seed, self.notes, session, others=others
                )

            return self._differential(old, new, plan)

    def _static_fault(self) -> str | None:
        self.checks.append("onnx.checker with full shape inference")
        complaint = checker_complaint(self.candidate)
        if complaint and checker_complaint(self.original):
            self.notes.append(f"onnx.checker rejects the original too: {complaint}")
        elif complaint:
            return f"onnx.checker rejects the candidate: {complaint}"
        self.checks.append("names, order and types of inputs and outputs")
        return interface_difference(self.original, self.candidate)

    def _differential(self, old: Runnable, new: Runnable, plan: Plan) -> Verdict:
        """One session after the other, so that a large model is in memory once."""
        try:
            ran, low, stochastic = self._run_original(old, plan)
        except UsageError as error:
            return self._verdict("unverified", f"could not be verified: {error}")
        except MemoryError as error:
            return self._verdict("unverified", f"could not be verified: there is not enough memory: {_line(error)}")
        except Exception as error:  # ONNX Runtime's errors have no common base class
            return self._verdict("unverified", f"could not be verified: the original does not load: {_line(error)}")
        if not ran:
            return self._verdict("unverified", "could not be verified: the original runs on no input that was tried")
        expected = self._calibrate(old, ran, low)
        evidence: list[Evidence] = []
        for optimize in (False, True):
            self.checks.append(f"ran at ONNX Runtime's {'highest' if optimize else 'lowest'} level of optimization")
            fault = self._run_candidate(new, ran, expected, stochastic, optimize, evidence)
            if fault:
                return self._verdict("invalid", fault, evidence)
        if not stochastic:
            self._ask_double_oracle(ran, expected, evidence)
        return self._judge(evidence, stochastic, len(ran))

    def _ask_double_oracle(
        self, ran: Sequence[tuple[Case, Feeds]], expected: Sequence[Sequence[Reference]], evidence: list[Evidence]
    ) -> None:
        """Compares both models in our own float64 semantics on ordinary inputs, where both can be evaluated."""
        try:
            usual = [(c, f, e) for (c, f), e in zip(ran, expected, strict=True) if c.kind in _USUAL]
            old = DoubleOracle.of(self.original)
            for _, fed, _ in usual[:1]:
                old.check_work(fed)  # before the other one is read
            new = DoubleOracle.of(self.candidate)
            for done, (case, fed, references) in enumerate(usual[:ORACLE_CASES]):
                if done and self._is_late(done, 1.0):
                    break
                before, after = old.run(fed), new.run(fed)
                for (name, value), (_, made), wanted in zip(before, after, references, strict=True):
                    expect = reference(value, None, scale(value), self.numerics)
                    settled = wanted.settled if wanted.settled.shape == value.shape else expect.settled
                    # which of NaN, inf and -inf comes out depends on the order of operations, in any precision
                    expect = replace(expect, settled=settled, alike=np.zeros(value.shape, bool))
                    coarse = self.computed_in.get(name, ())
                    tolerance = rounding(wanted.value, self.numerics, coarse) * max(scale(value), 1e-30)
                    found = compare(replace(expect, tolerance=tolerance), made, self.numerics, bits=False)
                    fault = f"{found.fault} (evaluated in float64)" if found.fault else ""
                    evidence.append(
                        Evidence(name, case.kind, case.sizes, "float64", found.error, float(tolerance), fault)
                    )
        except NotCovered as why:
            self.notes.append(f"not compared in float64 semantics of our own: {why}")
        else:
            self.checks.append("evaluated both in the operator table's own float64 semantics")

    def _run_original(self, old: Runnable, plan: Plan) -> tuple[list[tuple[Case, Feeds]], list[Outputs], bool]:
        """The cases on which the original runs, what it fed and returned, and whether it is random."""
        session = old.open(optimize=False)
        cases = plan(session)
        self.checks.append("ran the original without optimizations")
        names = [o.name for o in session.get_outputs()]
        ran: list[tuple[Case, Feeds]] = []
        outputs: list[Outputs] = []
        stochastic = False
        for case in cases:
            if ran and self._is_late(len(outputs), 0.25):
                break
            fed, got, complaint = None, None, ""
            for fed in case.attempts():
                try:
                    got = flatten(run_session(session, fed), names)
                    break
                except Exception as error:  # ONNX Runtime's errors have no common base class
                    complaint = _line(error)
            if got is None or fed is None:
                self.notes.append(f"skipped {case}: the original fails on it ({complaint})")
                continue
            if not ran:
                stochastic = not _identical(got, flatten(run_session(session, fed), names))
            ran.append((case, fed))
            outputs.append(got)
        return ran, outputs, stochastic

    def _calibrate(
        self, old: Runnable, ran: Sequence[tuple[Case, Feeds]], low: Sequence[Outputs]
    ) -> list[list[Reference]]:
        """What is expected of every output on every case."""
        scales: dict[str, float] = {}
        for (case, _), outputs in zip(ran, low, strict=True):
            for name, array in outputs:
                usual = scale(array) if case.kind in _USUAL else 0.0
                scales[name] = max(scales.get(name, 0.0), usual)
        self._note_oracles(low)
        self.computed_in = computed_in(self.original)
        high: list[dict[str, Array]] = []
        try:
            session = old.open(optimize=True)
            names = [o.name for o in session.get_outputs()]
            for done, (_, fed) in enumerate(ran):
                if done and self._is_late(done, 0.5):
                    break
                high.append(dict(flatten(run_session(session, fed), names)))
        except Exception as error:  # ONNX Runtime's errors have no common base class
            self.notes.append(f"ONNX Runtime's highest level fails on the original: {_line(error)}")
        high += [{}] * (len(ran) - len(high))
        return [
            [
                reference(array, other.get(name), scales[name], self.numerics, self.computed_in.get(name, ()))
                for name, array in outputs
            ]
            for outputs, other in zip(low, high, strict=True)
        ]

    def _run_candidate(
        self,
        new: Runnable,
        ran: Sequence[tuple[Case, Feeds]],
        expected: Sequence[Sequence[Reference]],
        stochastic: bool,
        optimize: bool,
        evidence: list[Evidence],
    ) -> str | None:
        """Adds evidence; returns why the candidate cannot be used at all, if so."""
        try:
            session = new.open(optimize=optimize)
        except Exception as error:  # ONNX Runtime's errors have no common base class
            return f"ONNX Runtime cannot load the candidate: {_line(error)}"
        names = [o.name for o in session.get_outputs()]
        bits = self.numerics == "exact" and not optimize
        for done, ((case, fed), references) in enumerate(zip(ran, expected, strict=True)):
            if done and self._is_late(done, 1.0 if optimize else 0.75):
                break
            try:
                outputs = flatten(run_session(session, fed), names)
            except Exception as error:  # ONNX Runtime's errors have no common base class
                evidence.append(
                    self._row(names[0], case, optimize, Comparison(np.inf, f"fails to run: {_line(error)}"), 0)
                )
                continue
            if len(outputs) != len(references):
                fault = f"returns {len(outputs)} tensors instead of {len(references)}"
                evidence.append(self._row(names[0], case, optimize, Comparison(np.inf, fault), 0))
                continue
            for (name, got), wanted in zip(outputs, references, strict=True):
                found = _kind_only(wanted, got) if stochastic else compare(wanted, got, self.numerics, bits=bits)
                evidence.append(self._row(name, case, optimize, found, 0 if bits else wanted.tolerance))
        return None

    def _row(self, name: str, case: Case, optimize: bool, found: Comparison, tolerance: float) -> Evidence:
        level = "all" if optimize else "none"
        return Evidence(name, case.kind, case.sizes, level, found.error, float(tolerance), found.fault)

    def _judge(self, evidence: Sequence[Evidence], stochastic: bool, cases: int) -> Verdict:
        bad = next((row for row in evidence if not row.agrees), None)
        if bad is not None:
            at = f" at {dict(bad.sizes)}" if bad.sizes else ""
            return self._verdict("different", f"output {bad.output!r} on {bad.case} input{at}: {bad.fault}", evidence)
        if stochastic:
            self.notes.append("the original is random: two runs differ, so only shapes and types were compared")
        levels = {row.level for row in evidence}
        assert levels >= {"none", "all"}, levels
        oracles = "at both levels of ONNX Runtime" + (" and in float64" if "float64" in levels else "")
        return self._verdict("equivalent", f"all outputs agree on {cases} inputs {oracles}", evidence)

    def _note_oracles(self, low: Sequence[Outputs]) -> None:
        by_name: dict[tuple[str, tuple[int, ...]], list[Array]] = {}
        for outputs in low:
            for name, array in outputs:
                by_name.setdefault((name, array.shape), []).append(array)
        for (name, _), arrays in by_name.items():
            first, *others = arrays
            if first.dtype.kind == "f" and first.size and others and all(_hardly_differ(first, o) for o in others):
                self.notes.append(f"output {name!r} hardly depends on the input: its agreement says little")
        dtypes = {v.dtype for v in [*self.original.graph.inputs, *self.original.graph.initializers.values()]}
        if onnx_ir.DataType.FLOAT16 in dtypes:
            self.notes.append(_FLOAT16_NOTE)

    def _is_late(self, done: int, share: float) -> bool:
        """Whether the part of the time that earlier steps may use is spent; says so once."""
        if self.time_limit is None or time.monotonic() - self.started < share * self.time_limit:
            return False
        note = "the time limit cut the number of inputs"
        if note not in self.notes:
            self.notes.append(note)
        return True

    def _verdict(self, kind: str, reason: str, evidence: Sequence[Evidence] = ()) -> Verdict:
        notes = tuple(dict.fromkeys(self.notes))
        return Verdict(kind, reason, tuple(evidence), notes, tuple(self.checks))  # type: ignore[arg-type]


def _kind_only(wanted: Reference, got: Array) -> Comparison:
    same = got.dtype == wanted.value.dtype and got.shape == wanted.value.shape
    return Comparison(0.0, "") if same else compare(wanted, got, "fast", bits=False)


def _identical(first: Outputs, second: Outputs) -> bool:
    if len(first) != len(second):
        return False
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(first, second, strict=True))


def _hardly_differ(a: Array, b: Array) -> bool:
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(a.astype(np.float64) - b), initial=0.0))
    return reference(a, None, 0.0, "standard").tolerance >= largest


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
