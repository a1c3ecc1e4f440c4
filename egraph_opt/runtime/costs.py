"""What pricing returns, and what a cost model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from egraph_opt.ir import TensorType
from egraph_opt.ops import operator
from egraph_opt.runtime.signature import FREE, Signature

SECONDS_PER_STORED_BYTE = 1e-13
"""Price of a byte of weights: too little to decide against a gain, enough to prefer the smaller of equals."""
Origin = Literal["free", "model", "measured", "estimated"]
OnProgress = Callable[[int, int], None]
Order = tuple[int, ...]
"""The axes of a value from the slowest to the fastest in memory; empty: row-major, whatever the rank."""
ROW_MAJOR: Order = ()
Orders = Mapping[int, Order]
"""The orders of values that are not row-major, by number."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of one operator, once.

    Attributes:
        seconds: what a run of the operator takes; never negative.
        flops: arithmetic operations.
        bytes: bytes read and written; 0 for an operator that touches no element.
        lower_bound: seconds that no implementation on this target can go below; at most ``seconds``.
        origin: ``free`` (does nothing), ``model`` (a formula), ``measured``, or ``estimated``: the target cannot
            run it or time was short, so a formula stands in, scaled to what was measured.
        layout: seconds for the layout changes around a lone operator, not part of ``seconds``: between two operators
            that want the same layout nothing is changed.
    """

    seconds: float
    flops: int
    bytes: int
    lower_bound: float
    origin: Origin
    layout: float = 0.0

    @property
    def estimated(self) -> bool:
        """Whether a measurement was wanted and is missing."""
        return self.origin == "estimated"


NOTHING = Cost(0.0, 0, 0, 0.0, "free")


@dataclass(frozen=True, slots=True)
class Whole:
    """Seconds of one run of a whole graph, and the orders of its nodes with which it takes that; None: by a rule of
    thumb."""

    seconds: float
    orders: Orders | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """What can be said of the price of a signature before it is measured.

    Attributes:
        key: signatures with the same key are measured as one.
        cost: the price, where no measurement is wanted or it is there already; else None.
        lower_bound: seconds that the price is expected not to be below; a price below it must be taken for a fault.
    """

    key: str
    cost: Cost | None
    lower_bound: float

    @staticmethod
    def known(signature: Signature, cost: Cost) -> Quote:
        """The quote of a price that needs no measurement."""
        return Quote(signature.key, cost, cost.seconds)


class CostModel(Protocol):
    """Prices signatures for one target; a frozen dataclass whose fields are its options."""

    name: ClassVar[str]
    description: ClassVar[str]

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """One cost per signature, in order; equal signatures get equal costs.

        Args:
            signatures: with static types.
            reference: measured before; a model that scales what it cannot measure to what it has measured scales it
                to these, so that the answer does not depend on the rest of ``signatures``.
            on_progress: called with (done, total) while signatures without a known price are measured.
            deadline: a reading of ``time.monotonic()``; what is not measured by then is estimated.
        """
        ...

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """What ``price`` would say with the same ``reference`` or, where it had to measure, a bound of that.

        None of the signatures is measured.
        """
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator has to do: arithmetic, bytes in and out, and bytes out alone."""

    flops: int
    bytes: int
    written: int
    dtype: str


def work(signature: Signature) -> Work:
    """The work of a signature; an operator that is not in the table writes nothing and reads its operands once.

    Raises:
        ValueError: a size is symbolic.
    """
    read = sum(_bytes(t) for t in signature.types if isinstance(t, TensorType))
    dtype = next((t.dtype for t in signature.types if isinstance(t, TensorType)), "float32")
    if signature.op in FREE:
        return Work(0, 0, 0, dtype)
    if not signature.is_known:
        return Work(0, read, 0, dtype)
    declared = operator(signature.op)
    flops = declared.flops(signature.attrs, signature.tensors, signature.result)
    if not declared.moves_data(signature.attrs):
        return Work(flops, 0, 0, dtype)
    written = sum(_bytes(t) for t in signature.results)
    if flops == 0:  # a data mover reads what it writes: a slice of a large tensor does not read all of it
        read = min(read, written)
    return Work(flops, read + written, written, dtype)


def _bytes(type_: TensorType) -> int:
    count = type_.itemsize
    for size in type_.numbers():
        count *= size
    return count
