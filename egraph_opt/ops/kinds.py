"""Words that all files of this room share: arrays, attributes, and why an operator cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import AttrValue, TensorType

Array = NDArray[Any]  # of any of our dtypes; NumPy's own types allow no arithmetic on ``generic``
Attrs = tuple[AttrValue, ...]
Types = Sequence[TensorType]
Rng = np.random.Generator


class IllTyped(ValueError):  # noqa: N818
    """The operator cannot be applied to operands of these types."""


class Unsupported(Exception):  # noqa: N818
    """This ONNX node cannot be expressed by the operator table; it stays opaque. The message says why.

    ``type`` is that of its only result, where it is known all the same.
    """

    def __init__(self, message: str, type: TensorType | None = None) -> None:
        super().__init__(message)
        self.type = type
