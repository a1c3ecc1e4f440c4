"""The attention kernel for 16-bit floats, on matrix units; the softmax is rescaled from one 64 keys to the next.

That needs no row of scores at once (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"), so that
scores stay in registers (as in Dao et al. 2022, "FlashAttention"). Every group of 32 threads has 16 rows of q and some
columns of the result; where there are few rows, groups share them and each computes the scores anew, which is cheaper
than to wait for others. Fragments are those of PTX's ``mma.m16n8k16``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from egraph_opt.runtime.cuda.attention import fill
from egraph_opt.runtime.cuda.emit import Emitter, Index, at, integer_let, unravel
from egraph_opt.runtime.cuda.expressions import STORED
from egraph_opt.runtime.cuda.kernels import Code, finished
from egraph_opt.runtime.cuda.steps import Generated
from egraph_opt.runtime.cuda.views import View

_GROUPS, _KEYS, _SHARED, _PROCESSORS = 8, 64, 48 * 1024, 132

UNITS = """
template <typename T> __device__ __forceinline__ unsigned pair_of(float a, float b) {
  const T v[2] = {Down<T>::of(a), Down<T>::of(b)}; unsigned r; memcpy(&r, v, 4); return r; }
__device__ __forceinline__ unsigned pair_at(const void* p) { return *(const unsigned*)p; }
/* d += a * b for 16 x 16 and 16 x 8 numbers, spread over the 32 threads */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MULTIPLY(KIND) asm("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0, %1, %2, %3}, " \\
  "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \\
  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <typename T> struct Spread;
template <> struct Spread<__half> { static __device__ __forceinline__ void add(
  float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { MULTIPLY("f16"); } };
template <> struct Spread<__nv_bfloat16> { static __device__ __forceinline__ void add(
  float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { MULTIPLY("bf16"); } };
#else
template <typename T> __device__ __forceinline__ float half_of(unsigned pair, int which) {
  T v[2]; memcpy(v, &pair, 4); return up(v[which]); }
template <typename T> struct Spread { static __device__ void add(
    float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const int lane = threadIdx.x & 31;
  for (int x = 0; x < 4; x++) for (int k = 0; k < 16; k += 2) {
    const unsigned left = __shfl_sync(0xffffffffu, a[x / 2 + k / 8 * 2], lane / 4 * 4 + k % 8 / 2);
    const unsigned right = __shfl_sync(0xffffffffu, k < 8 ? b0 : b1, (lane % 4 * 2 + x % 2) * 4 + k % 8 / 2);
    for (int i = 0; i < 2; i++) d[x] += half_of<T>(left, i) * half_of<T>(right, i); } } };
#endif
__device__ __forceinline__ float quad_max(float v) {
  v = larger(v, __shfl_xor_sync(0xffffffffu, v, 1)); return larger(v, __shfl_xor_sync(0xffffffffu, v, 2)); }
__device__ __forceinline__ float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1); return v + __shfl_xor_sync(0xffffffffu, v, 2); }
"""


def attention_on_units(code: Code, anchors: tuple[int, int, int], target: View, title: str) -> Generated:
    """``softmax(f(q @ k)) @ v`` as in ``attention``, of a 16-bit dtype; products are added up in float32."""
    first, soft, second = anchors
    e = code.emitter()
    let = integer_let(e)
    q, k = code.graph.nodes[first].operands
    v = code.graph.nodes[second].operands[1]
    (*batch, m, wide), depth, length = target.shape, at(e, q)[-1], at(e, k)[-1]
    kind, keys, deep = STORED[target.dtype], min(_KEYS, _up(length, 16)), _up(depth, 16)
    over = _groups_over_rows(math.prod(batch), m, depth, wide, keys)
    rows, share = 16 * over, _GROUPS // over
    tiles, columns = -(-m // rows), -(-wide // (8 * share))
    e.lines += [
        f"__shared__ __align__(16) {kind} q[{rows}][{_pitch(depth)}];",
        f"__shared__ __align__(16) {kind} k[{keys}][{_pitch(depth)}];",
        f"__shared__ __align__(16) {kind} v[{_up(wide, 8)}][{_pitch(keys)}];",
        f"const int tid = threadIdx.x, m0 = (blockIdx.x % {tiles}) * {rows}, batch = blockIdx.x / {tiles};",
        f"const int g = (tid & 31) >> 2, t = tid & 3, r0 = tid / {32 * share} * 16;",
        f"const int c0 = tid / 32 % {share} * {8 * columns};",
        f"float out[{columns}][4] = {{}}, high[2] = {{-INF, -INF}}, total[2] = {{}};",
    ]
    outer = unravel("batch", batch, range(len(batch)), let)

    def own(node: int, *inner: str) -> Index:
        shape = at(e, node)
        return tuple("0" if n == 1 else i for i, n in zip((*outer, *inner)[-len(shape) :], shape, strict=True))

    def limit(*conditions: tuple[str, int, int]) -> str:
        """What holds for indices below ``end`` of those below ``most``."""
        return " && ".join(f"{name} < {end}" for name, end, most in conditions if end < most)

    many, broad = _up(length, keys), _up(wide, 8)
    fill(e, kind, "q[{r}][{c}]", (rows, deep), limit(("m0 + r", m, tiles * rows), ("c", depth, deep)), q,
         lambda r, c: own(q, let(f"m0 + {r}"), c), depth)  # fmt: skip
    e.enter(f"for (int s0 = 0; s0 < {length}; s0 += {keys})")
    e.lines.append("__syncthreads();")
    straight = code.stored(k)
    turned = straight is not None and straight.strides[-1] == 1
    side = "r" if turned else "c"
    fill(e, kind, "k[{r}][{c}]", (keys, deep), limit(("s0 + r", length, many), ("c", depth, deep)), k,
         lambda r, c: own(k, c, let(f"s0 + {r}")), length if turned else depth, along=side, first=side)  # fmt: skip
    fill(e, kind, "v[{c}][{r}]", (keys, broad), limit(("s0 + r", length, many), ("c", wide, broad)), v,
         lambda r, c: own(v, let(f"s0 + {r}"), c), wide, first="r")  # fmt: skip
    e.lanes.of.clear()
    e.lines.append("__syncthreads();")
    e.lines.append(f"float s[{keys // 8}][4] = {{}};")
    part = [f"pair_at(&q[r0 + g + {i % 2 * 8}][d + 2 * t + {i // 2 * 8}])" for i in range(4)]
    e.lines += _products(kind, "s[n]", (keys // 8, deep), part, "k", "n * 8")
    _scores(e, soft, first, outer, (m, length, keys))
    e.lines += _softmax(keys, columns)
    part = [
        f"pair_of<{kind}>(s[d / 8 + {i // 2}][{i % 2 * 2}], s[d / 8 + {i // 2}][{i % 2 * 2 + 1}])" for i in range(4)
    ]
    e.lines += _products(kind, "out[n]", (columns, keys), part, "v", "c0 + n * 8", limit=broad)
    e.leave()
    _store(e, target, outer, (m, wide, columns))
    return finished(e, [], title, math.prod(batch) * tiles, 32 * _GROUPS, target, UNITS)


def _products(
    kind: str, sums: str, size: tuple[int, int], left: Sequence[str], right: str, row: str, limit: int | None = None
) -> list[str]:
    """Adds ``left`` (fragments at d) times ``right`` to so many tiles of 8 columns."""
    count, depth = size
    guard = "" if limit is None else f"if ({row} < {limit}) "
    pairs = ", ".join(f"pair_at(&{right}[{row} + g][d + 2 * t + {i}])" for i in (0, 8))
    return [
        "#pragma unroll",
        f"for (int d = 0; d < {depth}; d += 16) {{",
        f"const unsigned part[4] = {{{', '.join(left)}}};",
        "#pragma unroll",
        f"for (int n = 0; n < {count}; n++) {guard}Spread<{kind}>::add({sums}, part, {pairs});",
        "}",
    ]


def _scores(e: Emitter, soft: int, first: int, outer: Index, size: tuple[int, int, int]) -> None:
    """What is computed between the first product and the softmax."""
    m, length, keys = size
    e.lines.append("#pragma unroll")
    e.enter(f"for (int n = 0; n < {keys // 8}; n++)")
    e.lines.append("#pragma unroll")
    e.enter("for (int x = 0; x < 4; x++)")
    e.lines.append("const int i = m0 + r0 + g + x / 2 * 8, j = s0 + n * 8 + 2 * t + x % 2;")
    e.enter(f"if (i < {m} && j < {length})")
    index: Index = (*outer, "0" if m == 1 else "i", "0" if length == 1 else "j")
    e.bind(first, index, "s[n][x]")
    e.lines.append(f"s[n][x] = {e.value(e.graph.nodes[soft].operands[0], index)};")
    e.leave()
    e.lines.append("else s[n][x] = -INF;")
    e.leave()
    e.leave()


def _softmax(keys: int, columns: int) -> list[str]:
    """Scores become exponentials; what has been added up so far is scaled to the new maximum."""
    each = f"for (int n = 0; n < {keys // 8}; n++)"
    return [
        "#pragma unroll",
        "for (int h = 0; h < 2; h++) {",
        "float most = high[h];",
        f'_Pragma("unroll") {each} most = larger(most, larger(s[n][2 * h], s[n][2 * h + 1]));',
        "most = quad_max(most);",
        "const float base = most == -INF ? 0.f : most, factor = exp(high[h] - base);",
        "high[h] = most; total[h] *= factor;",
        f'_Pragma("unroll") {each} _Pragma("unroll") for (int x = 2 * h; x < 2 * h + 2; x++) {{',
        "s[n][x] = exp(s[n][x] - base); total[h] += s[n][x]; }",
        f'_Pragma("unroll") for (int n = 0; n < {columns}; n++) {{',
        "out[n][2 * h] *= factor; out[n][2 * h + 1] *= factor; }",
        "}",
    ]


def _store(e: Emitter, target: View, outer: Index, size: tuple[int, int, int]) -> None:
    m, wide, columns = size
    e.lines.append("for (int h = 0; h < 2; h++) total[h] = 1.f / quad_sum(total[h]);")
    e.lines.append("#pragma unroll")
    e.enter(f"for (int n = 0; n < {columns}; n++)")
    e.lines.append("#pragma unroll")
    e.enter("for (int x = 0; x < 4; x++)")
    e.lines.append("const int i = m0 + r0 + g + x / 2 * 8, j = c0 + n * 8 + 2 * t + x % 2;")
    e.enter(f"if (i < {m} && j < {wide})")
    e.store(target, (*outer, "0" if m == 1 else "i", "0" if wide == 1 else "j"), "out[n][x] * total[x / 2]")
    e.leave()
    e.leave()
    e.leave()


def _groups_over_rows(batch: int, m: int, depth: int, wide: int, keys: int) -> int:
    """How many groups of 32 threads have rows of their own: as many as leave a block for every multiprocessor."""
    for over in (8, 4, 2):
        rows = 16 * over
        size = 2 * ((rows + keys) * _pitch(depth) + _up(wide, 8) * _pitch(keys))
        if rows < m + 16 and size <= _SHARED and batch * -(-m // rows) >= _PROCESSORS:
            return over
    return 1


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _pitch(size: int) -> int:
    """The length of a row of which 8, four bytes of each at a time, lie in different banks."""
    return _up(size, 16) + 8
