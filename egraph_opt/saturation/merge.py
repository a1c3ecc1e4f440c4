"""Operators that share an operand, merged many at once.

``MatMul(x, w1), MatMul(x, w2)`` are two parts of ``MatMul(x, concat(w1, w2))``. The rule that says so has two roots,
and matching it in egglog takes a step for every pair, then for every pair of pairs. Merging is a fold of that rule,
so here all operators of the graph that share the operand are merged in one step, in the order in which the graph has
them.

Where inputs are joined (``MatMul(x1, w), MatMul(x2, w)``), only operators of one depth are: no path leads from one to
the other, so the merged operator does not depend on itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched

from egraph_opt.ir import AttrValue, Node, TensorType, Type
from egraph_opt.rewrites import Rule
from egraph_opt.saturation.wide import MOST_OPERANDS
from egraph_opt.terms import App

Step = tuple[str, tuple[AttrValue, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Merge:
    """``members`` of the graph are the outputs, in order, of the last step.

    Operands of a step are nodes of the graph where they are not negative, and -1, -2... the steps before it.
    """

    rule: str
    members: tuple[int, ...]
    steps: tuple[Step, ...]


Axes = tuple[int | None, ...]
"""The axis along which each operand is concatenated; ``None`` for one that is shared."""


@dataclass(frozen=True, slots=True)
class MergeForm:
    """How operators of one kind merge: some operands are shared, the others concatenated, the result is split.

    Attributes:
        axes: of the operands, by their types; ``None`` where it does not apply.
        result_axis: of the split, by the type of one part.
        constant: whether what is concatenated must be constants: weights, that is, and not inputs.
    """

    axes: Callable[[Sequence[TensorType], Sequence[AttrValue]], Axes | None]
    result_axis: Callable[[TensorType], int]
    constant: bool = True


def _columns(types: Sequence[TensorType], attrs: Sequence[AttrValue]) -> Axes | None:
    return (None, 1) if types[1].rank == 2 and types[0].rank >= 2 else None


def _rows(types: Sequence[TensorType], attrs: Sequence[AttrValue]) -> Axes | None:
    return (0, None) if types[1].rank == 2 and types[0].rank == 2 else None


def _filters(types: Sequence[TensorType], attrs: Sequence[AttrValue]) -> Axes | None:
    same_channels = types[1].shape[1] == types[0].shape[1]  # one group
    return (None, *(0,) * (len(types) - 1)) if same_channels else None


def _gemm_columns(types: Sequence[TensorType], attrs: Sequence[AttrValue]) -> Axes | None:
    axis = 0 if attrs[1] else 1  # transB
    wide = len(types) == 3 and types[2].shape == (types[1].shape[axis],)
    return (None, axis, 0) if wide else None


def _last(result: TensorType) -> int:
    return result.rank - 1


def _batches(types: Sequence[TensorType], attrs: Sequence[AttrValue]) -> Axes | None:
    return (0, *(None,) * (len(types) - 1)) if types[0].rank else None


FORMS: dict[tuple[str, tuple[int, ...]], MergeForm] = {
    ("MatMul", (0,)): MergeForm(_columns, _last),
    ("Conv", (0,)): MergeForm(_filters, lambda _: 1),
    ("Gemm", (0,)): MergeForm(_gemm_columns, _last),
    ("MatMul", (1,)): MergeForm(_rows, lambda _: 0, constant=False),
    ("Conv", (1,)): MergeForm(_batches, lambda _: 0, constant=False),
    ("Conv", (1, 2)): MergeForm(_batches, lambda _: 0, constant=False),
    ("Relu", ()): MergeForm(_batches, lambda _: 0, constant=False),
}
"""By operator and shared operands."""


def form_of(rule: Rule) -> MergeForm | None:
    """How saturation merges with a rule: it has several roots, all of one operator."""
    roots = [p for p in rule.lhs if isinstance(p, App)]
    if len(roots) < 2 or len({(p.op, len(p.operands)) for p in roots}) > 1:
        return None
    operands = zip(*(p.operands for p in roots), strict=True)
    return FORMS.get((roots[0].op, tuple(i for i, each in enumerate(operands) if len(set(each)) == 1)))


def find_merges(
    nodes: Sequence[Node],
    types: Sequence[Type],
    canonical: Mapping[int, object],
    rules: Sequence[Rule],
    among: Collection[int],
) -> Iterator[Merge]:
    """Every merge that the multi-root ``rules`` allow of the nodes ``among``; equal operands are told by
    ``canonical``."""
    depths = _depths(nodes)
    for rule in rules:
        form = form_of(rule)
        root = rule.lhs[0]
        if form is None or not isinstance(root, App):
            continue
        groups: dict[object, list[int]] = {}
        for index, node in enumerate(nodes):
            if index in among and node.op == root.op and len(node.operands) == len(root.operands):
                key = _group(node, types, canonical, form, nodes)
                if key is not None:
                    groups.setdefault(key if form.constant else (key, depths[index]), []).append(index)
        for members in groups.values():
            distinct = list({tuple(canonical[i] for i in nodes[m].operands): m for m in reversed(members)}.values())
            for some in batched(sorted(distinct), MOST_OPERANDS):
                if len(some) > 1:
                    yield _merge(rule.name, form, some, nodes, types)


def _depths(nodes: Sequence[Node]) -> list[int]:
    """The longest way from a leaf to each node; nodes come after their operands."""
    depths: list[int] = []
    for node in nodes:
        depths.append(1 + max((depths[i] for i in node.operands), default=-1))
    return depths


def _group(
    node: Node, types: Sequence[Type], canonical: Mapping[int, object], form: MergeForm, nodes: Sequence[Node]
) -> object | None:
    """What operators must have in common to be merged, or ``None`` for one that cannot be."""
    known = [t for t in (types[i] for i in node.operands) if isinstance(t, TensorType)]
    axes = form.axes(known, node.attrs) if len(known) == len(node.operands) else None
    if axes is None:
        return None
    common: list[object] = []
    for operand, type_, axis in zip(node.operands, known, axes, strict=True):
        if axis is None:
            common.append(canonical[operand])
        elif form.constant and nodes[operand].op != "Const":
            return None
        else:
            common.append((type_.dtype, repr(type_.shape[:axis]), repr(type_.shape[axis + 1 :])))
    return repr(node.attrs), axes, tuple(common)


def _merge(rule: str, form: MergeForm, members: Sequence[int], nodes: Sequence[Node], types: Sequence[Type]) -> Merge:
    first = nodes[members[0]]
    axes = form.axes([t for t in (types[i] for i in first.operands) if isinstance(t, TensorType)], first.attrs)
    assert axes is not None
    steps: list[Step] = []
    operands = list(first.operands)
    for position, axis in enumerate(axes):
        if axis is not None:
            steps.append(("Concat", (axis,), tuple(nodes[m].operands[position] for m in members)))
            operands[position] = -len(steps)
    steps.append((first.op, first.attrs, tuple(operands)))
    results = [t for t in (types[m] for m in members) if isinstance(t, TensorType)]
    axis = form.result_axis(results[0])
    sizes = tuple(t.shape[axis] for t in results)
    steps.append(("Split", (axis, sizes), (-len(steps),)))
    return Merge(rule, tuple(members), tuple(steps))
