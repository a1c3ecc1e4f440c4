"""Types of values. A type is what an e-class knows of itself: dtype and shape, or a tuple of those."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from egraph_opt.ir.sizes import Size, SizeExpr, product

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
NUMERIC = FLOATS | INTEGERS
_BYTES = {"bool": 1, "bfloat16": 2, "complex64": 8, "complex128": 16, "string": 16}


@cache
def _itemsize(dtype: str) -> int:
    if dtype in _BYTES:
        return _BYTES[dtype]
    digits = "".join(c for c in dtype if c.isdigit())
    return max(1, int(digits) // 8) if digits and not dtype.startswith("float8") else 1


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of ``dtype`` (NumPy's name, and ``bfloat16``, ``string``...) whose rank is known."""

    dtype: str
    shape: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Size:
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(size, int) for size in self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element (4-bit types count a whole byte)."""
        return _itemsize(self.dtype)

    @property
    def bytes(self) -> Size:
        return self.elements * self.itemsize

    def numbers(self) -> tuple[int, ...]:
        """The shape of a static tensor.

        Raises:
            ValueError: a size is symbolic.
        """
        for size in self.shape:
            if not isinstance(size, int):
                raise ValueError(f"{self} has symbolic sizes")
        return self.shape  # type: ignore[return-value]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A value whose rank is not known, or that is no tensor; ``name`` tells such values apart."""

    name: str
    dtype: str = "unknown"

    def __str__(self) -> str:
        return f"{self.dtype}<{self.name}>"


@dataclass(frozen=True, slots=True)
class TupleType:
    """The value of an operator with several outputs; ``Get`` takes one of them."""

    items: tuple[TensorType | OpaqueType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type = TensorType | OpaqueType | TupleType

__all__ = ["FLOATS", "INTEGERS", "NUMERIC", "OpaqueType", "SizeExpr", "TensorType", "TupleType", "Type"]
