"""Runs a plan without a GPU: generated kernels through the host's C++ compiler, library calls through NumPy.

Threads of a block are fibers that take turns at barriers and shuffles; blocks run one after another, so a missing
barrier can go unnoticed here. Memory is that of the plan: a value that is overwritten too early is seen.
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.runtime.cuda import thin
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
#include <csetjmp>
#include <ucontext.h>
using namespace std;
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
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
static jmp_buf home, places[1024];  // of the scheduler and of fibers that have begun: no system call saves signals
static bool ended[1024], begun[1024];
static int self, width, alive[8], arrived[8], generation[8];  // the fiber that runs; threads per block; by block
static double slots[1024];
static void pause_() { if (!_setjmp(places[self])) _longjmp(home, 1); }
static void __syncthreads() {
  int block = self / width, mine = generation[block];
  if (++arrived[block] == alive[block]) { arrived[block] = 0; generation[block]++; }
  while (generation[block] == mine) pause_();
}
template <typename T> T __shfl_xor_sync(unsigned, T v, int o) {
  slots[self] = (double)v; pause_(); T r = (T)slots[self ^ o]; pause_(); return r; }
template <typename T> T __shfl_sync(unsigned, T v, int from) {
  slots[self] = (double)v; pause_(); T r = (T)slots[self / 32 * 32 + from]; pause_(); return r; }
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
static void fiber() { body(); int b = self / width; ended[self] = true; alive[b]--;
  if (alive[b] && arrived[b] == alive[b]) { arrived[b] = 0; generation[b]++; } _longjmp(home, 1); }
static void go_on() {
  if (_setjmp(home)) return;
  if (begun[self]) _longjmp(places[self], 1);
  begun[self] = true; setcontext(&fibers[self]); }
extern "C" void run(void** given, int grid, int block, int together, int cluster) {
  arguments = given; width = block;
  char* stacks = new char[1024 * 65536];  // most of it is never touched
  for (int first = 0; first < grid; first += cluster) {
    blockIdx.x = first;
    if (!together) { for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) body(); continue; }
    for (int b = 0; b < cluster; b++) { alive[b] = block; arrived[b] = 0; }
    for (int t = 0; t < block * cluster; t++) {
      ended[t] = begun[t] = false; getcontext(&fibers[t]);
      fibers[t].uc_stack.ss_sp = &stacks[t * 65536]; fibers[t].uc_stack.ss_size = 65536; fibers[t].uc_link = &scheduler;
      makecontext(&fibers[t], fiber, 0);
    }
    for (bool any = true; any;) { any = false;
      for (int t = 0; t < block * cluster; t++)
        if (!ended[t]) { any = true; self = t; threadIdx.x = t % block; blockIdx.x = first + t / block;
          go_on(); } }
  }
  delete[] stacks;
}
"""

