"""The steps of a plan, one value that is written after the other: buffers, and who writes where."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from egraph_opt.errors import UsageError
from egraph_opt.ir import Node, TensorGraph, TensorType
from egraph_opt.ops.base import integer, ints
from egraph_opt.ops.kinds import Array
from egraph_opt.runtime.costs import ROW_MAJOR, Order, Orders
from egraph_opt.runtime.cuda.attention import attention
from egraph_opt.runtime.cuda.attention_units import attention_on_units
from egraph_opt.runtime.cuda.expressions import STORED
from egraph_opt.runtime.cuda.fusion import Dense, Fusion
from egraph_opt.runtime.cuda.kernels import Code
from egraph_opt.runtime.cuda.layout import may_write
from egraph_opt.runtime.cuda.matrices import parts_of, products
from egraph_opt.runtime.cuda.steps import Buffer, Convolution, Generated, Plan, Product, Role, Step
from egraph_opt.runtime.cuda.views import View, channels_last, dense_strides, moved, part, reshaped, split_start


@dataclass
class Planner:
    """Goes through the values that are written, in order; ``run`` once."""

    graph: TensorGraph
    fusion: Fusion
    order: Orders
    lay_inputs: bool
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    steps: list[Step] = field(default_factory=list[Step])
    places: dict[int, View] = field(default_factory=dict[int, View])
    copies: dict[tuple[int, tuple[int, ...]], View] = field(default_factory=dict)
    weights: dict[tuple[int, str], View] = field(default_factory=dict[tuple[int, str], View])
    targets: dict[int, View] = field(default_factory=dict[int, View])
    inside: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    inputs: dict[str, View] = field(default_factory=dict[str, View])
    parts: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self.code = Code(self.graph, self.stored, self.prepared, self.parts)

    def run(self) -> Plan:
        self._find_places()
        for index, node in enumerate(self.graph.nodes):
            if node.op == "Input":
                name, order = str(node.attrs[0]), self.order.get(index) if self.lay_inputs else None
                self.inputs[name] = self.places[index] = self.new(self._type(index), order, "input", name)
        for node in self.graph.live():
            if node in self.fusion.roots:
                self._root(node)
        outputs = tuple(self._output(node) for node in self.graph.outputs)
        return Plan(tuple(self.buffers), tuple(self.steps), self.inputs, outputs, self.graph)

    # --- memory

    def _type(self, node: int) -> TensorType:
        type_ = self.graph.types[node]
        assert isinstance(type_, TensorType)
        if type_.dtype not in STORED:
            raise UsageError(f"the GPU executor cannot run this model: {type_} has a dtype without a kernel")
        return type_

    def _buffer(
        self, role: Role, dtype: str, elements: int, name: str = "", load: Callable[[], Array] | None = None,
        key: str = "",
    ) -> int:  # fmt: skip
        self.buffers.append(Buffer(role, dtype, max(elements, 1), name, load, key))
        return len(self.buffers) - 1

    def new(self, type_: TensorType, order: Order | None, role: Role = "work", name: str = "") -> View:
        """A value in a buffer of its own; its axes lie in ``order``, row-major by default."""
        shape = type_.numbers()
        number = self._buffer(role, type_.dtype, math.prod(shape), name)
        return View(number, type_.dtype, shape, dense_strides(shape, order))

    def _weight(
        self, node: int, form: str, shape: tuple[int, ...], make: Callable[[Array], Array], dtype: str = ""
    ) -> View:
        """A constant in a form of its own; ``shape`` and ``dtype`` (if another one) are what ``make`` returns."""
        key = (node, form)
        if key not in self.weights:
            dtype = dtype or self._type(node).dtype
            constant = self.graph.constants[integer(self.graph.nodes[node].attrs[0])]
            number = self._buffer(
                "weight", dtype, math.prod(shape), constant.names[0] if constant.names else "",
                lambda: np.ascontiguousarray(make(np.asarray(constant.load()))), f"{constant.key} {form} {shape}",
            )  # fmt: skip
            self.weights[key] = View(number, dtype, shape, dense_strides(shape))
        return self.weights[key]

    def stored(self, node: int) -> View | None:
        """Where a value lies, if it does: a constant, the result of a step, or a view of one."""
        if node in self.places:
            return self.places[node]
        operator = self.graph.nodes[node]
        if operator.op == "Const":
            shape = self._type(node).numbers()
            return self._weight(node, "plain", shape, lambda a: a.reshape(shape))
        if node in self.fusion.stored and node not in self.fusion.roots and operator.op not in ("Fill", "Split"):
            return self.in_memory(node)
        return None

    def in_memory(self, node: int) -> View:
        """Where a value lies; one that is not stored is computed into a buffer of its own."""
        found = self.places.get(node) or (self.stored(node) if self.graph.nodes[node].op == "Const" else None)
        if found is None:
            found = self._moved(node) or self._computed(node)
            self.places[node] = found
        return found

    def _moved(self, node: int) -> View | None:
        operator = self.graph.nodes[node]
        if operator.op not in ("Transpose", "Reshape", "Slice", "Expand", "Get"):
            return None
        if operator.op == "Get":
            split = self.graph.nodes[operator.operands[0]]
            if split.op != "Split":
                raise UsageError(f"the GPU executor has no kernel for {split.op}")
            axis, start = split_start(split, integer(operator.attrs[0]))
            return part(self.in_memory(split.operands[0]), axis, start, self._type(node).numbers()[axis])
        return moved(operator, self.in_memory(operator.operands[0]), self._type(node).numbers())

    def _computed(self, node: int) -> View:
        target = self.new(self._type(node), self.order.get(node))
        self.steps.append(self.code.loop(node, target, self._say(node)))
        return target

    def relaid(self, node: int, view: View, order: tuple[int, ...]) -> View:
        """``view`` copied so that its axes lie in ``order``."""
        key = (node, order)
        if key not in self.copies:
            target = self.new(TensorType(view.dtype, view.shape), order)
            self.steps.append(self.copy(node, view, target))
            self.copies[key] = target
        return self.copies[key]

    def copy(self, node: int, view: View, target: View) -> Generated:
        """The step that copies a stored value."""
        code = Code(self.graph, lambda i: view if i == node else self.stored(i), self.prepared, self.parts)
        return code.loop(node, target, f"copy of {self._say(node)}", copy=True)

    # --- places in concatenations

    def _find_places(self) -> None:
        """Which roots are written straight into a concatenation."""
        for node in reversed(self.graph.live()):
            if node not in self.fusion.joined:
                continue
            axis, start, outer = integer(self.graph.nodes[node].attrs[0]), 0, node
            while outer in self.inside:
                outer = self.inside[outer][0]
            order = self.order.get(outer, ROW_MAJOR)
            for operand in self.graph.nodes[node].operands:
                free = operand in self.fusion.roots and operand not in self.graph.outputs
                free = free and may_write(self.fusion, operand, order)
                if free and operand not in self.inside and self.graph.nodes[operand].op not in ("Input", "Const"):
                    self.inside[operand] = (node, start)
                start += self._type(operand).numbers()[axis]

    def _target(self, node: int) -> View:
        """Where a root is to be written."""
        if node not in self.targets:
            type_ = self._type(node)
            if node in self.inside:
                outer, start = self.inside[node]
                axis = integer(self.graph.nodes[outer].attrs[0])
                self.targets[node] = part(self._target(outer), axis, start, type_.numbers()[axis])
            else:
                order = None if self._loops(node) and node in self.graph.outputs else self.order.get(node)
                self.targets[node] = self.new(type_, order)
        return self.targets[node]

    def _loops(self, node: int) -> bool:
        return not (node in self.fusion.dense or node in self.fusion.attention or node in self.fusion.joined)

    # --- steps

    def _root(self, node: int) -> None:
        fusion, anchors = self.fusion, self.fusion.anchors.get(node, [])
        kinds = {fusion.kind(a) for a in anchors}
        if node in fusion.joined:
            self._join(node)
            return
        if node in fusion.dense:
            self._dense(node, fusion.dense[node])
        elif node in fusion.attention:
            self._attention(node, fusion.attention[node])
        elif "dot" in kinds:
            self._dots(node, anchors)
        elif kinds:
            make = self.code.rows if kinds == {"row"} else self.code.reduction
            self.steps.append(make(node, anchors[0], self._target(node), self._say(node, *anchors)))
        else:
            self.steps.append(self.code.loop(node, self._target(node), self._say(node)))
        self.places[node] = self._target(node)

    def _join(self, node: int) -> None:
        target, axis, start = self._target(node), integer(self.graph.nodes[node].attrs[0]), 0
        for operand in self.graph.nodes[node].operands:
            size = self._type(operand).numbers()[axis]
            if self.inside.get(operand, (None, 0)) != (node, start):
                source = self.in_memory(operand)
                self.steps.append(self.copy(operand, source, part(target, axis, start, size)))
            start += size
        self.places[node] = target

    def _dots(self, node: int, anchors: list[int]) -> None:
        vectors: dict[int, View] = {}
        for anchor in anchors:
            source = self.graph.nodes[anchor].operands[0]
            view = self.in_memory(source)
            step = 16 // TensorType(view.dtype, ()).itemsize
            if not view.is_dense() or view.offset % step:
                view = self.relaid(source, view, tuple(range(len(view.shape))))
            vectors[anchor] = replace(view, shape=(view.elements,), strides=(1,))
        self.steps.append(self.code.dots(node, anchors, vectors, self._target(node), self._say(node, *anchors)))

    def prepared(self, node: int) -> View:
        """The weight of a dot product as (N, K), or of a depthwise convolution as (*kernel, M)."""
        operator = self.graph.nodes[node]
        weight = operator.operands[1]
        shape = self._type(weight).numbers()
        if self.graph.nodes[weight].op != "Const":
            raise UsageError(
                f"the GPU executor has no kernel for {operator.op} with a computed weight {self._type(weight)}"
            )
        if operator.op == "Conv":
            turned, kind = (*shape[2:], shape[0]), self._type(weight).dtype
            wide = "float32" if kind.endswith("16") else kind  # every tap is converted many times, else

            def taps(value: Array) -> Array:
                return np.moveaxis(value.reshape(shape)[:, 0], 0, -1).astype(wide)

            return self._weight(weight, "taps", turned, taps, wide)
        straight = operator.op == "Gemm" and operator.attrs[1]
        turned = shape if straight else shape[::-1]
        return self._weight(weight, "rows" if straight else "columns", turned, lambda a: a if straight else a.T)

    def _dense(self, root: int, dense: Dense) -> None:
        operator = self.graph.nodes[dense.node]
        if operator.op == "Conv":
            self._convolution(root, dense, operator)
            return
        a, b = (self._matrix(i, operator, position) for position, i in enumerate(operator.operands))
        bias = None if dense.bias is None else self._vector(dense.bias)
        residual = None if dense.residual is None else self._rows(dense.residual)
        alpha = float(str(operator.attrs[2])) if operator.op == "Gemm" else 1.0
        title = self._say(root, dense.node)
        if root in self.fusion.partial and self._in_parts(root, title, a, b, alpha):
            return
        self.steps += products(title, a, b, self._target(root), bias, residual, alpha, dense.activation)

    def _in_parts(self, root: int, title: str, a: View, b: View, alpha: float) -> bool:
        """Cuts the inner axis of a product of few rows into a batch, whose entries the readers of the result add up.

        A library fills a large GPU with such a product only if it splits that axis itself, and then adds up in a kernel
        of its own. In exact float32 arithmetic counts, not the filling of the GPU.
        """
        rows, (inner, outer) = math.prod(a.shape[:-1]), b.shape[-2:]
        flat = reshaped(a, (rows, inner))
        count = parts_of(rows, inner, outer, TensorType(a.dtype, ()).itemsize)
        plain = flat is not None and (flat.dtype.endswith("16") or (flat.dtype == "float32" and not self.fusion.exact))
        if flat is None or not plain or len(b.shape) != 2 or count == 1:
            return False
        step, (k, n) = inner // count, b.strides
        left = replace(flat, shape=(count, rows, step), strides=(step * flat.strides[1], *flat.strides))
        right = replace(b, shape=(count, step, outer), strides=(step * k, k, n))
        number = self._buffer("work", "float32", count * rows * outer)
        target = View(number, "float32", (count, rows, outer), (rows * outer, outer, 1))
        self.steps.append(
            Product(f"{title} in {count} parts", (left, right), (target,), left, right, target, alpha=alpha)
        )
        shape = self._type(root).numbers()
        self.targets[root] = View(number, "float32", shape, dense_strides(shape))
        self.parts[root] = count
        return True

    def _matrix(self, node: int, operator: Node, position: int) -> View:
        """An operand of a product, turned as Gemm asks, with an axis of stride 1."""
        view = self.in_memory(node)
        tail = [(n, s) for n, s in zip(view.shape, view.strides, strict=True)][-2:]
        if not any(s == 1 or n == 1 for n, s in tail) or any(s == 0 and n > 1 for n, s in tail):
            view = self.relaid(node, view, tuple(range(len(view.shape))))
        if operator.op == "Gemm" and operator.attrs[position]:
            view = replace(view, shape=view.shape[::-1], strides=view.strides[::-1])
        return view

    def _rows(self, node: int) -> View:
        """An addend of a product: its last axis has stride 1, as that of the result has."""
        view = self.in_memory(node)
        good = view.strides[-1] == 1 or view.shape[-1] == 1
        return view if good else self.relaid(node, view, tuple(range(len(view.shape))))

    def _vector(self, node: int) -> View:
        count = self._type(node).elements
        assert isinstance(count, int)
        return self._weight(node, "vector", (count,), lambda a: a.reshape(-1))

    def _convolution(self, root: int, dense: Dense, operator: Node) -> None:
        x, weight = operator.operands[:2]
        rank = len(self._type(x).shape)
        shape = self._type(weight).numbers()
        last = channels_last(rank)
        packed = tuple(shape[axis] for axis in last)
        if self.graph.nodes[weight].op == "Const":
            lies = self._weight(weight, "packed", packed, lambda a: a.reshape(shape).transpose(last))
        else:
            computed = self.relaid(weight, self.in_memory(weight), last)
            lies = replace(computed, shape=packed, strides=dense_strides(packed))
        back = tuple(last.index(axis) for axis in range(rank))
        w = replace(lies, shape=shape, strides=tuple(lies.strides[i] for i in back))
        strides, pads, dilations = (ints(a) for a in operator.attrs[:3])
        bias = residual = None
        if dense.bias is not None:
            constant = self.graph.nodes[dense.bias].op == "Const"
            bias = self._vector(dense.bias) if constant else self.in_memory(dense.bias)
        if dense.residual is not None:
            residual = self._channels_last(dense.residual)
        self.steps.append(
            Convolution(
                self._say(root, dense.node),
                *_views(self._channels_last(x), w, bias, residual, target=self._target(root)),
                strides=strides, pads=pads, dilations=dilations, group=integer(operator.attrs[3]), bias=bias,
                residual=residual, activation=dense.activation, x=self._channels_last(x), w=w, y=self._target(root),
            )
        )  # fmt: skip

    def _channels_last(self, node: int) -> View:
        view = self.in_memory(node)
        spatial = [view.strides[i] for i in range(2, len(view.shape))]
        good = view.strides[1] == 1 or view.shape[1] == 1
        good = good and all(s >= view.shape[1] for s in spatial)
        return view if good else self.relaid(node, view, channels_last(len(view.shape)))

    def _attention(self, root: int, nodes: tuple[int, int, int]) -> None:
        make = attention_on_units if self._type(root).dtype in ("float16", "bfloat16") else attention
        self.steps.append(make(self.code, nodes, self._target(root), self._say(root, *nodes[:2])))

    # --- outputs and words

    def _output(self, node: int) -> View:
        view = self.in_memory(node)
        if self.buffers[view.buffer].role in ("input", "weight") or not view.is_dense() or view.offset:
            view = self.relaid(node, view, tuple(range(len(view.shape))))
        self.buffers[view.buffer] = replace(self.buffers[view.buffer], role="output")
        return view

    def _say(self, root: int, *anchors: int) -> str:
        """The operators of a step, for people."""
        names = [self.graph.nodes[a].op for a in anchors]
        inside = []
        stack, seen = [root], set[int]()
        while stack:
            node = stack.pop()
            if (
                node in seen
                or (node != root and node in self.fusion.roots)
                or self.graph.nodes[node].op in ("Input", "Const")
            ):
                continue
            seen.add(node)
            inside.append(self.graph.nodes[node].op)
            stack += self.graph.nodes[node].operands
        rest = [op for op in dict.fromkeys(reversed(inside)) if op not in names]
        return f"{' '.join([*dict.fromkeys(names), *rest])} -> {self._type(root)}"


def _views(*views: View | None, target: View) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """What a step reads and writes."""
    return tuple(v for v in views if v is not None), (target,)
