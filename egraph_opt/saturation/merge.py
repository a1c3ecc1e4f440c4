"""Operators that share an operand, merged many at once.

``MatMul(x, w1), MatMul(x, w2)`` are two parts of ``MatMul(x, concat(w1, w2))``. The rule that says so has two roots,
and matching it in egglog takes a step for every pair, then for every pair of pairs. Merging is a fold of that rule,
so here all operators of the graph that share the operand are merged in one step, in the order in which the graph has
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from egraph_opt.ir import AttrValue, Node, TensorType, Type
from egraph_opt.rewrites import Rule
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


@dataclass(frozen=True, slots=True)
class MergeForm:
    """How operators ``op`` that share operand 0 merge: the others are concatenated along an axis, the result is
    split."""

    op: str
    axes: Callable[
        [Sequence[TensorType]], tuple[int, ...] | None
    ]  # concat axis of operands 1.., or None: does not apply
    result_axis: Callable[[TensorType], int]


def _matmul_axes(types: Sequence[TensorType]) -> tuple[int, ...] | None:
    return (1,) if types[1].rank == 2 and types[0].rank >= 2 else None


def _conv_axes(types: Sequence[TensorType]) -> tuple[int, ...] | None:
    same_channels = types[1].shape[1] == types[0].shape[1]  # one group
    return (0,) * (len(types) - 1) if same_channels else None


FORMS: dict[str, MergeForm] = {
    "MatMul": MergeForm("MatMul", _matmul_axes, lambda t: t.rank - 1),
    "Conv": MergeForm("Conv", _conv_axes, lambda t: 1),
}


def form_of(rule: Rule) -> MergeForm | None:
    """How saturation merges with a rule: it has several roots, one operator of weights each, on one input."""
    heads = {p.op for p in rule.lhs if isinstance(p, App)}
    inputs = {p.operands[0] for p in rule.lhs if isinstance(p, App)}
    if len(rule.lhs) < 2 or len(heads) > 1 or len(inputs) > 1:
        return None
    return FORMS.get(next(iter(heads)))


def find_merges(
    nodes: Sequence[Node],
    types: Sequence[Type],
    canonical: Mapping[int, object],
    rules: Sequence[Rule],
    among: Collection[int],
) -> Iterator[Merge]:
    """Every merge that the multi-root ``rules`` allow of the nodes ``among``; equal operands are told by
    ``canonical``."""
    for rule in rules:
        form = form_of(rule)
        if form is None:
            continue
        arity = len(getattr(rule.lhs[0], "operands", ()))
        groups: dict[object, list[int]] = {}
        for index, node in enumerate(nodes):
            if index in among and node.op == form.op and len(node.operands) == arity:
                key = _group(node, types, canonical, form, nodes)
                if key is not None:
                    groups.setdefault(key, []).append(index)
        for members in groups.values():
            distinct = list({tuple(canonical[i] for i in nodes[m].operands): m for m in reversed(members)}.values())
            if len(distinct) > 1:
                yield _merge(rule.name, form, sorted(distinct), nodes, types)


def _group(
    node: Node, types: Sequence[Type], canonical: Mapping[int, object], form: MergeForm, nodes: Sequence[Node]
) -> object | None:
    """What operators must have in common to be merged, or ``None`` for one that cannot be."""
    operands = [types[i] for i in node.operands]
    known = [t for t in operands if isinstance(t, TensorType)]
    if len(known) != len(operands) or any(nodes[i].op != "Const" for i in node.operands[1:]):
        return None
    axes = form.axes(known)
    if axes is None:
        return None
    rest = tuple((t.dtype, t.shape[:axis] + t.shape[axis + 1 :]) for t, axis in zip(known[1:], axes, strict=True))
    return canonical[node.operands[0]], repr(node.attrs), repr(rest), axes


def _merge(rule: str, form: MergeForm, members: Sequence[int], nodes: Sequence[Node], types: Sequence[Type]) -> Merge:
    first = nodes[members[0]]
    operand_types = [t for t in (types[i] for i in first.operands) if isinstance(t, TensorType)]
    axes = form.axes(operand_types)
    assert axes is not None
    steps: list[Step] = []
    for position, axis in enumerate(axes, 1):
        steps.append(("Concat", (axis,), tuple(nodes[m].operands[position] for m in members)))
    steps.append((form.op, first.attrs, (first.operands[0], *(-1 - i for i in range(len(steps))))))
    results = [t for t in (types[m] for m in members) if isinstance(t, TensorType)]
    axis = form.result_axis(results[0])
    sizes = tuple(t.shape[axis] for t in results)
    steps.append(("Split", (axis, sizes), (-len(steps),)))
    return Merge(rule, tuple(members), tuple(steps))
