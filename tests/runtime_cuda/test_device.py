"""What is said where the GPU, a driver or a library is missing or does not fit. The libraries are stand-ins here: no
machine has all these faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulator import COMPILER, Emulator

from egraph_opt.errors import UsageError
from egraph_opt.runtime.cuda import device as device_module
from egraph_opt.runtime.cuda import make_plan, report
from egraph_opt.runtime.cuda.doctor import probe


@dataclass(frozen=True)
class Fault:
    """A machine: its GPUs, versions, and what the first use of the GPU says."""

    count: int | Exception = 1
    driver: int = 13000
    cuda: int = 13020
    cudnn: int | Exception = 91900
    cublas: int = 130100
    first: Exception | None = None

    def library(self, name: str) -> Any:
        def say(value: object) -> Any:
            def call(*_: object) -> object:
                if isinstance(value, Exception):
                    raise value
                return value

            return call

        runtime = SimpleNamespace(
            getDeviceCount=say(self.count), driverGetVersion=say(self.driver), runtimeGetVersion=say(self.cuda),
            memGetInfo=say(self.first or (2**36, 2**36)), getDevice=say(0),
            getDeviceProperties=say({"name": b"Card", "totalGlobalMem": 2**36}),
        )  # fmt: skip
        return {
            "cupy": SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)),
            "cudnn": SimpleNamespace(backend_version=say(self.cudnn)),
            "nvmath.bindings.cublasLt": SimpleNamespace(get_version=say(self.cublas)),
        }[name]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(count=RuntimeError("cudaErrorInsufficientDriver")), "no usable NVIDIA GPU.*InsufficientDriver"),
        (Fault(count=0), "no NVIDIA GPU"),
        (Fault(driver=12080), "driver is for CUDA 12.8"),
        (Fault(cudnn=90400), "cuDNN 9.4 does not fit"),
        (Fault(cudnn=100100), "cuDNN 10.1 does not fit"),
        (Fault(cudnn=OSError("libcudnn.so.9: cannot open")), "missing or broken.*libcudnn"),
        (Fault(cublas=120800), "cuBLAS 12.8 and CUDA 13.2"),
        (Fault(first=RuntimeError("cudaErrorDevicesUnavailable: busy or unavailable")), "in use by another process"),
        (Fault(first=RuntimeError("cudaErrorMemoryAllocation: out of memory")), "no memory left"),
    ],
)
def test_faults_are_named(fault: Fault, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "library", fault.library)
    with pytest.raises(UsageError, match=says):
        device_module.machine.__wrapped__()


def test_a_sound_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "library", Fault().library)
    assert (
        str(device_module.machine.__wrapped__()) == "Card (64 GB), driver 13.0, CUDA 13.2, cuBLAS 130100, cuDNN 91900"
    )


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "PACKAGES", {"no_such_module": "no-such-package"})
    with pytest.raises(UsageError, match=r"no-such-package.*install the extra cuda"):
        device_module.library("no_such_module")


def test_doctor_never_fails() -> None:
    rows = report()
    assert rows
    assert all(name and said for name, said, _ in rows)


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_what_the_doctor_computes_is_right(tmp_path: Path) -> None:
    graph, feeds, wanted = probe()
    (got,) = Emulator(make_plan(graph, exact=True), tmp_path).run(feeds)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
