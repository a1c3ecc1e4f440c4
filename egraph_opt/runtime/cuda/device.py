"""What the GPU side finds on this machine: card, driver, CUDA, cuBLAS, cuDNN. Nothing here fails without a GPU."""

from __future__ import annotations

import importlib
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from egraph_opt.errors import UsageError

_PACKAGES = {"cupy": "cupy-cuda13x", "cudnn": "nvidia-cudnn-frontend", "nvmath.bindings.cublasLt": "nvmath-python"}
_HINT = "install the extra cuda of egraph-opt on a machine with an NVIDIA GPU"
OLDEST_CUDNN = 91000


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
        raise UsageError(f"the GPU executor needs {_PACKAGES[name]} ({_HINT}): {error}") from None
    except Exception as error:  # noqa: BLE001 - a library that does not match its driver fails in its own ways
        raise UsageError(f"{_PACKAGES[name]} does not load: {type(error).__name__}: {error}") from None


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
    cudnn, blas = library("cudnn"), library("nvmath.bindings.cublasLt")
    found = int(cudnn.backend_version())
    if found < OLDEST_CUDNN:
        raise UsageError(f"cuDNN {found} is too old: the executor needs 9.10 or newer")
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    driver, cuda = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    return Machine(
        properties["name"].decode(), _dotted(driver, 1000, 10), _dotted(cuda, 1000, 10), str(blas.get_version()),
        str(found), int(properties["totalGlobalMem"]),
    )  # fmt: skip


def _dotted(number: int, major: int, minor: int) -> str:
    return f"{number // major}.{number % major // minor}"


def report() -> list[tuple[str, str, bool]]:
    """For ``egraph-opt doctor``: what, its state in words, and whether it is fine."""
    rows: list[tuple[str, str, bool]] = []
    for package in _PACKAGES.values():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = ""
        rows.append((package, found or "not installed", bool(found)))
    try:
        rows.append(("GPU", str(machine()), True))
    except UsageError as error:
        rows.append(("GPU", str(error), False))
    return rows if platform.system() == "Linux" else [("GPU", "the executor runs on Linux only", False)]
