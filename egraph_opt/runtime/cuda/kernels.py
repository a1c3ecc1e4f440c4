"""Generated kernels: one loop over the elements of a value, one row per block, dot products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from egraph_opt.ir import TensorGraph
from egraph_opt.ops.base import integer
from egraph_opt.runtime.cuda.emit import Emitter, Index, at, integer_let, unravel
from egraph_opt.runtime.cuda.expressions import COMPUTED, STORED, literal
from egraph_opt.runtime.cuda.lanes import packs, width_of
from egraph_opt.runtime.cuda.loops import LOOPED, REDUCED, WIDE, reduced_axes, reduction_index, reduction_start
from egraph_opt.runtime.cuda.movers import MOVES
from egraph_opt.runtime.cuda.steps import Generated
from egraph_opt.runtime.cuda.views import View

_THREADS = 256
_ROW_OPERATORS = ("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "InstanceNormalization")
ROWS = frozenset(_ROW_OPERATORS)


@dataclass(frozen=True)
class Code:
    """What kernels are generated from: the graph, and where its stored values and prepared weights lie.

    ``parts`` says of which stored values there are several partial sums, one after the other, that make up the value.
    """

    graph: TensorGraph
    stored: Callable[[int], View | None]
    prepared: Callable[[int], View]
    parts: Mapping[int, int] = field(default_factory=dict[int, int])

    def emitter(self) -> Emitter:
        return Emitter(self.graph, self.stored, self.prepared, {**MOVES, **LOOPED}, WIDE, self.parts)

    # --- element by element

    def loop(self, root: int, target: View, title: str, *, copy: bool = False) -> Generated:
        """One thread per element of ``root``, or per few that lie side by side, in the order in which ``target`` lies;
        ``copy`` loads what is stored."""
        e = self.emitter()
        order = sorted(range(len(target.shape)), key=lambda axis: (-target.strides[axis], axis))
        last = next((axis for axis in reversed(order) if target.shape[axis] != 1), 0)
        width = width_of(target, last) if target.shape else 1
        shape, let = list(target.shape), integer_let(e)
        if width > 1:
            shape[last] //= width
        index = unravel("flat", shape, order, let)
        indices = [index]
        if width > 1:
            e.lanes.width = width
            names = e.lanes.start(let(f"{index[last]} * {width}"), let)
            indices = [(*index[:last], name, *index[last + 1 :]) for name in names]
        e.store(target, indices[0], *(e.values(root, indices) if copy else e.computed(root, indices)))
        count = target.elements // width
        threads = min(_THREADS, 32 * -(-count // 32))
        head = [f"const int flat = blockIdx.x * {threads} + threadIdx.x;", f"if (flat >= {count}) return;"]
        return finished(e, head, title, -(-count // threads), threads, target)

    # --- row by row

    def rows(self, root: int, anchor: int, target: View, title: str) -> Generated:
        """One block (or one warp) per row of ``anchor``; what follows it element by element is computed with it."""
        e, operator = self.emitter(), self.graph.nodes[anchor]
        source = operator.operands[0]
        shape = at(e, source)
        axes = _row_axes(self.graph, anchor)
        length = math.prod(shape[a] for a in axes)
        warps = min(max(1, length // 128), 8) if length > 256 else 1
        threads, per_block = 32 * warps, 4 if warps == 1 else 1
        count = math.prod(shape) // length
        let = integer_let(e)
        outer_shape = tuple(1 if a in axes else n for a, n in enumerate(shape))
        outer = unravel("row", outer_shape, range(len(shape)), let)
        inner_shape = tuple(n if a in axes else 1 for a, n in enumerate(shape))
        width = _row_width(length, threads, axes, len(shape))
        steps = -(-length // (threads * width))
        dtype = e.type(anchor).dtype
        t = COMPUTED[dtype]

        def index(i: str) -> Index:
            inside = unravel(i, inner_shape, range(len(shape)), let)
            return tuple(inside[a] if a in axes else outer[a] for a in range(len(shape)))

        def several(body: Callable[[Sequence[str], Sequence[str]], None]) -> None:
            e.lines.append("#pragma unroll")
            e.enter(f"for (int k = 0; k < {steps}; k++)")
            e.lines.append(f"const int i = (lane + k * {threads}) * {width};")
            e.enter(f"if (i < {length})" if length % (threads * width) else "")
            body(e.lanes.start("i", let), [f"x[k * {width} + {number}]" for number in range(width)])
            e.leave()
            e.leave()

        def each(body: Callable[[str, str], None]) -> None:
            def one_by_one(names: Sequence[str], xs: Sequence[str]) -> None:
                for i, x in zip(names, xs, strict=True):
                    body(i, x)

            several(one_by_one)

        def read(names: Sequence[str], xs: Sequence[str]) -> None:
            values = e.values(source, [index(i) for i in names])
            e.lines += [f"{x} = {value};" for x, value in zip(xs, values, strict=True)]

        def finish(names: Sequence[str], xs: Sequence[str]) -> None:
            owns = [index(i) for i in names]
            for own, x in zip(owns, xs, strict=True):
                e.bind(anchor, own, _normalised(e, anchor, own, normal(x)))
            values = e.computed(root, owns)
            if width > 1 and packs(target, axes[0], width):
                e.store(target, owns[0], *values)
            else:
                for own, value in zip(owns, values, strict=True):
                    e.store(target, own, value)

        e.lanes.width = width
        e.lines.append(f"{t} x[{steps * width}];")
        several(read)
        normal = _statistics(e, operator.op, operator.attrs, t, dtype, length, warps, each)
        several(finish)
        lane = f"const int lane = threadIdx.x{' & 31' if per_block > 1 else ''};"
        row = (
            f"const int row = blockIdx.x * {per_block} + (threadIdx.x >> 5);"
            if per_block > 1
            else "const int row = blockIdx.x;"
        )
        head = [lane, row, f"if (row >= {count}) return;"]
        return finished(e, head, title, -(-count // per_block), threads * per_block, target)

    def reduction(self, root: int, anchor: int, target: View, title: str) -> Generated:
        """A reduction over many elements: a block of 8 warps per element of the result, or, where neighbours in memory
        belong to different elements (channels fastest), per 32 of them."""
        e, operator = self.emitter(), self.graph.nodes[anchor]
        source, (axes, keep) = operator.operands[0], reduced_axes(self.graph, anchor)
        shape, let = at(e, source), integer_let(e)
        length = math.prod(shape[a] for a in axes)
        view = self.stored(source)
        tiled = view is not None and all(view.strides[a] != 1 or shape[a] == 1 for a in axes)
        lanes, shares = (32, 8) if tiled else (1, 32 * min(8, max(1, length // 128)))
        dtype = e.type(anchor).dtype
        t = COMPUTED[dtype]
        start, step, end = REDUCED[operator.op]
        count = math.prod(at(e, anchor))
        e.lines.append(f"const int row = blockIdx.x * {lanes} + threadIdx.x % {lanes}, share = threadIdx.x / {lanes};")
        own = unravel("row", at(e, anchor), range(len(at(e, anchor))), let)
        e.lines.append(f"{t} total = {reduction_start(start, dtype)};")
        e.lines.append("#pragma unroll 4")
        e.enter(f"for (int i = share; i < {length} && row < {count}; i += {shares})")
        inner = unravel("i", [shape[a] for a in axes], range(len(axes)), let)
        e.lines.append(step.format(a="total", x=e.value(source, reduction_index(own, inner, axes, len(shape), keep))))
        e.leave()
        join = "larger" if "larger" in step else "smaller" if "smaller" in step else "sum2"
        if tiled:
            joined = "total * parts[i][threadIdx.x]" if "*=" in step else f"{join}(total, parts[i][threadIdx.x])"
            e.lines += [
                f"__shared__ {t} parts[{shares}][{lanes}];",
                f"parts[share][threadIdx.x % {lanes}] = total;",
                "__syncthreads();",
                f"if (share || row >= {count}) return;",
                f'_Pragma("unroll") for (int i = 1; i < {shares}; i++) total = {joined};',
            ]
        else:
            name = "product" if "*=" in step else {"larger": "max", "smaller": "min", "sum2": "sum"}[join]
            e.lines += [f"total = block_{name}<{shares // 32}>(total);", "if (threadIdx.x) return;"]
        value = e.let(dtype, end.format(a="total", n=f"({t}){length}"))
        e.bind(anchor, own, value)
        e.store(target, own, value if root == anchor else e.compute(root, own))
        return finished(e, [], title, -(-count // lanes), lanes * shares, target)

    # --- dot products

    def dots(self, root: int, anchors: Sequence[int], vectors: dict[int, View], target: View, title: str) -> Generated:
        """Products of one row by a weight: each dot product is summed by one or more warps of a block, and the first
        threads of the block compute ``root`` from the sums.

        Args:
            vectors: per product, the view of its row (K,) with stride 1; ``prepared`` holds the weight as (N, K).
        """
        e = self.emitter()
        let = integer_let(e)
        found: list[tuple[int, str]] = []

        def dot(node: int, own: Index) -> str:
            key = (node, own[-1])
            if key not in found:
                found.append(key)
            alpha = self.graph.nodes[node].attrs[2] if self.graph.nodes[node].op == "Gemm" else 1.0
            scale = "" if alpha == 1 else f"{literal(alpha, 'float32')} * "
            return f"({scale}sums[{found.index(key)}])"

        e.special = dict.fromkeys(anchors, dot)
        index = unravel("flat", target.shape, range(len(target.shape)), let)
        value = e.compute(root, index)
        after, e.lines = e.lines, []
        split, per = _shares(len(found), max(vectors[a].shape[0] for a in anchors), target.elements)
        warps = len(found) * split * per
        e.lines.append(f"__shared__ float parts[{warps}];")
        e.enter("")
        e.lines.append("const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;")
        e.lines.append(f"const int slot = warp % {per}, part = (warp / {per}) % {split}, which = warp / {per * split};")
        e.lines.append(f"const int flat = blockIdx.x * {per} + slot; float s = 0;")
        e.enter(f"if (flat < {target.elements})")
        e.lines += [line for line in after if line.startswith("const int ")]  # the columns need nothing else
        for number, (node, column) in enumerate(found):
            weight, vector = self.prepared(node), vectors[node]
            k = vector.shape[0]
            e.read += [view for view in (weight, vector) if view not in e.read]
            row = f"{e.parameter(weight)} + {weight.offset} + (long long){_paren(column)} * {k}"
            x = f"{e.parameter(vector)} + {vector.offset}"
            e.lines.append(f"if (which == {number}) "
                           f"s = dot<{k}, {split}, {STORED[weight.dtype]}>({row}, {x}, part, lane);")  # fmt: skip
        e.leave()
        e.lines += ["s = warp_sum(s);", "if (lane == 0) parts[warp] = s;"]
        e.leave()
        e.lines += ["__syncthreads();", f"if (threadIdx.x >= {per}) return;", "const int slot = threadIdx.x;",
                    f"const int flat = blockIdx.x * {per} + slot;", f"if (flat >= {target.elements}) return;",
                    f"float sums[{len(found)}];"]  # fmt: skip
        for number in range(len(found)):
            terms = " + ".join(f"parts[{(number * split + p) * per} + slot]" for p in range(split))
            e.lines.append(f"sums[{number}] = {terms};")
        e.lines += after
        e.store(target, index, value)
        return finished(e, [], title, -(-target.elements // per), 32 * warps, target, DOT)


def _shares(dots: int, length: int, count: int) -> tuple[int, int]:
    """Warps per dot product, and elements of the result per block: enough warps for memory, few that idle."""
    split = per = 1
    while dots * split < 8 and length // (split * 2) >= 512 and count * dots * split < 8192:
        split *= 2
    while dots * split * per * 2 <= 8 and count // (per * 2) >= 264:
        per *= 2
    return split, per


DOT = """
template <typename T> struct Pack { float f[16 / sizeof(T)]; };
template <typename T> __device__ __forceinline__ Pack<T> unpack(const T* p) {
  const uint4 raw = *reinterpret_cast<const uint4*>(p); const T* q = reinterpret_cast<const T*>(&raw); Pack<T> r;
  _Pragma("unroll") for (int i = 0; i < 16 / sizeof(T); i++) r.f[i] = up(q[i]); return r; }
