"""Writes the value of one element of a graph as C: each operator maps its index to indices of its operands.

This is loop fusion as XLA does it: an operator that is not stored is computed where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.cuda.expressions import COMPUTED, ELEMENTWISE, STORED, cast, expression, literal
from egraph_opt.runtime.cuda.lanes import Lanes
from egraph_opt.runtime.cuda.views import View, groups

Index = tuple[str, ...]


@dataclass
class Emitter:
    """Collects the statements of one kernel.

    Attributes:
        stored: node -> view, of everything that lies in memory.
        prepared: the view of a weight that an operator wants in a form of its own (depthwise convolution).
        parts: how many partial sums, one after the other, make up a stored value.
        arguments: a view of every buffer that the kernel takes, in order of its parameters.
        read: the views that it loads from.
        rules: how operators that are not element-wise are computed, by name; ``wide`` those that compute the elements
            of all lanes at once.
        special: nodes that something else than the rules computes.
    """

    graph: TensorGraph
    stored: Callable[[int], View | None]
    prepared: Callable[[int], View]
    rules: Mapping[str, Callable[[Emitter, int, Index], str]]
    wide: Mapping[str, Callable[[Emitter, int, Sequence[Index]], list[str]]]
    parts: Mapping[int, int] = field(default_factory=dict[int, int])
    lanes: Lanes = field(default_factory=Lanes)
    arguments: list[View] = field(default_factory=list[View])
    read: list[View] = field(default_factory=list[View])
    special: Mapping[int, Callable[[int, Index], str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list[str])
    _known: list[dict[tuple[object, Index], str]] = field(default_factory=lambda: [{}])
    _names: int = 0

    # --- statements

    def name(self) -> str:
        """A fresh variable."""
        self._names += 1
        return f"v{self._names}"

    def let(self, dtype: str, value: str) -> str:
        """A variable of the computed type that holds ``value``."""
        name = self.name()
        self.lines.append(f"const {COMPUTED[dtype]} {name} = {value};")
        return name

    def bind(self, node: int, index: Index, value: str) -> None:
        """What ``node`` is at ``index`` is known, for as long as the present block lasts."""
        self._known[-1][node, index] = value

    def note(self, what: object, index: Index, name: str) -> None:
        """As ``bind``, for other things than nodes."""
        self._known[-1][what, index] = name

    def enter(self, head: str) -> None:
        """Opens a block; what is computed inside is forgotten after ``leave``."""
        self.lines.append(head + " {")
        self._known.append({})

    def leave(self) -> None:
        self.lines.append("}")
        self._known.pop()

    # --- memory

    def parameter(self, view: View) -> str:
        """The pointer to the buffer of ``view``."""
        for number, known in enumerate(self.arguments):
            if (known.buffer, known.dtype) == (view.buffer, view.dtype):
                return f"p{number}"
        self.arguments.append(view)
        return f"p{len(self.arguments) - 1}"

    def address(self, view: View, index: Sequence[str]) -> str:
        """``pointer[offset]`` of an element."""
        terms = [f"{i} * {s}" if s != 1 else i for i, s, n in zip(index, view.strides, view.shape, strict=True)
                 if s and n != 1 and i != "0"]  # fmt: skip
        if view.offset or not terms:
            terms.append(str(view.offset))
        return f"{self.parameter(view)}[{' + '.join(terms)}]"

    def load(self, view: View, index: Sequence[str]) -> str:
        """An element in the computed type."""
        if view not in self.read:
            self.read.append(view)
        axis = self.lanes.axis(view, index)
        if axis is None:
            return f"up({self.address(view, index)})"
        base, lane = self.lanes.of[index[axis]]
        first = (*index[:axis], base, *index[axis + 1 :])
        pack = self.known(view, first)
        if pack is None:
            kind, pack = f"const Several<{STORED[view.dtype]}, {self.lanes.width}>", self.name()
            self.lines.append(f"{kind} {pack} = *({kind}*)&{self.address(view, first)};")
            self.note(view, first, pack)
        return f"up({pack}.e[{lane}])"

    def store(self, view: View, index: Sequence[str], *values: str) -> None:
        """Writes an element, or the elements of all lanes from the first one's ``index`` on."""
        kind = STORED[view.dtype]
        down = [f"Down<{kind}>::of({value})" for value in values]
        if len(values) == 1:
            self.lines.append(f"{self.address(view, index)} = {down[0]};")
        else:
            pack = f"Several<{kind}, {len(values)}>"
            self.lines.append(f"*({pack}*)&{self.address(view, index)} = {pack}{{{{{', '.join(down)}}}}};")

    # --- values

    def value(self, node: int, index: Index) -> str:
        """A variable or literal with the element of ``node`` at ``index``."""
        known = self.known(node, index)
        if known is not None:
            return known
        constant, view = self._scalar(node), self.stored(node)
        if constant is not None:
            result = constant
        elif view is not None:
            pieces = [replace(view, offset=view.offset + i * view.elements) for i in range(self.parts.get(node, 1))]
            result = self.let(self.type(node).dtype, " + ".join(self.load(piece, index) for piece in pieces))
        else:
            result = self.compute(node, index)
        self._known[-1][node, index] = result
        return result

    def known(self, what: object, index: Index) -> str | None:
        """The name of what has been computed or loaded in this block or one around it."""
        return next((scope[what, index] for scope in reversed(self._known) if (what, index) in scope), None)

    def values(self, node: int, indices: Sequence[Index]) -> list[str]:
        """The elements of ``node`` in all lanes."""
        if self._scalar(node) is None and self.stored(node) is None and self.known(node, indices[0]) is None:
            self._prepare(node, indices)
        return [self.value(node, index) for index in indices]

    def computed(self, node: int, indices: Sequence[Index]) -> list[str]:
        """The elements of ``node`` in all lanes, computed even where it is stored."""
        self._prepare(node, indices)
        return [self.known(node, index) or self.compute(node, index) for index in indices]

    def _prepare(self, node: int, indices: Sequence[Index]) -> None:
        """Computes what ``node`` needs, or itself, for all lanes at once where that is less than one by one."""
        operator = self.graph.nodes[node]
        if len(indices) > 1 and operator.op in self.wide and node not in self.special:
            for index, found in zip(indices, self.wide[operator.op](self, node, indices), strict=True):
                self.bind(node, index, found)
        elif operator.op in ELEMENTWISE:
            for position in range(1 if operator.op == "BatchNormalization" else len(operator.operands)):
                own = [self._own(node, position, index) for index in indices]
                self.values(operator.operands[position], list(dict.fromkeys(own)))

    def type(self, node: int) -> TensorType:
        found = self.graph.types[node]
        assert isinstance(found, TensorType)
        return found

    def compute(self, node: int, index: Index) -> str:
        """The element of ``node`` at ``index``, computed even where it is stored.

        Raises:
            UsageError: there is no kernel for its operator.
        """
        operator, constant = self.graph.nodes[node], self._scalar(node)
        if constant is not None:
            return constant
        if node in self.special:
            return self.special[node](node, index)
        if operator.op in ELEMENTWISE:
            return self._elementwise(node, index)
        rule = self.rules.get(operator.op)
        if rule is None:
            raise UsageError(f"the GPU executor has no kernel for {operator.op} of {self.type(node)}")
        return rule(self, node, index)

    def _scalar(self, node: int) -> str | None:
        type_ = self.type(node)
        operator = self.graph.nodes[node]
        if operator.op == "Fill":
            return literal(operator.attrs[1], type_.dtype)
        if operator.op == "Const" and type_.elements == 1:
            value = self.graph.value(node)
            assert value is not None
            return literal(np.asarray(value).reshape(-1)[0].item(), type_.dtype)
        return None

    def operand(self, node: int, position: int, index: Sequence[str]) -> str:
        """An operand at an index of the result, broadcast as ONNX does."""
        return self.value(self.graph.nodes[node].operands[position], self._own(node, position, index))

    def _own(self, node: int, position: int, index: Sequence[str]) -> Index:
        shape = self.type(self.graph.nodes[node].operands[position]).numbers()
        return tuple("0" if n == 1 else i for n, i in zip(shape, index[len(index) - len(shape) :], strict=True))

    def _elementwise(self, node: int, index: Index) -> str:
        operator, dtype = self.graph.nodes[node], self.type(node).dtype
        if operator.op == "BatchNormalization":
            channel = (index[1],)
            values = [self.value(operator.operands[0], index)]
            values += [self.value(i, channel if self.type(i).elements != 1 else ("0",)) for i in operator.operands[1:]]
        else:
            values = [self.operand(node, i, index) for i in range(len(operator.operands))]
        source = self.type(operator.operands[1 if operator.op == "Where" else 0]).dtype
        if operator.op == "Cast":
            return self.let(dtype, cast(values[0], source, str(operator.attrs[0])))
        return self.let(dtype, expression(operator.op, operator.attrs, source, values))


