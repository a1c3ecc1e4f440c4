"""Products of few rows by a weight, which cost what reading the weight costs: a kernel of our own for Hopper GPUs.

The copy engine brings a block's part of the weight into shared memory before the block waits for the kernel ahead of
it, so that memory is busy while that one still runs; then the rows follow, and each chunk is multiplied as it arrives,
by a warp group of 64 rows. The inner axis is cut into the blocks of a cluster, which add up through each other's shared
memory. Swizzles and descriptors are those of NVIDIA's PTX manual (asynchronous warpgroup matrix instructions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from egraph_opt.ir import TensorType
from egraph_opt.runtime.cuda.expressions import LAUNCHED
from egraph_opt.runtime.cuda.launch import Matrix, capability, compiled, enqueue
from egraph_opt.runtime.cuda.steps import Product
from egraph_opt.runtime.cuda.views import View, alignment

Pointer = Callable[[View], int]

_ROWS, _THREADS, _SHARED, _PROCESSORS, _MOST, _CHUNK = 64, 128, 227 * 1024, 132, 6, 128
_COLUMNS, _CLUSTERS = (16, 32, 64, 96, 128), (1, 2, 4, 8)
_EACH = 32
"""What a part of a cut inner axis costs, in rows: adding up takes longer than loading."""
TYPES = {"float32": "float", "float16": "Half", "bfloat16": "Brain"}
_UNITS = {"float32": ("k8", "tf32", ""), "float16": ("k16", "f16", ", 0, 0"), "bfloat16": ("k16", "bf16", ", 0, 0")}

INSTRUCTIONS = """
struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };
struct __align__(64) Matrix { unsigned long long words[16]; };
__device__ __forceinline__ float up(float v) { return v; }
__device__ __forceinline__ float up(Half v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits)); return r; }
__device__ __forceinline__ float up(Brain v) { return __int_as_float(v.bits << 16); }
__device__ __forceinline__ void down(float& r, float v) { r = v; }
__device__ __forceinline__ void down(Half& r, float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v)); }
__device__ __forceinline__ void down(Brain& r, float v) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v)); }
__device__ __forceinline__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void prepare(unsigned long long* arrived, int count) {
  for (int i = 0; i < count; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(arrived + i)));
  asm volatile("fence.mbarrier_init.release.cluster;\\nfence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void expect(unsigned long long* arrived, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(place(arrived)), "r"(bytes)
    : "memory"); }
__device__ __forceinline__ void bring(void* to, const Matrix* m, int column, int row, unsigned long long* arrived) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    :: "r"(place(to)), "l"(m), "r"(column), "r"(row), "r"(place(arrived)) : "memory"); }
__device__ __forceinline__ void await(unsigned long long* arrived) {
  asm volatile("{\\n.reg .pred p;\\nAGAIN:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n@p bra DONE;\\n"
    "bra AGAIN;\\nDONE:\\n}" :: "r"(place(arrived)) : "memory"); }
