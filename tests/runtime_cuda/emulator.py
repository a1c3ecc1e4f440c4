"""Runs a plan without a GPU: generated kernels through the host's C++ compiler, library calls through NumPy.

Threads of a block are fibers that take turns at barriers and shuffles; blocks run one after another, so a missing
barrier can go unnoticed here. Memory is that of the plan: a value that is overwritten too early is seen.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.runtime.cuda.expressions import PRELUDE
from egraph_opt.runtime.cuda.memory import offsets
from egraph_opt.runtime.cuda.schedule import schedule
from egraph_opt.runtime.cuda.steps import Convolution, Generated, Plan, Product, Step
from egraph_opt.runtime.cuda.views import View

COMPILER = shutil.which("g++")

_HOST = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <vector>
#include <algorithm>
using namespace std;
typedef _Float16 __half;
struct __nv_bfloat16 { uint16_t bits; };
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define INF INFINITY
struct uint4 { unsigned x, y, z, w; };
struct Dim { int x; };
static Dim threadIdx, blockIdx;
static ucontext_t scheduler, fibers[1024];
static bool ended[1024];
static int alive, arrived, generation;
static double slots[1024];
static void pause_() { int me = threadIdx.x; swapcontext(&fibers[me], &scheduler); }
static void __syncthreads() {
  int mine = generation;
  if (++arrived == alive) { arrived = 0; generation++; }
  while (generation == mine) pause_();
}
template <typename T> T __shfl_xor_sync(unsigned, T v, int o) {
  int me = threadIdx.x; slots[me] = (double)v; pause_(); T r = (T)slots[me ^ o]; pause_(); return r; }
static float __half2float(__half v) { return (float)v; }
static float __bfloat162float(__nv_bfloat16 v) {
  uint32_t b = (uint32_t)v.bits << 16; float f; memcpy(&f, &b, 4); return f; }
static __half __float2half_rn(float v) { return (__half)v; }
static __nv_bfloat16 __float2bfloat16_rn(float v) {
  uint32_t b; memcpy(&b, &v, 4); if (v == v) b += 0x7fff + ((b >> 16) & 1); return {(uint16_t)(b >> 16)}; }
"""

_RUN = r"""
static void** arguments;
static void body();
static void fiber() { body(); int me = threadIdx.x; ended[me] = true; alive--;
  if (alive && arrived == alive) { arrived = 0; generation++; } swapcontext(&fibers[me], &scheduler); }
extern "C" void run(void** given, int grid, int block, int together) {
  arguments = given;
  static vector<char> stacks(1024 * 65536);
  for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
    if (!together) { for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) body(); continue; }
    alive = block; arrived = 0;
    for (int t = 0; t < block; t++) {
      ended[t] = false; getcontext(&fibers[t]);
      fibers[t].uc_stack.ss_sp = &stacks[t * 65536]; fibers[t].uc_stack.ss_size = 65536; fibers[t].uc_link = &scheduler;
      makecontext(&fibers[t], fiber, 0);
    }
    while (alive) for (int t = 0; t < block; t++)
      if (!ended[t]) { threadIdx.x = t; swapcontext(&scheduler, &fibers[t]); }
  }
}
"""


class Emulator:
    """Runs one plan; compiled kernels are kept in ``folder``."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        planned = schedule(plan.steps, [1e-6] * len(plan.steps))
        plan = replace(plan, steps=tuple(plan.steps[number] for number in planned.order))
        self.plan, self.folder = plan, folder
        places, _, size = offsets(plan, planned, {})
        block = np.full(size, 0x7F, np.uint8)
        self.memory: list[np.ndarray] = []
        for number, buffer in enumerate(plan.buffers):
            dtype = np.dtype(numpy_dtype(buffer.dtype))
            if buffer.load is not None:
                self.memory.append(np.ascontiguousarray(buffer.load()).reshape(-1))
            elif number in places:
                self.memory.append(block[places[number] : places[number] + buffer.bytes].view(dtype))
            else:
                self.memory.append(np.full(buffer.bytes, 0x7F, np.uint8).view(dtype))

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs of the plan, in order."""
        for name, view in self.plan.inputs.items():
            self._array(view)[...] = feeds[name]
        for step in self.plan.steps:
            self._step(step)
        return [np.array(self._array(view)) for view in self.plan.outputs]

    def _array(self, view: View) -> np.ndarray:
        base = self.memory[view.buffer][view.offset :]
        steps = tuple(s * base.itemsize for s in view.strides)
        last = sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True))
        assert view.elements == 0 or (min(view.strides, default=0) >= 0 and last < len(base)), (
            f"{view} leaves its buffer"
        )
        return np.lib.stride_tricks.as_strided(base, view.shape, steps)

    def _step(self, step: Step) -> None:
        if isinstance(step, Generated):
            self._generated(step)
        elif isinstance(step, Product):
            a, b = (self._array(v).astype(np.float64) for v in (step.a, step.b))
            y = step.alpha * (a @ b)
            y = y if step.bias is None else y + self._array(step.bias).astype(np.float64)
            self._write(step.d, y if step.c is None else y + self._array(step.c).astype(np.float64), step.activation)
        else:
            assert isinstance(step, Convolution)
            x, w = (np.ascontiguousarray(self._array(v)).astype(np.float32) for v in (step.x, step.w))
            given = [x, w] if step.bias is None else [x, w, self._array(step.bias).astype(np.float32)]
            y = operator("Conv").evaluate((step.strides, step.pads, step.dilations, step.group), given)
            assert not isinstance(y, tuple)
            self._write(step.y, y if step.residual is None else y + self._array(step.residual), step.activation)

    def _write(self, view: View, value: np.ndarray, activation: str | None) -> None:
        self._array(view)[...] = np.maximum(value, 0) if activation == "Relu" else value

    def _generated(self, step: Generated) -> None:
        source = PRELUDE[PRELUDE.index("__device__") :] + step.helpers + step.source
        pointers = ", ".join(f"({_type_of(step, i)})arguments[{i}]" for i in range(len(step.arguments)))
        text = f"{_HOST}{source}{_RUN}\nstatic void body() {{ kernel({pointers}); }}\n"
        path = self.folder / f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.so"
        if not path.exists():
            code = path.with_suffix(".cpp")
            code.write_text(text)
            assert COMPILER is not None
            command = [COMPILER, "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-mf16c", str(code), "-o", str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, f"{step.title}\n{step.source}\n{done.stderr[:3000]}"
        given = (ctypes.c_void_p * len(step.arguments))(*(self.memory[b].ctypes.data for b in step.arguments))
        together = any(word in step.source for word in ("block_", "warp_", "__syncthreads"))
        ctypes.CDLL(str(path)).run(given, step.grid, step.block, int(together))


def _type_of(step: Generated, number: int) -> str:
    head = step.source.split("kernel(")[1].split(") {")[0]
    return head.split(", ")[number].rsplit(" ", 1)[0].replace("__restrict__", "")
