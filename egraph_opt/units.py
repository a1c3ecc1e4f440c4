"""Numbers as people read them."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    """A duration in the unit that people would use."""
    if value is None:
        return "-"
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if value * factor < 1000:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def size(count: int) -> str:
    """Bytes in the unit that people would use."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"
