"""Matrix products through cuBLASLt: every algorithm that its heuristic proposes for a product is a candidate.

CuPy refuses cuBLAS while a CUDA graph is captured, so the library is called through nvmath's bindings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from egraph_opt.runtime.cuda.device import library
from egraph_opt.runtime.cuda.steps import Product
from egraph_opt.runtime.cuda.views import View, alignment

Pointer = Callable[[View], int]

_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType_t
_COMPUTE_32, _COMPUTE_TF32, _COMPUTE_64 = 68, 77, 70  # cublasComputeType_t
_RESULT = np.dtype([("algo", "u8", 8), ("space", "u8"), ("state", "i4"), ("waves", "f4"), ("rest", "i4", 4)])
_SPACE = 32 * 2**20
_ASKED = 64


@dataclass(frozen=True)
class _Matrix:
    """A column-major operand: rows, columns, leading dimension, distance between batch entries, transposed or not."""

    rows: int
    columns: int
    lead: int
    step: int
    turned: bool


def _column_major(view: View) -> _Matrix:
    """The transpose of a (batch, rows, columns) view as cuBLAS sees it: without a copy, one axis has stride 1."""
    batch, rows, columns = view.shape
    step = view.strides[0] if batch > 1 else 0
    if view.strides[2] == 1 or columns == 1:
        return _Matrix(columns, rows, max(view.strides[1] if rows > 1 else 0, columns), step, False)
    return _Matrix(rows, columns, max(view.strides[2], rows), step, True)


@dataclass
class BlasCall:
    """One algorithm for one product."""

    owner: _Described
    algo: np.ndarray
    space: int

    @property
    def label(self) -> str:
        """Finds the algorithm again in another process."""
        return f"cublasLt:{self.algo.tobytes().hex()}"

    def launch(self, pointer: Pointer, space: int, stream: int, early: bool = False, lead: bool = False) -> None:
        """Enqueues the product; the library's kernels neither begin early nor let others."""
        self.owner.launch(self.algo, pointer, space, self.space, stream)


class Blas:
    """The library, once per process."""

    def __init__(self) -> None:
        self.api = library("nvmath.bindings.cublasLt")
        self.handle = self.api.create()

    def calls(self, step: Product, fast: bool) -> list[BlasCall]:
        """Candidates for ``step``; ``fast`` lets float32 products use TF32."""
        return _Described(self, step, fast).candidates()

    def call(self, step: Product, fast: bool, label: str) -> BlasCall | None:
        """The candidate that ``label`` names, if it is one of this library."""
        if not label.startswith("cublasLt:"):
            return None
        algo = np.frombuffer(bytes.fromhex(label.partition(":")[2]), np.uint64).copy()
        space = _Described(self, step, fast).space_of(algo)
        return None if space is None else BlasCall(_Described(self, step, fast), algo, space)


