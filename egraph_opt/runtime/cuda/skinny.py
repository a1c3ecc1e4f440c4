"""Products of few rows by a weight: as fast as the weight can be read.

Libraries are built for large matrices; with at most 64 rows a product is a stream over the weight. Here the weight
lies in the order in which tensor cores take it, so that every warp loads its fragments straight from memory, 16 bytes a
lane, without shared memory: the warps of a block share its columns and split the inner axis among them. What follows
the product element by element is computed with it. Float32 runs as TF32, or, where that is not allowed, as three
products of high and low halves (x = high + low), which keeps float32's precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ops.base import Array
from egraph_opt.runtime.cuda.emit import Index, at, integer_let, unravel
from egraph_opt.runtime.cuda.expressions import literal
from egraph_opt.runtime.cuda.steps import Generated
from egraph_opt.runtime.cuda.views import View

if TYPE_CHECKING:
    from egraph_opt.runtime.cuda.kernels import Code

MOST_ROWS = 64
_WARPS = 4
_PROCESSORS = 132
_HELD = 16
"""Loads of 16 bytes of the weight that a lane has in flight."""


@dataclass(frozen=True)
class Shape:
    """How a product is cut: ``columns`` per block (in eights), ``parts`` of the inner axis that blocks add up later."""

    rows: int
    inner: int
    outer: int
    columns: int
    parts: int
    block: int

    @property
    def steps(self) -> int:
        """Blocks of the inner axis per warp."""
        return self.inner // self.block // (self.parts * _WARPS)


def cut(rows: int, inner: int, outer: int, dtype: str, *, partial: bool) -> Shape | None:
    """The cut that keeps the most multiprocessors busy; ``partial`` allows more than one part."""
    block = 16 if dtype == "float32" else 32
    if not 1 < rows <= MOST_ROWS or dtype not in ("float32", "float16", "bfloat16") or inner % (block * _WARPS):
        return None
    item = 4 if dtype == "float32" else 2
    best: tuple[float, Shape] | None = None
    for eights in range(1, 9):
        for parts in (1, 2, 4, 8) if partial else (1,):
            if outer % (8 * eights) or inner % (block * _WARPS * parts):
                continue
            waves = -(-(outer // (8 * eights) * parts) // _PROCESSORS)
            # a processor's share of the weight comes from memory, the rows from the cache; later the parts are added up
            bytes_ = inner // parts * item
            microseconds = waves * (1 + bytes_ * 8 * eights / 23e3 + bytes_ * rows / 45e3)
            microseconds += parts * rows * outer * 4 / 1.5e6
            if best is None or microseconds < best[0]:
                best = microseconds, Shape(rows, inner, outer, 8 * eights, parts, block)
    return best and best[1]


def packed(weight: Array, block: int) -> Array:
    """A (K, N) weight in the order of the tensor cores' fragments: (N/8, K/block, 8, 4, 16 bytes)."""
    k, n = weight.shape
    eights = np.ascontiguousarray(weight.T).reshape(n // 8, 8, k // block, 4, block // 4)
    return np.ascontiguousarray(eights.transpose(0, 2, 1, 3, 4)).reshape(-1)


def skinny(
    code: Code, root: int, anchor: int, shape: Shape, rows: View, weight: View, target: View, title: str, *, exact: bool
) -> Generated:
    """The kernel of one product.

    Args:
        rows: (M, K) with stride 1 along K.
        target: of the root; where ``shape.parts`` is more than 1, float32 (parts, M, N) of the product itself.
    """
    from egraph_opt.runtime.cuda.kernels import finished

    e = code.emitter()
    let = integer_let(e)
    m_tiles, n_tiles = -(-shape.rows // 16), shape.columns // 8
    width, lead = shape.columns + 4, rows.strides[0]
    per_load = shape.block // 4
    tiles = shape.outer // shape.columns
    kind = {"float16": "half", "bfloat16": "bfloat"}.get(rows.dtype, "exact" if exact else "tf32")
    hold = max(1, min(shape.steps, (_HELD // 2 if kind == "exact" else _HELD) // n_tiles))
    while shape.steps % hold:
        hold -= 1
    e.read += [rows, weight]
    a, w = e.parameter(rows), e.parameter(weight)
    blocks = shape.inner // shape.block
    early = [
        "const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;",
        f"const int tile = blockIdx.x % {tiles}, part = blockIdx.x / {tiles};",
        f"const int first = (part * {_WARPS} + warp) * {shape.steps};",
        f"const uint4* ws = reinterpret_cast<const uint4*>({w} + {weight.offset}) + "
        f"((long long)tile * {n_tiles} * {blocks} + first) * 32;",
        f"for (int i = lane; i < {n_tiles * shape.steps * 4}; i += 32) "
        f"PREFETCH(ws + (i / {shape.steps * 4}) * {blocks * 32} + (i % {shape.steps * 4}) * 8);",
    ]
    e.lines += [f"__shared__ float sums[2][{16 * m_tiles}][{width}];", f"float acc[{m_tiles}][{n_tiles}][4] = {{}};"]
    e.enter(f"for (int s0 = 0; s0 < {shape.steps}; s0 += {hold})")
    e.lines += [
        f"uint4 b[{hold}][{n_tiles}];",
        f'_Pragma("unroll") for (int s = 0; s < {hold}; s++) _Pragma("unroll") for (int n = 0; n < {n_tiles}; n++) '
        f"b[s][n] = ws[(n * {blocks} + s0 + s) * 32 + lane];",
        '_Pragma("unroll")',
    ]
    e.enter(f"for (int s = 0; s < {hold}; s++)")
    e.lines.append(f"uint4 x[{m_tiles}][2];")
    e.enter(f'_Pragma("unroll") for (int m = 0; m < {2 * m_tiles}; m++)')
    guard = f"m * 8 + g < {shape.rows}" if shape.rows % 16 else ""
    load = (
        f"*reinterpret_cast<const uint4*>({a} + {rows.offset} + (m * 8 + g) * {lead} + "
        f"(first + s0 + s) * {shape.block} + q * {per_load})"
    )
    e.lines.append(f"x[m / 2][m % 2] = {f'{guard} ? {load} : uint4{{0, 0, 0, 0}}' if guard else load};")
    e.leave()
    e.lines += [
        f'_Pragma("unroll") for (int m = 0; m < {m_tiles}; m++) _Pragma("unroll") for (int n = 0; n < {n_tiles}; n++) '
        f"mma_{kind}(acc[m][n], x[m][0], x[m][1], b[s][n]);",
    ]
    e.leave()
    e.leave()
    # the upper two warps hand their sums to the lower two, which lay down what all threads then add up
    put = (
        f'_Pragma("unroll") for (int m = 0; m < {m_tiles}; m++) _Pragma("unroll") for (int n = 0; n < {n_tiles}; n++) '
        '_Pragma("unroll") for (int c = 0; c < 4; c++) '
    )
    place = "sums[warp & 1][m * 16 + g + (c >> 1) * 8][n * 8 + q * 2 + (c & 1)]"
    e.lines += [
        f"if (warp >= 2) {{ {put} {place} = acc[m][n][c]; }}",
        "__syncthreads();",
        f"if (warp < 2) {{ {put} {place} += acc[m][n][c]; }}",
        "__syncthreads();",
    ]
    count, threads = shape.rows * shape.columns, 32 * _WARPS
    e.lines.append("#pragma unroll")
    e.enter(f"for (int t = 0; t < {-(-count // threads)}; t++)")
    e.lines.append(f"const int i = threadIdx.x + t * {threads}, r = i / {shape.columns}, c = i % {shape.columns};")
    if count % threads:
        e.lines.append(f"if (i >= {count}) break;")
    e.lines.append(f"const int column = tile * {shape.columns} + c;")
    alpha = code.graph.nodes[anchor].attrs[2] if code.graph.nodes[anchor].op == "Gemm" else 1.0
    scale = "" if alpha == 1 else f"{literal(alpha, 'float32')} * "
    value = e.let("float32", f"{scale}(sums[0][r][c] + sums[1][r][c])")
    if shape.parts > 1:
        e.store(target, ("part", "r", "column"), value)
    else:
        outer = at(e, anchor)[:-1]
        index: Index = (*unravel("r", outer, range(len(outer)), let), "column")
        e.bind(anchor, index, value)
        e.store(target, index, value if root == anchor else e.compute(root, index))
    e.leave()
    return finished(e, [], title, tiles * shape.parts, threads, target, MMA, early)


def partial_view(buffer: int, shape: Shape) -> View:
    """The sums of each part, float32 (parts, M, N)."""
    size = shape.rows * shape.outer
    return View(buffer, "float32", (shape.parts, shape.rows, shape.outer), (size, shape.outer, 1))


def is_candidate(rows: tuple[int, ...], weight: tuple[int, ...], dtype: str, *, turned: bool) -> bool:
    """Whether a product of (*batch, M, K) by a weight can take this kernel."""
    if len(rows) < 2 or len(weight) != 2:
        return False
    inner, outer = weight[::-1] if turned else weight
    return cut(math.prod(rows[:-1]), inner, outer, dtype, partial=False) is not None


MMA = """
#ifdef __CUDACC__
#define MMA(SHAPE, TYPES) \\
  asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPES ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \\
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
__device__ __forceinline__ void step_half(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                          unsigned b0, unsigned b1) { MMA("m16n8k16", "f16.f16"); }
__device__ __forceinline__ void step_bfloat(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                            unsigned b0, unsigned b1) { MMA("m16n8k16", "bf16.bf16"); }
__device__ __forceinline__ void step_tf32(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                          unsigned b0, unsigned b1) { MMA("m16n8k8", "tf32.tf32"); }
__device__ __forceinline__ unsigned high(unsigned x) {
  unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(x))); return r; }
__device__ __forceinline__ unsigned rest(unsigned x, unsigned h) {
  return high(__float_as_uint(__uint_as_float(x) - __uint_as_float(h))); }
#endif
__device__ __forceinline__ void mma_half(float* c, uint4 x, uint4 y, uint4 b) {
  step_half(c, x.x, y.x, x.y, y.y, b.x, b.y); step_half(c, x.z, y.z, x.w, y.w, b.z, b.w); }
__device__ __forceinline__ void mma_bfloat(float* c, uint4 x, uint4 y, uint4 b) {
  step_bfloat(c, x.x, y.x, x.y, y.y, b.x, b.y); step_bfloat(c, x.z, y.z, x.w, y.w, b.z, b.w); }
__device__ __forceinline__ uint4 highs(uint4 v) { return uint4{high(v.x), high(v.y), high(v.z), high(v.w)}; }
__device__ __forceinline__ uint4 rests(uint4 v, uint4 h) {
  return uint4{rest(v.x, h.x), rest(v.y, h.y), rest(v.z, h.z), rest(v.w, h.w)}; }
__device__ __forceinline__ void steps_tf32(float* c, uint4 x, uint4 y, uint4 b) {
  step_tf32(c, x.x, y.x, x.y, y.y, b.x, b.y); step_tf32(c, x.z, y.z, x.w, y.w, b.z, b.w); }
__device__ __forceinline__ void mma_tf32(float* c, uint4 x, uint4 y, uint4 b) {
  steps_tf32(c, highs(x), highs(y), highs(b)); }
__device__ __forceinline__ void mma_exact(float* c, uint4 x, uint4 y, uint4 b) {
  const uint4 xh = highs(x), yh = highs(y), bh = highs(b);
  steps_tf32(c, rests(x, xh), rests(y, yh), bh); steps_tf32(c, xh, yh, rests(b, bh)); steps_tf32(c, xh, yh, bh); }
"""