__device__ __forceinline__ unsigned long long described(const void* p) {
  return (unsigned long long)((place(p) & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void begin_multiplying() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_multiplying() {
  asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ float4 of_block(const float* p, int rank) { unsigned far; float4 v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(place(p)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
    : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(far) : "memory"); return v; }
"""
BODY = """
template <typename T> struct __align__(4 * sizeof(T)) Four { T e[4]; };
template <typename T> __device__ __forceinline__ void add_four(float* v, const Four<T>& x) {
  _Pragma("unroll") for (int i = 0; i < 4; i++) v[i] += up(x.e[i]); }
/* M rows, N columns and CHUNKS of 128 bytes of the inner axis in a block. An entry of the batch begins AK, BK elements
   and AR, BR rows further in a and b, SD and SC elements in d and c, whose rows are LD and LC elements apart. */
template <typename T, typename D, int M, int N, int CHUNKS, int CLUSTER, int TILES, bool RELU>
__device__ __forceinline__ void thin(const Matrix& a, const Matrix& b, D* d, const D* bias, const D* c, int lead,
    float alpha, int AK, int AR, int BK, int BR, long long SD, long long LD, long long SC, long long LC) {
  constexpr int PER = 128 / sizeof(T), ROW = N + 8, GROUPS = M * N / 4;
  constexpr int TILE = CHUNKS * (N + 64) * 128, SUMS = 64 * ROW * 4, END = TILE > SUMS ? TILE : SUMS;
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char *weight = shared + (1024 - place(shared) % 1024) % 1024, *rows = weight + CHUNKS * N * 128;
  unsigned long long* arrived = reinterpret_cast<unsigned long long*>(weight + END);
  float* sums = reinterpret_cast<float*>(weight);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int rank = blockIdx.x % CLUSTER, tile = blockIdx.x / CLUSTER % TILES, batch = blockIdx.x / (CLUSTER * TILES);
  if (tid == 0) {
    prepare(arrived, CHUNKS);
    for (int i = 0; i < CHUNKS; i++) {
      expect(arrived + i, (N + 64) * 128);
      bring(weight + i * N * 128, &b, batch * BK + (rank * CHUNKS + i) * PER, batch * BR + tile * N, arrived + i); } }
  if (lead) let_next_begin();
  wait_for_previous();
  if (tid == 0) for (int i = 0; i < CHUNKS; i++)
    bring(rows + i * 64 * 128, &a, batch * AK + (rank * CHUNKS + i) * PER, batch * AR, arrived + i);
  __syncthreads();
  float sum[N / 2] = {};
  _Pragma("unroll") for (int i = 0; i < CHUNKS; i++) {
    await(arrived + i);
    begin_multiplying();
    _Pragma("unroll") for (int k = 0; k < 4; k++)
      multiply<T>(sum, rows + i * 64 * 128 + k * 32, weight + i * N * 128 + k * 32); }
  end_multiplying();
  __syncthreads();
  float* own = sums + (warp * 16 + (lane >> 2)) * ROW + (lane & 3) * 2;
  _Pragma("unroll") for (int j = 0; j < N / 8; j++) {
    *reinterpret_cast<float2*>(own + j * 8) = make_float2(sum[j * 4], sum[j * 4 + 1]);
    *reinterpret_cast<float2*>(own + 8 * ROW + j * 8) = make_float2(sum[j * 4 + 2], sum[j * 4 + 3]); }
  if (CLUSTER > 1) cluster_wait(); else __syncthreads();
  constexpr int TURNS = (GROUPS + 128 * CLUSTER - 1) / (128 * CLUSTER), ONCE = TURNS < 4 ? TURNS : 4;
  for (int turn = 0; turn < TURNS; turn += ONCE) {
    float4 x[ONCE][CLUSTER];  // all of them are asked for before the first is used
    _Pragma("unroll") for (int t = 0; t < ONCE; t++) {
      const int i = ((turn + t) * CLUSTER + rank) * 128 + tid;
      const float* p = sums + (i < GROUPS ? i / (N / 4) * ROW + i % (N / 4) * 4 : 0);
      _Pragma("unroll") for (int s = 0; s < CLUSTER; s++)
        x[t][s] = CLUSTER > 1 ? of_block(p, s) : *reinterpret_cast<const float4*>(p); }
    _Pragma("unroll") for (int t = 0; t < ONCE; t++) {
      const int i = ((turn + t) * CLUSTER + rank) * 128 + tid, row = i / (N / 4), at = tile * N + i % (N / 4) * 4;
      if (i >= GROUPS) continue;
      float v[4] = {}; Four<D> out;
      _Pragma("unroll") for (int s = 0; s < CLUSTER; s++) {
        v[0] += x[t][s].x; v[1] += x[t][s].y; v[2] += x[t][s].z; v[3] += x[t][s].w; }
      _Pragma("unroll") for (int e = 0; e < 4; e++) v[e] *= alpha;
      if (bias) add_four(v, *reinterpret_cast<const Four<D>*>(bias + at));
      if (c) add_four(v, *reinterpret_cast<const Four<D>*>(c + batch * SC + row * LC + at));
      _Pragma("unroll") for (int e = 0; e < 4; e++) down(out.e[e], RELU && v[e] < 0 ? 0.f : v[e]);
      *reinterpret_cast<Four<D>*>(d + batch * SD + row * LD + at) = out; } }
  if (CLUSTER > 1) cluster_wait();  // the others may still read our shared memory
}
"""


@dataclass(frozen=True)
class Tiling:
    """A block computes ``columns`` of the result from one of ``cluster`` parts of the inner axis."""

    columns: int
    cluster: int

    def shared(self, row: int) -> int:
        """Bytes of shared memory, where a row of the inner axis has ``row`` bytes."""
        chunks = row // self.cluster // _CHUNK
        tiles = chunks * (self.columns + _ROWS) * _CHUNK
        return 1024 + max(tiles, _ROWS * (self.columns + 8) * 4) + 8 * chunks


def tilings(step: Product, fast: bool) -> list[Tiling]:
    """The ways to run ``step`` here, those that load least per multiprocessor first; none where it does not fit."""
    if not _fits(step, fast):
        return []
    (batch, _, inner), columns = step.a.shape, step.b.shape[2]
    row = inner * _size(step.a)
    found: dict[Tiling, int] = {}
    for wide, cluster in product(_COLUMNS, _CLUSTERS):
        tiling = Tiling(wide, cluster)
        whole = columns % wide == 0 and row % (_CHUNK * cluster) == 0
        if whole and tiling.shared(row) <= _SHARED:
            waves = -(-batch * columns // wide * cluster // _PROCESSORS)
            added = 0 if cluster == 1 else _EACH * cluster
            found[tiling] = waves * (wide + _ROWS + added) * (row // cluster)
    return sorted(found, key=lambda t: (found[t], t.cluster))[:_MOST]


def _fits(step: Product, fast: bool) -> bool:
    """16-bit or TF32 operands of at most 64 rows, the inner axis fastest in both, everything on vector boundaries."""
    a, b, d = step.a, step.b, step.d
    plain = a.dtype == b.dtype and (a.dtype in ("float16", "bfloat16") or (a.dtype == "float32" and fast))
    straight = a.strides[2] == 1 and b.strides[1] == 1 and d.strides[2] == 1
    if not (plain and straight and a.shape[1] <= _ROWS and d.dtype in TYPES):
        return False
    loaded = all(alignment(view) >= 16 for view in (a, b))
    return loaded and all(v is None or alignment(v) >= 4 * _size(v) for v in (d, step.c, step.bias))


def _size(view: View) -> int:
    return TensorType(view.dtype, ()).itemsize


@dataclass(frozen=True)
class Operand:
    """A batch of matrices whose rows have stride 1 as one matrix: its size, the elements from row to row, and where the
    next entry of the batch begins (element, row)."""

    size: tuple[int, int]
    pitch: int
    step: tuple[int, int]


def operand(view: View, rows: int, inner: int) -> Operand:
    """``view`` is (batch, rows, inner) by its strides, in either order of the last two axes."""
    batch, pitch = view.shape[0], max(*view.strides[1:], inner)
    step = (view.strides[0] % pitch, view.strides[0] // pitch) if batch > 1 else (0, 0)
    return Operand(((batch - 1) * step[0] + inner, (batch - 1) * step[1] + rows), pitch, step)


def source(step: Product, tiling: Tiling, name: str) -> str:
    """The kernel ``name(a, b, d, bias, c, lead)`` for ``step``; absent operands are null."""
    (_, rows, inner), columns = step.a.shape, step.b.shape[2]
    x, y, c = TYPES[step.a.dtype], TYPES[step.d.dtype], step.c or step.d
    chunks = inner * _size(step.a) // tiling.cluster // _CHUNK
    numbers = (rows, tiling.columns, chunks, tiling.cluster, columns // tiling.columns)
    relu = "true" if step.activation == "Relu" else "false"
    left, right = operand(step.a, rows, inner), operand(step.b, columns, inner)
    steps = (*left.step, *right.step, *step.d.strides[:2], *c.strides[:2])
    return (
        f'extern "C" __global__ void __cluster_dims__({tiling.cluster}, 1, 1) __launch_bounds__({_THREADS})\n{name}('
        f"const __grid_constant__ Matrix a, const __grid_constant__ Matrix b, {y}* d, const {y}* bias,\n"
        f"    const {y}* c, const int lead) {{\n"
        f"  thin<{x}, {y}, {', '.join(map(str, numbers))}, {relu}>(a, b, d, bias, c, lead, "
        f"{float(step.alpha)!r}f, {', '.join(map(str, steps))});\n}}\n"
    )


def units(columns: int) -> str:
    """The matrix instructions for so many columns: ``multiply<T>(sum, a, b)`` adds 32 bytes of the inner axis."""
    count = columns // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))
    lines = ["template <typename T> struct Units;"]
    for dtype, (depth, kind, turned) in _UNITS.items():
        lines.append(
            f"template <> struct Units<{TYPES[dtype]}> {{ static __device__ __forceinline__ void add("
            f"float (&s)[{count}], const void* a, const void* b) {{\n"
            f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n'
            f"wgmma.mma_async.sync.aligned.m64n{columns}{depth}.f32.{kind}.{kind} {{{registers}}}, %{count}, "
            f'%{count + 1}, p, 1, 1{turned};\\n}}"\n    : {outputs}\n    : "l"(described(a)), "l"(described(b)), '
            f'"r"(1)); }} }};'
        )
    lines.append(
        f"template <typename T> __device__ __forceinline__ void multiply(float (&s)[{count}], const void* a, "
        "const void* b) { Units<T>::add(s, a, b); }"
    )
    return "\n".join(lines)


@dataclass
class ThinCall:
    """One tiling of one product."""

    owner: Thin
    step: Product
    tiling: Tiling
    space: int = 0

    @property
    def label(self) -> str:
        """Finds the tiling again in another process."""
        return f"thin:{self.tiling.columns}x{self.tiling.cluster}"

    @cached_property
    def text(self) -> str:
        """The kernel."""
        return source(self.step, self.tiling, "kernel")

    def launch(self, pointer: Pointer, space: int, stream: int, early: bool = False, lead: bool = False) -> None:
        """Enqueues the product."""
        step, tiling, dtype = self.step, self.tiling, self.step.a.dtype
        (batch, rows, inner), columns, size = step.a.shape, step.b.shape[2], _size(step.a)
        left, right = operand(step.a, rows, inner), operand(step.b, columns, inner)
        a = Matrix(dtype, pointer(step.a), left.size, left.pitch * size, _ROWS)
        b = Matrix(dtype, pointer(step.b), right.size, right.pitch * size, tiling.columns)
        rest = [0 if view is None else pointer(view) for view in (step.d, step.bias, step.c)]
        enqueue(
            self.owner.function(self), batch * columns // tiling.columns * tiling.cluster, _THREADS,
            [a, b, *rest], stream, shared=tiling.shared(inner * size), early=early, lead=lead,
        )  # fmt: skip


class Thin:
    """The kernels, compiled once per process."""

    def __init__(self) -> None:
        self._functions: dict[str, int] = {}

    def calls(self, step: Product, fast: bool) -> list[ThinCall]:
        """Candidates for ``step``; ``fast`` lets float32 products use TF32."""
        if capability() != 90:
            return []
        return [ThinCall(self, step, tiling) for tiling in tilings(step, fast)]

    def call(self, step: Product, fast: bool, label: str) -> ThinCall | None:
        """The candidate that ``label`` names, if it is one of these."""
        if not label.startswith("thin:"):
            return None
        return next((call for call in self.calls(step, fast) if call.label == label), None)

    def function(self, call: ThinCall) -> int:
        """The handle of the kernel of ``call``."""
        if call.text not in self._functions:
            code = LAUNCHED + INSTRUCTIONS + units(call.tiling.columns) + BODY + call.text
            self._functions[call.text] = compiled(code, ["kernel"])["kernel"]
        return self._functions[call.text]