template <int K, int SPLIT, typename T>
__device__ __forceinline__ float dot(const T* __restrict__ w, const T* __restrict__ x, int part, int lane) {
  constexpr int V = 16 / sizeof(T), STEP = 32 * V * SPLIT, FULL = K / STEP; float s = 0;
  if (K % V) { for (int k = part * 32 + lane; k < K; k += 32 * SPLIT) s += up(w[k]) * up(x[k]); return s; }
  const int first = (part * 32 + lane) * V;
  _Pragma("unroll 8") for (int n = 0; n < FULL; n++) {
    const Pack<T> a = unpack(w + first + n * STEP), b = unpack(x + first + n * STEP);
    _Pragma("unroll") for (int i = 0; i < V; i++) s += a.f[i] * b.f[i]; }
  if (K % STEP && first + FULL * STEP < K) {
    const Pack<T> a = unpack(w + first + FULL * STEP), b = unpack(x + first + FULL * STEP);
    _Pragma("unroll") for (int i = 0; i < V; i++) s += a.f[i] * b.f[i]; }
  return s; }
"""


def _paren(value: str) -> str:
    return value if value.isidentifier() or value.isdigit() else f"({value})"


def _row_width(length: int, threads: int, axes: Sequence[int], rank: int) -> int:
    """How many neighbours a thread has of a row that lies along the last axis."""
    if tuple(axes) != (rank - 1,):
        return 1
    return next((width for width in (4, 2) if length % width == 0 and length >= width * threads), 1)


def _row_axes(graph: TensorGraph, anchor: int) -> tuple[int, ...]:
    operator = graph.nodes[anchor]
    rank = len(graph.types[operator.operands[0]].shape)  # type: ignore[union-attr]
    if operator.op in ("Softmax", "LogSoftmax"):
        return (integer(operator.attrs[0]),)
    if operator.op == "InstanceNormalization":
        return tuple(range(2, rank))
    return tuple(range(integer(operator.attrs[0]), rank))


Each = Callable[[Callable[[str, str], None]], None]


def _statistics(
    e: Emitter, op: str, attrs: Sequence[object], t: str, dtype: str, length: int, warps: int, each: Each
) -> Callable[[str], str]:
    """Emits the sums over a row; returns how an element becomes its normalised value."""

    def total(join: str, start: str, step: str) -> str:
        name = e.name()
        e.lines.append(f"{t} {name} = {start};")
        each(lambda i, x: e.lines.append(step.format(a=name, x=x)))
        e.lines.append(f"{name} = block_{join}<{warps}>({name});")
        return name

    if op in ("Softmax", "LogSoftmax"):
        high = total("max", "-INF", "{a} = larger({a}, {x});")
        if op == "LogSoftmax":
            sums = total("sum", "0", f"{{a}} += exp({{x}} - {high});")
            shift = e.let(dtype, f"{high} + log({sums})")
            return lambda x: f"({x} - {shift})"
        sums = total("sum", "0", f"{{x}} = exp({{x}} - {high}); {{a}} += {{x}};")
        scale = e.let(dtype, f"1 / {sums}")
        return lambda x: f"({x} * {scale})"
    epsilon = literal(attrs[-1], dtype)
    if op == "RMSNormalization":
        squares = total("sum", "0", "{a} += {x} * {x};")
        scale = e.let(dtype, f"1 / sqrt({squares} / {length} + {epsilon})")
        return lambda x: f"({x} * {scale})"
    sums = total("sum", "0", "{a} += {x};")
    mean = e.let(dtype, f"{sums} / {length}")
    squares = total("sum", "0", f"{{x}} -= {mean}; {{a}} += {{x}} * {{x}};")
    scale = e.let(dtype, f"1 / sqrt({squares} / {length} + {epsilon})")
    return lambda x: f"({x} * {scale})"


def _normalised(e: Emitter, anchor: int, index: Index, value: str) -> str:
    """The result of the row operator: scaled and shifted by its parameters, where it has them."""
    operator, dtype = e.graph.nodes[anchor], e.type(anchor).dtype
    for position, mark in zip(range(1, len(operator.operands)), "*+", strict=False):
        parameter = operator.operands[position]
        if operator.op == "InstanceNormalization":
            own: Index = (index[1],) if at(e, parameter)[0] != 1 else ("0",)
            value = f"{value} {mark} {e.value(parameter, own)}"
        else:
            value = f"{value} {mark} {e.operand(anchor, position, index)}"
    return e.let(dtype, value)


def finished(
    e: Emitter, head: Sequence[str], title: str, grid: int, block: int, target: View, extra: str = ""
) -> Generated:
    """The statements of an emitter as a kernel."""
    parameters = []
    for number, view in enumerate(e.arguments):
        written = view.buffer == target.buffer
        kind = f"{STORED[view.dtype]}*" if written else f"const {STORED[view.dtype]}* __restrict__"
        parameters.append(f"{kind} p{number}")
    parameters.append("const int lead")
    start = "if (lead) let_next_begin(); wait_for_previous();"
    body = "\n".join(f"  {line}" for line in (start, *head, *e.lines))
    source = f'extern "C" __global__ void __launch_bounds__({block}) kernel({", ".join(parameters)}) {{\n{body}\n}}\n'
    reads = tuple(view for view in e.read if view.buffer != target.buffer or view != target)
    return Generated(title, reads, (target,), source, grid, block, tuple(v.buffer for v in e.arguments), extra)
