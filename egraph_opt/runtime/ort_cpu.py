"""Prices by measurement in ONNX Runtime on this machine's CPU."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.ops import operator
from egraph_opt.runtime.analytic import DEVICES
from egraph_opt.runtime.bounds import Peaks
from egraph_opt.runtime.costs import NOTHING, Cost, OnProgress, Quote, Work, work
from egraph_opt.runtime.database import CostDatabase, Entry, Scope
from egraph_opt.runtime.measure import FLOOR, Bench, Measurement
from egraph_opt.runtime.signature import FREE, Signature

ALIAS = "@alias"
"""Database key of an operator that renames a buffer: what it costs does not depend on its operands."""

PROBES = (
    Signature("MatMul", (), (TensorType("float32", (192, 192)),) * 2, (False, True)),
    Signature("Relu", (), (TensorType("float32", (32768,)),), (False,)),
)
"""What runs fastest on a core: a product whose operands fit its L2 cache, and a sweep over 128 kB."""

_LATE = Entry(None, note="not measured")
_LARGEST_BYTES = 1_500_000_000  # a single operator beyond this is estimated: its model would not fit protobuf
_WRITE_EVERY_SECONDS = 2.0


@dataclass(frozen=True)
class OrtCpu:
    """Measures each distinct signature once per machine and version, and keeps the answer.

    Attributes:
        threads: threads inside an operator; 1 is timed in CPU time of the thread, more in wall time.
        budget_seconds: wall time per signature, sessions not counted.
        database: where costs are kept; the one in the cache folder by default.
    """

    name: ClassVar[str] = "ort-cpu"
    description: ClassVar[str] = "measured in ONNX Runtime on this machine's CPU, kept in a database"

    threads: int = 1
    budget_seconds: float = 0.012
    database: CostDatabase | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1, not {self.threads}")
        if not self.budget_seconds > 0:
            raise UsageError(f"budget_seconds must be positive, not {self.budget_seconds}")

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """See ``CostModel.price``. The longest operators, by formula, are measured first."""
        with self._opened() as database:
            scope = Scope.here(self.name, self.threads)
            entries = database.read(_distinct([*signatures, *reference]), scope)
            missing = {key: s for key, s in _distinct(signatures).items() if key not in entries}
            if missing:
                entries |= self._measure(missing, database, scope, on_progress, deadline)
        return self._costs(signatures, entries, reference)

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """See ``CostModel.quote``. Speeds are bounded by what has been measured among ``signatures``, ``reference``
        and two probes of this machine; the probes are measured where the database lacks them."""
        wanted = [*signatures, *reference]
        with self._opened() as database:
            scope = Scope.here(self.name, self.threads)
            entries = database.read(_distinct([*wanted, *PROBES]), scope)
            if any(key not in entries for key in _distinct(signatures)):
                probes = {key: s for key, s in _distinct(PROBES).items() if key not in entries}
                entries |= self._measure(probes, database, scope, None, None) if probes else {}
        costs = self._costs(signatures, entries, reference)
        seen = [(work(s), e.seconds) for s in [*wanted, *PROBES] if (e := _known(s, entries)).seconds]
        peaks = Peaks.of(seen, _widening)
        quotes: list[Quote] = []
        for signature, cost in zip(signatures, costs, strict=True):
            if not _is_measurable(signature) or _database_key(signature) in entries:
                quotes.append(Quote.known(signature, cost))
            else:
                bound = max(peaks.seconds(work(signature)) / self.threads, FLOOR)  # the fastest may have used one
                quotes.append(Quote(_database_key(signature), None, bound))
        return quotes

    @contextmanager
    def _opened(self) -> Generator[CostDatabase]:
        database = self.database or CostDatabase.open()
        try:
            yield database
        finally:
            if self.database is None:
                database.close()

    @cached_property
    def _bench(self) -> Bench:
        return Bench(self.threads, self.budget_seconds)

    def _measure(
        self,
        missing: Mapping[str, Signature],
        database: CostDatabase,
        scope: Scope,
        on_progress: OnProgress | None,
        deadline: float | None,
    ) -> dict[str, Entry]:
        order = sorted(missing, key=lambda key: (-_roofline(work(missing[key]), self.threads), key))
        bench = self._bench
        made, unsaved, disturbed = dict[str, Entry](), dict[str, Entry](), list[str]()
        saved_at = time.monotonic()
        try:
            for turn, key in enumerate(itertools.chain(order, disturbed)):  # what was disturbed has a second turn
                if deadline is not None and time.monotonic() >= deadline:
                    break
                entry, again = _measure_one(bench, key, missing[key])
                if turn < len(order):
                    disturbed += [key] if again else []
                elif not _is_better(entry, made[key]):
                    continue
                made[key] = unsaved[key] = entry
                if time.monotonic() - saved_at > _WRITE_EVERY_SECONDS:  # another process need not measure these again
                    database.write(unsaved, scope)
                    unsaved, saved_at = {}, time.monotonic()
                if on_progress is not None and turn < len(order):
                    on_progress(turn + 1, len(order))
        finally:  # what is measured is kept when the user interrupts
            database.write(unsaved, scope)
        return made

    def _costs(
        self, signatures: Sequence[Signature], entries: Mapping[str, Entry], reference: Sequence[Signature]
    ) -> list[Cost]:
        late = self._scales(signatures, entries)
        never = self._scales(reference, entries) if reference else late
        costs: dict[Signature, Cost] = {}
        for s in dict.fromkeys(signatures):
            entry = _known(s, entries)
            costs[s] = NOTHING if s.op in FREE else self._cost(s, entry, late if entry is _LATE else never)
        return [costs[s] for s in signatures]

    def _scales(self, signatures: Sequence[Signature], entries: Mapping[str, Entry]) -> _Scales:
        seen = {s: seconds for s in dict.fromkeys(signatures) if (seconds := _known(s, entries).seconds)}
        return _Scales.of({s: seconds / _roofline(work(s), self.threads) for s, seconds in seen.items()})

    def _cost(self, signature: Signature, entry: Entry, scales: _Scales) -> Cost:
        seconds, todo = entry.seconds, work(signature)
        if seconds is None:
            seconds = max(_roofline(todo, self.threads) * scales.get(signature.op), FLOOR)
        bound = min(seconds, _lower_bound(todo, self.threads))
        return Cost(
            seconds, todo.flops, todo.bytes, bound, "estimated" if entry.seconds is None else "measured", entry.layout
        )


@dataclass(frozen=True, slots=True)
class _Scales:
    """Measured seconds over roofline seconds: the median per operator, and of all."""

    by_op: Mapping[str, float]
    overall: float

    @staticmethod
    def of(ratios: Mapping[Signature, float]) -> _Scales:
        by_op: dict[str, list[float]] = {}
        for signature, ratio in ratios.items():
            by_op.setdefault(signature.op, []).append(ratio)
        overall = statistics.median(ratios.values()) if ratios else 1.0
        return _Scales({op: statistics.median(found) for op, found in by_op.items()}, overall)

    def get(self, op: str) -> float:
        return self.by_op.get(op, self.overall)


def _is_measurable(signature: Signature) -> bool:
    return signature.op not in FREE and signature.is_known and work(signature).bytes <= _LARGEST_BYTES


def _distinct(signatures: Sequence[Signature]) -> dict[str, Signature]:
    """What can be measured, by its key in the database."""
    return {_database_key(s): s for s in signatures if _is_measurable(s)}


def _database_key(signature: Signature) -> str:
    moves = operator(signature.op).moves_data(signature.attrs)
    return signature.key if moves else ALIAS


def _known(signature: Signature, entries: Mapping[str, Entry]) -> Entry:
    if not _is_measurable(signature):
        return Entry(None, note="not measurable")
    return entries.get(_database_key(signature), _LATE)


def _measure_one(bench: Bench, key: str, signature: Signature) -> tuple[Entry, bool]:
    """The entry, and whether the machine was disturbed while it was measured."""
    if key == ALIAS:
        return Entry(bench.baseline.alias), False
    try:
        found: Measurement = bench.measure(signature)
    except Exception as error:  # ONNX Runtime's errors have no common base class
        return Entry(None, note=" ".join(str(error).split())[:300]), False
    return Entry(found.seconds, found.layout), found.disturbed


def _is_better(new: Entry, old: Entry) -> bool:
    return new.seconds is not None and (old.seconds is None or new.seconds < old.seconds)


def _roofline(todo: Work, threads: int) -> float:
    return DEVICES["avx2"].seconds(todo, threads)


def _lower_bound(todo: Work, threads: int) -> float:
    """Seconds that no core reaches: two 512-bit FMAs per cycle at 5 GHz, and results at the speed of the L1 cache."""
    return max(todo.flops / (3.2e11 * _widening(todo.dtype)), todo.written / 6e11) / threads


def _widening(dtype: str) -> float:
    return {"float32": 1.0, "float64": 1.0, "float16": 2.0, "bfloat16": 8.0}.get(dtype, 8.0)
