"""What the GPU side finds on this machine: card, driver, CUDA, cuBLAS, cuDNN. Nothing here fails without a GPU."""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from egraph_opt.errors import UsageError

PACKAGES = {"cupy": "cupy-cuda13x", "cudnn": "nvidia-cudnn-frontend", "nvmath.bindings.cublasLt": "nvmath-python"}
_HINT = "install the extra cuda of egraph-opt on a machine with an NVIDIA GPU"
OLDEST_CUDNN, NEXT_CUDNN = 91000, 100000


@dataclass(frozen=True)
class Machine:
    """The card and the versions that measurements depend on."""

    name: str
    driver: str
    cuda: str
    cublas: str
    cudnn: str
    memory: int

    @property
    def versions(self) -> str:
        """Everything but the card, as one line."""
        return f"driver {self.driver}, CUDA {self.cuda}, cuBLAS {self.cublas}, cuDNN {self.cudnn}"

    def __str__(self) -> str:
        return f"{self.name} ({self.memory / 2**30:.0f} GB), {self.versions}"


def library(name: str) -> Any:
    """The module ``cupy``, ``cudnn`` or ``nvmath.bindings.cublasLt``.

    Raises:
        UsageError: it is not installed, or does not load.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"the GPU executor needs {PACKAGES[name]} ({_HINT}): {error}") from None
    except Exception as error:  # noqa: BLE001 - a library that does not match its driver fails in its own ways
        raise UsageError(f"{PACKAGES[name]} does not load: {type(error).__name__}: {error}") from None


@cache
def machine() -> Machine:
    """The GPU that is used: the current device of CuPy.

    Raises:
        UsageError: there is no GPU, or a library is missing or too old.
    """
    cupy = library("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 - cupy raises CUDARuntimeError, or what the loader says
        raise UsageError(f"there is no usable NVIDIA GPU here: {error}") from None
    if not count:
        raise UsageError("there is no NVIDIA GPU here")
    driver, cuda = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    if driver // 1000 < cuda // 1000:
        raise UsageError(
            f"the driver is for CUDA {_dotted(driver, 1000, 10)}, and CuPy for {_dotted(cuda, 1000, 10)}: "
            "update the driver, or install the CuPy that matches it"
        )
    cudnn, blas = library("cudnn"), library("nvmath.bindings.cublasLt")
    try:
        found, lt = int(cudnn.backend_version()), int(blas.get_version())
    except Exception as error:  # noqa: BLE001 - the bindings load, and the library behind them does not
        raise UsageError(f"cuDNN or cuBLAS is missing or broken: {type(error).__name__}: {error} ({_HINT})") from None
    if not OLDEST_CUDNN <= found < NEXT_CUDNN:
        raise UsageError(f"cuDNN {_dotted(found, 10000, 100)} does not fit: the executor needs 9.10 or newer, below 10")
    if lt // 10000 != cuda // 1000:
        raise UsageError(
            f"cuBLAS {_dotted(lt, 10000, 100)} and CUDA {_dotted(cuda, 1000, 10)} do not fit together: install the "
            "nvidia-cublas of the same major version"
        )
    _wake(cupy)
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return Machine(
        properties["name"].decode(), _dotted(driver, 1000, 10), _dotted(cuda, 1000, 10), str(lt), str(found),
        int(properties["totalGlobalMem"]),
    )  # fmt: skip


def _dotted(number: int, major: int, minor: int) -> str:
    return f"{number // major}.{number % major // minor}"


def _wake(cupy: Any) -> None:
    """Makes the context of this process on the GPU.

    Raises:
        UsageError: another process has the GPU for itself, or it has no memory left.
    """
    try:
        cupy.cuda.runtime.memGetInfo()
    except Exception as error:  # noqa: BLE001 - cupy raises CUDARuntimeError
        said = str(error)
        busy = "DevicesUnavailable" in said or "busy" in said
        why = "is in use by another process" if busy else "has no memory left" if "emory" in said else "does not answer"
        raise UsageError(f"the GPU {why}: {said}") from None


def main_stream() -> Any:
    """The stream on which this thread enqueues all its work on the current device; it waits for no other stream.

    Everything shares it on purpose. On an H200 (driver 580), once kernels had been launched on a second stream, each
    kernel of every graph began 0.2 to 0.3 us later, as a rule until the process ended: 7 % of a ResNet-50
    (``bench/gpu_streams.py``). Threads do not share one: what one launches while another captures would get into that
    graph.
    """
    return _stream(threading.get_ident(), library("cupy").cuda.runtime.getDevice())


@cache
def _stream(thread: int, device: int) -> Any:
    del thread, device  # they only tell streams apart
    return library("cupy").cuda.Stream(non_blocking=True)


def free_memory() -> tuple[int, int]:
    """Bytes of the GPU that are free, and all of them; for a GPU that ``machine`` has found."""
    free, total = library("cupy").cuda.runtime.memGetInfo()
    return int(free), int(total)