def at(node: Emitter, index: int) -> tuple[int, ...]:
    """The shape of node number ``index``."""
    return node.type(index).numbers()


def relinked(e: Emitter, index: Sequence[str], new: Sequence[int], old: Sequence[int]) -> Index:
    """The index into shape ``old`` of the element at ``index`` of shape ``new``, both in row-major order."""
    result, let = ["0"] * len(old), integer_let(e)
    for left, right in groups(old, new):
        left, right = [i for i in left if old[i] != 1], [i for i in right if new[i] != 1]
        if len(left) == len(right) == 1:
            result[left[0]] = index[right[0]]
            continue
        if not left:
            continue
        flat, step = [], 1
        for axis in reversed(right):
            flat.append((index[axis], step))
            step *= new[axis]
        whole = e.lanes.total(flat[::-1], 0, let)
        step = 1
        for axis in reversed(left):
            divided = whole if step == 1 else f"{whole} / {step}"
            result[axis] = let(f"({divided}) % {old[axis]}" if axis != left[0] else divided)
            step *= old[axis]
    return tuple(result)


def integer_let(emitter: Emitter) -> Callable[[str], str]:
    """Names an index expression, an equal one alike."""

    def let(value: str) -> str:
        if value.isidentifier() or value.isdigit():
            return value
        name = emitter.known("index", (value,))
        if name is None:
            name = emitter.name()
            emitter.lines.append(f"const int {name} = {value};")
            emitter.note("index", (value,), name)
        return name

    return let


def unravel(flat: str, shape: Sequence[int], order: Sequence[int], let: Callable[[str], str]) -> Index:
    """The index of element number ``flat`` of a tensor whose axes lie in ``order``, slowest first."""
    result, step = ["0"] * len(shape), 1
    axes = [axis for axis in order if shape[axis] != 1]
    for axis in reversed(axes):
        divided = flat if step == 1 else f"{flat} / {step}"
        result[axis] = let(divided if axis == axes[0] else f"({divided}) % {shape[axis]}")
        step *= shape[axis]
    return tuple(result)
