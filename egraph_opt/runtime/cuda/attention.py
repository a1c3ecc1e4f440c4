"""The attention kernel: two products and the softmax between them, without the scores ever in global memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from egraph_opt.runtime.cuda.emit import Emitter, Index, at, integer_let, unravel
from egraph_opt.runtime.cuda.expressions import literal
from egraph_opt.runtime.cuda.kernels import Code, finished
from egraph_opt.runtime.cuda.steps import Generated
from egraph_opt.runtime.cuda.views import View

_SHARED, _THREADS = 48 * 1024, 256


def attention(code: Code, anchors: tuple[int, int, int], target: View, title: str) -> Generated:
    """``softmax(f(q @ k)) @ v`` with ``f`` element by element; one block per batch entry and 8 rows of q.

    Args:
        anchors: the nodes of the first product, the softmax and the second product: q (*batch, M, D), k (*batch, D,
            S), v (*batch, S, V), where batch axes of size 1 are repeated.
    """
    first, soft, second = anchors
    e = code.emitter()
    let = integer_let(e)
    q, k = code.graph.nodes[first].operands
    v = code.graph.nodes[second].operands[1]
    (*batch, m, wide), depth, length = target.shape, at(e, q)[-1], at(e, k)[-1]
    straight = code.stored(k)
    rows, tiles, strips = 8, -(-m // 8), -(-wide // 64)
    both = _attention_bytes(depth, length, wide, tiles=2) <= _SHARED  # v is loaded while k is: one wait less
    e.lines += [
        f"__shared__ __align__(16) float q[{rows}][{_padded(depth)}];",
        f"__shared__ __align__(16) float tile[{1 + both}][64][{_padded(max(depth, 64 * strips))}];",
        f"__shared__ __align__(16) float p[{rows}][{_padded(length)}];",
        f"const int tid = threadIdx.x, m0 = (blockIdx.x % {tiles}) * {rows}, batch = blockIdx.x / {tiles};",
        "const int column = tid & 63, row = tid >> 6;",
    ]
    outer = unravel("batch", batch, range(len(batch)), let)

    def own(node: int, *inner: str) -> Index:
        shape = at(e, node)
        index = (*outer, *inner)[-len(shape) :]
        return tuple("0" if n == 1 else i for i, n in zip(index, shape, strict=True))

    def bring(into: str, size: tuple[int, int], node: int, place: Callable[[str, str], Index], limit: str) -> None:
        turned = node == k and straight is not None and straight.strides[-1] == 1
        end, side = (length, "r") if turned else (size[1], "c")
        fill(e, "float", into, size, limit, node, place, end, along=side, first=side)

    within = "" if length % 64 == 0 else f"s0 + r < {length}"

    def bring_v(into: str) -> None:
        bring(into, (64, wide), v, lambda r, c: own(v, let(f"s0 + {r}"), c), within)

    rows_end = "" if m % rows == 0 else f"m0 + r < {m}"
    bring("q[{r}][{c}]", (rows, depth), q, lambda r, c: own(q, let(f"m0 + {r}"), c), rows_end)
    early = both and length <= 64
    e.enter(f"for (int s0 = 0; s0 < {length}; s0 += 64)")
    e.lines.append("__syncthreads();")
    bring("tile[0][{r}][{c}]", (64, depth), k, lambda r, c: own(k, c, let(f"s0 + {r}")), within)
    if early:
        bring_v("tile[1][{r}][{c}]")
    e.lanes.of.clear()
    e.lines.append("__syncthreads();")
    e.lines.append(f"float sum[{rows // 4}] = {{}};")
    e.lines.append(f"_Pragma(\"unroll\") for (int d = 0; d < {depth}; d++) "
                   f"_Pragma(\"unroll\") for (int r = 0; r < {rows // 4}; r++) "
                   f"sum[r] += q[row + 4 * r][d] * tile[0][column][d];")  # fmt: skip
    e.lines.append("#pragma unroll")
    e.enter(f"for (int r = 0; r < {rows // 4}; r++)")
    e.lines.append("const int i = m0 + row + 4 * r, j = s0 + column;")
    e.enter(f"if (i < {m} && j < {length})")
    score_index: Index = (*outer, "0" if m == 1 else "i", "0" if length == 1 else "j")
    alpha = code.graph.nodes[first].attrs[2] if code.graph.nodes[first].op == "Gemm" else 1.0
    e.bind(first, score_index, "sum[r]" if alpha == 1 else f"(sum[r] * {literal(alpha, 'float32')})")
    e.lines.append(f"p[row + 4 * r][j] = {e.value(code.graph.nodes[soft].operands[0], score_index)};")
    e.leave()
    e.leave()
    e.leave()
    e.lines.append("__syncthreads();")
    e.enter("")
    e.lines += [
        "const int r = tid >> 5, lane = tid & 31; float high = -INF, total = 0;",
        f"for (int j = lane; j < {length}; j += 32) high = larger(high, p[r][j]);",
        "high = warp_max(high);",
        f"for (int j = lane; j < {length}; j += 32) {{ p[r][j] = exp(p[r][j] - high); total += p[r][j]; }}",
        "total = 1.f / warp_sum(total);",
        f"for (int j = lane; j < {length}; j += 32) p[r][j] *= total;",
    ]
    e.leave()
    e.lines.append(f"float out[{rows // 4}][{strips}] = {{}};")
    e.enter(f"for (int s0 = 0; s0 < {length}; s0 += 64)")
    e.lines.append("__syncthreads();")
    if not early:
        bring_v("tile[0][{r}][{c}]")
        e.lanes.of.clear()
        e.lines.append("__syncthreads();")
    e.lines.append(f"const int end = min(64, {length} - s0);")
    bound = "64" if length % 64 == 0 else "end"
    e.lines.append("#pragma unroll 16")
    e.lines.append(f"for (int s = 0; s < {bound}; s++) "
                   f"_Pragma(\"unroll\") for (int c = 0; c < {strips}; c++) "
                   f"_Pragma(\"unroll\") for (int r = 0; r < {rows // 4}; r++) "
                   f"out[r][c] += p[row + 4 * r][s0 + s] * tile[{int(early)}][s][column + 64 * c];")  # fmt: skip
    e.leave()
    e.lines.append(f'_Pragma("unroll") for (int c = 0; c < {strips}; c++)')
    e.enter(f'_Pragma("unroll") for (int r = 0; r < {rows // 4}; r++)')
    e.lines.append("const int i = m0 + row + 4 * r, j = column + 64 * c;")
    e.enter(f"if (i < {m} && j < {wide})")
    e.store(target, (*outer, "0" if m == 1 else "i", "0" if wide == 1 else "j"), "out[r][c]")
    e.leave()
    e.leave()
    return finished(e, [], title, math.prod(batch) * tiles, 256, target)


def fill(
    e: Emitter, kind: str, into: str, size: tuple[int, int], limit: str, node: int, place: Callable[[str, str], Index],
    end: int, *, along: Literal["r", "c"] = "c", first: Literal["r", "c"] = "c",
) -> None:  # fmt: skip
    """A block of 256 threads brings ``size`` elements (rows, columns) of ``node`` into shared memory, where ``limit``
    holds for row r and column c, else 0.

    Args:
        into: the place of an element, made of {r} and {c}.
        place: the index of the element at a row and a column.
        end: where ``node`` ends along that axis whose neighbours lie side by side.
        along: whether neighbours in a row or in a column lie side by side in memory: up to 16 bytes are loaded at once.
        first: what neighbouring threads differ in.
    """
    counts = dict(zip("rc", size, strict=True))
    width = next(w for w in (16 // e.type(node).itemsize, 4, 2, 1) if counts[along] % w == end % w == 0)
    e.lanes.width, counts[along] = width, counts[along] // width
    e.lanes.of.clear()
    total, second = counts["r"] * counts["c"], "c" if first == "r" else "r"
    e.lines.append("#pragma unroll")
    e.enter(f"for (int t = 0; t < {-(-total // _THREADS)}; t++)")
    e.lines.append(f"const int n = tid + t * {_THREADS};")
    if total % _THREADS:
        e.lines.append(f"if (n >= {total}) continue;")
    for axis, expression in ((first, f"n % {counts[first]}"), (second, f"n / {counts[first]}")):
        e.lines.append(f"const int {axis} = {expression}{f' * {width}' if axis == along else ''};")
    names = e.lanes.start(along, integer_let(e))
    pairs = [(name, "c") if along == "r" else ("r", name) for name in names]
    e.lines.append(f"float value[{width}] = {{}};")
    e.enter(f"if ({limit})" if limit else "")
    found = e.values(node, [place(r, c) for r, c in pairs])
    e.lines += [f"value[{lane}] = {value};" for lane, value in enumerate(found)]
    e.leave()
    down = [f"Down<{kind}>::of(value[{lane}])" for lane in range(width)]
    if into.endswith(f"[{{{along}}}]") and width > 1:
        e.lines.append(f"*(Several<{kind}, {width}>*)&{into.format(r='r', c='c')} = {{{{{', '.join(down)}}}}};")
    else:
        e.lines += [f"{into.format(r=r, c=c)} = {value};" for (r, c), value in zip(pairs, down, strict=True)]
    e.leave()


def attention_fits(depth: int, length: int, wide: int) -> bool:
    """Whether the attention kernel's shared memory holds these sizes, and does not lose to matrix units."""
    return _attention_bytes(depth, length, wide, tiles=1) <= _SHARED and length <= 256 and max(depth, wide) <= 128


def _attention_bytes(depth: int, length: int, wide: int, *, tiles: int) -> int:
    width = _padded(max(depth, 64 * -(-wide // 64)))
    return 4 * (8 * _padded(depth) + tiles * 64 * width + 8 * _padded(length))


def _padded(size: int) -> int:
    """A row length in floats that is a multiple of 4 and keeps rows in different banks."""
    return -(-size // 4) * 4 + 4
