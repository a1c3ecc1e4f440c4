"""Launches of kernels of our own, which may begin before the kernel ahead of them has ended.

On a GPU of compute capability 9 or newer a kernel can be launched while the one before it still runs (programmatic
dependent launch): it does what needs nothing of that one, and then waits for it. Kernels of ours wait before they touch
what others write, so that everything launched earlier has ended by then. Library kernels do not all wait for everything
(a convolution of cuDNN 9.19 was seen to read its residual too early), so that only a kernel of ours is ever let begin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from egraph_opt.errors import UsageError
from egraph_opt.runtime.cuda.device import library

_EARLY, _CARVEOUT = 6, 14  # CU_LAUNCH_ATTRIBUTE_: PROGRAMMATIC_STREAM_SERIALIZATION, PREFERRED_SHARED_MEMORY_CARVEOUT
_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MAP_TYPES = {"float16": 6, "float32": 11, "bfloat16": 9}  # CUtensorMapDataType; float32 is rounded to TF32
_SWIZZLE_128, _WHOLE_SECTORS = 3, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint64 * 8))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


class Matrix:
    """A matrix in memory as the copy engine takes it: boxes of ``box`` rows of 128 bytes, swizzled.

    Args:
        address: of the first element.
        size: elements of a row, rows.
        pitch: bytes from one row to the next, a multiple of 16.

    Raises:
        UsageError: the driver refuses.
    """

    def __init__(self, dtype: str, address: int, size: tuple[int, int], pitch: int, box: int) -> None:
        self._block = ctypes.create_string_buffer(192)
        start = ctypes.addressof(self._block)
        self.place = start + -start % 64
        item = 4 if dtype == "float32" else 2
        state = _driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(self.place), _MAP_TYPES[dtype], 2, ctypes.c_void_p(address), (ctypes.c_uint64 * 2)(*size),
            (ctypes.c_uint64 * 1)(pitch), (ctypes.c_uint32 * 2)(128 // item, box), (ctypes.c_uint32 * 2)(1, 1), 0,
            _SWIZZLE_128, _WHOLE_SECTORS, 0,
        )  # fmt: skip
        if state:
            raise UsageError(f"a matrix of {size} could not be described: CUDA error {state}")


@cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@cache
def capability() -> int:
    """The compute capability of the current device: 90 for a Hopper."""
    return int(library("cupy").cuda.Device().compute_capability)


def compiled(code: str, names: Sequence[str]) -> dict[str, int]:
    """Kernels for exactly this chip, whose own instructions they may use; handles by name.

    Raises:
        UsageError: the code does not compile or load.
    """
    nvrtc = library("cupy").cuda.nvrtc
    program = nvrtc.createProgram(code, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("-std=c++17", f"-arch=sm_{capability()}a"))
        binary = nvrtc.getCUBIN(program)
    except Exception as error:  # noqa: BLE001 - NVRTC has an exception of its own
        raise UsageError(f"kernels do not compile: {error} {nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)
    module, found = ctypes.c_void_p(), dict[str, int]()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(binary)))
    for name in names:
        handle = ctypes.c_void_p()
        _check(_driver().cuModuleGetFunction(ctypes.byref(handle), module, name.encode()))
        assert handle.value is not None
        found[name] = handle.value
    return found


def enqueue(
    function: int, grid: int, block: int, parameters: Sequence[int | Matrix], stream: int, *, shared: int = 0,
    early: bool = False, lead: bool = False, carve: bool = False,
) -> None:  # fmt: skip
    """Launches a kernel.

    Args:
        function: its handle.
        parameters: addresses, and matrices for the copy engine; ``lead`` is the last parameter of every kernel.
        shared: bytes of dynamic shared memory.
        early: it may begin before the kernel ahead of it on ``stream`` has ended.
        lead: it lets the next one on ``stream`` begin, which is a kernel of ours.
        carve: a multiprocessor that runs it gives all it can to shared memory, so that kernels which need much of that
            can begin beside it.

    Raises:
        UsageError: the driver refuses.
    """
    values = {i: ctypes.c_void_p(p) for i, p in enumerate(parameters) if not isinstance(p, Matrix)}
    places = [p.place if isinstance(p, Matrix) else ctypes.addressof(values[i]) for i, p in enumerate(parameters)]
    wanted = [(_EARLY, 1)] * early + [(_CARVEOUT, 100)] * carve if capability() >= 90 else []
    attributes = (_Attribute * 2)(*(_Attribute(number, b"", (ctypes.c_uint64 * 8)(value)) for number, value in wanted))
    config = _Config((grid, 1, 1), (block, 1, 1), shared, stream, attributes, len(wanted))
    handle = ctypes.c_void_p(function)
    if shared > 48 * 1024:
        _check(_driver().cuFuncSetAttribute(handle, _SHARED, shared))
    leads = ctypes.c_int(lead)
    pointers = (ctypes.c_void_p * (len(places) + 1))(*places, ctypes.addressof(leads))
    _check(_driver().cuLaunchKernelEx(ctypes.byref(config), handle, pointers, None))


def _check(state: int) -> None:
    if state:
        raise UsageError(f"the driver refuses a kernel: CUDA error {state}")