class _Described:
    """A product in the library's own terms. Row-major ``d = a b`` is column-major ``d^T = b^T a^T``."""

    def __init__(self, blas: Blas, step: Product, fast: bool) -> None:
        self.blas, self.api = blas, blas.api
        if step.d.strides[2] != 1 and step.d.shape[2] != 1:  # the result lies transposed: compute its transpose
            step = _transposed(step)
        self.step = step
        dtype = step.d.dtype
        self.kinds = dict.fromkeys("AB", _TYPES[step.a.dtype]) | dict.fromkeys("CD", _TYPES[dtype])
        self.compute = (
            _COMPUTE_64 if dtype == "float64" else _COMPUTE_TF32 if fast and dtype == "float32" else _COMPUTE_32
        )
        scalar = np.float64 if dtype == "float64" else np.float32
        self.alpha = np.array([step.alpha], scalar)
        self.beta = np.array([1 if step.c is not None else 0], scalar)

    @cached_property
    def matrices(self) -> dict[str, _Matrix]:
        """The operands by cuBLAS's names."""
        found = {"A": _column_major(self.step.b), "B": _column_major(self.step.a), "D": _column_major(self.step.d)}
        found["C"] = found["D"] if self.step.c is None else _column_major(self.step.c)
        return found

    @cached_property
    def layouts(self) -> dict[str, int]:
        attributes = self.api.MatrixLayoutAttribute
        made: dict[str, int] = {}
        for name, m in self.matrices.items():
            made[name] = self.api.matrix_layout_create(self.kinds[name], m.rows, m.columns, m.lead)
            if self.step.d.shape[0] > 1:
                self._set(self.api.matrix_layout_set_attribute, made[name], attributes.BATCH_COUNT,
                          ctypes.c_int32(self.step.d.shape[0]))  # fmt: skip
                self._set(self.api.matrix_layout_set_attribute, made[name], attributes.STRIDED_BATCH_OFFSET,
                          ctypes.c_int64(m.step))  # fmt: skip
        return made

    @cached_property
    def description(self) -> int:
        attributes, epilogue = self.api.MatmulDescAttribute, self.api.Epilogue
        made = self.api.matmul_desc_create(self.compute, 1 if self.step.d.dtype == "float64" else 0)
        for name, attribute in (("A", attributes.TRANSA), ("B", attributes.TRANSB)):
            self._set(self.api.matmul_desc_set_attribute, made, attribute, ctypes.c_int32(self.matrices[name].turned))
        chosen = {
            (False, None): epilogue.DEFAULT, (False, "Relu"): epilogue.RELU,
            (True, None): epilogue.BIAS, (True, "Relu"): epilogue.RELU_BIAS,
        }[self.step.bias is not None, self.step.activation]  # fmt: skip
        self._set(self.api.matmul_desc_set_attribute, made, attributes.EPILOGUE, ctypes.c_int32(int(chosen)))
        return made

    def candidates(self) -> list[BlasCall]:
        preferences = self.api.MatmulPreferenceAttribute
        preference = self.api.matmul_preference_create()
        self._set(self.api.matmul_preference_set_attribute, preference, preferences.MAX_WORKSPACE_BYTES,
                  ctypes.c_uint64(_SPACE))  # fmt: skip
        views = {"A": self.step.b, "B": self.step.a, "C": self.step.c or self.step.d, "D": self.step.d}
        for name, view in views.items():
            attribute = getattr(preferences, f"MIN_ALIGNMENT_{name}_BYTES")
            self._set(self.api.matmul_preference_set_attribute, preference, attribute, ctypes.c_uint32(alignment(view)))
        results, count = np.zeros(_ASKED, _RESULT), ctypes.c_int32(0)
        self._bias_pointer(16)  # only whether there is one matters here
        lay = self.layouts
        self.api.matmul_algo_get_heuristic(
            self.blas.handle, self.description, lay["A"], lay["B"], lay["C"], lay["D"], preference, _ASKED,
            results.ctypes.data, ctypes.addressof(count),
        )  # fmt: skip
        self.api.matmul_preference_destroy(preference)
        good = [r for r in results[: count.value] if r["state"] == 0]
        return [BlasCall(self, r["algo"].copy(), int(r["space"])) for r in good]

    def space_of(self, algo: np.ndarray) -> int | None:
        """Bytes of work space that an algorithm needs, or ``None`` where it cannot run this product."""
        result, lay = np.zeros(1, _RESULT), self.layouts
        self._bias_pointer(16)
        try:
            self.api.matmul_algo_check(self.blas.handle, self.description, lay["A"], lay["B"], lay["C"], lay["D"],
                                       algo.ctypes.data, result.ctypes.data)  # fmt: skip
        except Exception:  # noqa: BLE001 - the bindings have one exception for every status
            return None
        return int(result[0]["space"])

    def launch(self, algo: np.ndarray, pointer: Pointer, space: int, size: int, stream: int) -> None:
        step, lay = self.step, self.layouts
        if step.bias is not None:
            self._bias_pointer(pointer(step.bias))
        d = pointer(step.d)
        c = d if step.c is None else pointer(step.c)
        self.api.matmul(
            self.blas.handle, self.description, self.alpha.ctypes.data,
            pointer(step.b), lay["A"], pointer(step.a), lay["B"],
            self.beta.ctypes.data, c, lay["C"], d, lay["D"], algo.ctypes.data, space, size, stream,
        )  # fmt: skip

    def _bias_pointer(self, address: int) -> None:
        if self.step.bias is not None:
            self._set(self.api.matmul_desc_set_attribute, self.description, self.api.MatmulDescAttribute.BIAS_POINTER,
                      ctypes.c_uint64(address))  # fmt: skip

    @staticmethod
    def _set(call: Callable[..., Any], target: int, attribute: int, value: Any) -> None:
        call(target, int(attribute), ctypes.addressof(value), ctypes.sizeof(value))


def _transposed(step: Product) -> Product:
    from dataclasses import replace

    def turn(view: View) -> View:
        (b, m, n), (s, r, c) = view.shape, view.strides
        return replace(view, shape=(b, n, m), strides=(s, c, r))

    assert step.bias is None
    return replace(step, a=turn(step.b), b=turn(step.a), d=turn(step.d), c=None if step.c is None else turn(step.c))