_MATRIX_UNITS = r"""
#define __cluster_dims__(...)
#define __grid_constant__
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
static float2 make_float2(float x, float y) { return {x, y}; }
struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };
struct Matrix { const char* start; long long width, height, pitch, box, item; };
static float up(Half v) { _Float16 h; memcpy(&h, &v, 2); return (float)h; }
static float up(Brain v) { uint32_t b = (uint32_t)v.bits << 16; float f; memcpy(&f, &b, 4); return f; }
static void down(float& r, float v) { r = v; }
static void down(Half& r, float v) { _Float16 h = (_Float16)v; memcpy(&r, &h, 2); }
static void down(Brain& r, float v) { __nv_bfloat16 b = __float2bfloat16_rn(v); memcpy(&r, &b, 2); }
alignas(1024) static unsigned char every[8][232448];
#define shared (every[self / width])
static unsigned place(const void* p) { return (unsigned)(uintptr_t)p; }
static void prepare(unsigned long long* arrived, int count) { for (int i = 0; i < count; i++) arrived[i] = 0; }
static void expect(unsigned long long* arrived, int bytes) { *arrived += bytes; }
static void bring(void* to, const Matrix* m, int column, int row, unsigned long long* arrived) {
  for (int r = 0; r < m->box; r++) for (int b = 0; b < 128; b++) {
    const bool inside = row + r < m->height && column + b / m->item < m->width;
    ((char*)to)[r * 128 + b] = inside ? m->start[(row + r) * m->pitch + column * m->item + b] : 0; }
  *arrived -= m->box * 128; }
static void await(unsigned long long* arrived) { while (*arrived) pause_(); }
static void begin_multiplying() {}
static void end_multiplying() {}
template <typename T, int C> static void multiply(float (&sum)[C], const void* a, const void* b) {
  const int lane = self & 31, warp = self % width / 32;
  for (int i = 0; i < C; i++) for (int k = 0; k < 32 / (int)sizeof(T); k++) {
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2; T x, y;
    memcpy(&x, (const char*)a + row * 128 + k * sizeof(T), sizeof(T));
    memcpy(&y, (const char*)b + column * 128 + k * sizeof(T), sizeof(T));
    sum[i] += up(x) * up(y); } }
static int blocks(), waiting, turn;
static void cluster_wait() { const int mine = turn; if (++waiting == width * blocks()) { waiting = 0; turn++; }
  while (turn == mine) pause_(); }
static float4 of_block(const float* p, int rank) {
  float4 v; memcpy(&v, every[rank] + ((const unsigned char*)p - shared), 16); return v; }
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
            check_product(step)
            a, b = (self._array(v).astype(np.float64) for v in (step.a, step.b))
            y = step.alpha * (a @ b)
            y = y if step.bias is None else y + self._array(step.bias).astype(np.float64)
            self._write(step.d, y if step.c is None else y + self._array(step.c).astype(np.float64), step.activation)
        else:
            assert isinstance(step, Convolution)
            for view in (step.x, step.w, step.y, *([step.residual] if step.residual else [])):
                assert view.strides[1] == 1 or view.shape[1] == 1, f"{view} has not the channels fastest"
            x, w = (np.ascontiguousarray(self._array(v)).astype(np.float32) for v in (step.x, step.w))
            given = [x, w] if step.bias is None else [x, w, self._array(step.bias).astype(np.float32)]
            y = operator("Conv").evaluate((step.strides, step.pads, step.dilations, step.group), given)
            assert not isinstance(y, tuple)
            self._write(step.y, y if step.residual is None else y + self._array(step.residual), step.activation)

    def _write(self, view: View, value: np.ndarray, activation: str | None) -> None:
        self._array(view)[...] = np.maximum(value, 0) if activation == "Relu" else value

    def _generated(self, step: Generated) -> None:
        pointers = ", ".join(f"({_type_of(step, i)})arguments[{i}]" for i in range(len(step.arguments))) + ", 1"
        together = any(word in step.source for word in ("block_", "warp_", "__syncthreads"))
        given = [self.memory[b].ctypes.data for b in step.arguments]
        run(step.helpers + step.source, pointers, given, (step.grid, step.block), self.folder, together=together)


def check_product(step: Product) -> None:
    """What the library takes: see ``Product``; it adds along the rows of the result."""
    for view in (step.a, step.b, step.d, *([step.c] if step.c else [])):
        unit = [s == 1 or n == 1 for n, s in zip(view.shape[-2:], view.strides[-2:], strict=True)]
        assert any(unit), f"{view} is no matrix"
        rows = view is not step.a and view is not step.b and (step.bias or step.c)
        assert unit[-1] or not rows, f"{view} is added to along its columns"


def run_thin(step: Product, tiling: thin.Tiling, arrays: Mapping[str, np.ndarray], folder: Path) -> None:
    """Runs the kernel for a product of few rows; ``arrays`` are the memory of a, b, d, and of bias and c if any."""
    (batch, rows, inner), columns, c_type = step.a.shape, step.b.shape[2], thin.TYPES[step.d.dtype]
    kinds = ["*(Matrix*)"] * 2 + [f"({c_type}*)"] + [f"(const {c_type}*)"] * 2
    pointers = ", ".join(f"{kind}arguments[{i}]" for i, kind in enumerate(kinds)) + ", 1"
    body = re.sub(r"extern __shared__.*?;", "", thin.BODY)
    source = f"{_MATRIX_UNITS}static int blocks() {{ return {tiling.cluster}; }}\n{body}"
    source += thin.source(step, tiling, "kernel")
    matrices = {
        name: np.array([arrays[name].ctypes.data, *found.size, found.pitch * size, box, size], np.int64)
        for name, found, box in (
            ("a", thin.operand(step.a, rows, inner), 64),
            ("b", thin.operand(step.b, columns, inner), tiling.columns),
        )
        for size in (arrays[name].itemsize,)
    }
    given = [matrices[n].ctypes.data for n in "ab"]
    given += [arrays[name].ctypes.data if name in arrays else 0 for name in ("d", "bias", "c")]
    grid = batch * columns // tiling.columns * tiling.cluster
    run(source, pointers, given, (grid, 128), folder, together=True, cluster=tiling.cluster)


def run(
    source: str, pointers: str, given: Sequence[int], size: tuple[int, int], folder: Path, *, together: bool,
    cluster: int = 1,
) -> None:  # fmt: skip
    """Compiles a kernel for the host and runs it; ``size`` is how many blocks, and threads of a block."""
    prelude = PRELUDE[PRELUDE.index("__device__") :]
    text = f"{_HOST}{prelude}{source}{_RUN}\nstatic void body() {{ kernel({pointers}); }}\n"
    path = folder / f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.so"
    if not path.exists():
        code = path.with_suffix(".cpp")
        code.write_text(text)
        assert COMPILER is not None
        command = [
            COMPILER,
            "-std=c++14",  # with its few headers a kernel takes a fifth of the time that C++20 takes
            "-O1",
            "-w",
            "-U_FORTIFY_SOURCE",
            "-shared",
            "-fPIC",
            "-mf16c",
            str(code),
            "-o",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{source}\n{done.stderr[:3000]}"
    library = ctypes.CDLL(str(path))
    library.run((ctypes.c_void_p * len(given))(*given), *size, int(together), cluster)
    _ctypes.dlclose(library._handle)  # else every kernel that ever ran keeps its memory


def _type_of(step: Generated, number: int) -> str:
    head = step.source.split("kernel(")[1].split(") {")[0]
    return head.split(", ")[number].rsplit(" ", 1)[0].replace("__restrict__", "")
