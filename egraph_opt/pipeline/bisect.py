"""Which rules are to blame for a fault: the smallest set that shows it, and a model as small as the fault allows."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import onnx_ir

from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.ir import TensorGraph, TensorType, TupleType
from egraph_opt.onnx_io import Imported, export_graph
from egraph_opt.pipeline.choose import Check, Fault
from egraph_opt.pipeline.options import OnProgress, Options
from egraph_opt.pipeline.run import Run
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.subsets import smallest_set
from egraph_opt.saturation import Worker
from egraph_opt.saturation.regions import regions

MOST_PARTS = 8
"""How many parts of a model are tried on their own."""


@dataclass(frozen=True)
class Pair:
    """An original and what the rules made of it, which shows the fault."""

    original: onnx_ir.Model
    faulty: onnx_ir.Model
    said: str


@dataclass(frozen=True)
class Bisection:
    """What was found out.

    Attributes:
        fault: what the check said of the result with all rules; empty where it found nothing.
        loaded: how many rules there were.
        rules: the smallest set of them that shows the fault; none where it shows without any rule.
        minimal: whether none of them can be left out (otherwise, time ran out).
        tried: how many sets of rules were tried.
        again: whether it showed a second time, with the same rules; otherwise none of them is named.
        pair: models that show the fault with these rules: a part of the model if that is enough, else the whole.
        is_part: whether it is a part.
    """

    fault: str
    loaded: int
    rules: tuple[Rule, ...] = ()
    minimal: bool = True
    tried: int = 0
    again: bool = True
    pair: Pair | None = None
    is_part: bool = False


def bisect(
    model: onnx_ir.Model,
    check: Check,
    options: Options,
    *,
    rules: tuple[Rule, ...] = (),
    seconds: float = 300.0,
    on_progress: OnProgress | None = None,
) -> Bisection:
    """Finds the rules behind a fault by halving (``rewrites.subsets``); each set of rules gets an e-graph of its own.

    Nothing is timed or verified but by ``check``, and what it finds fault with need not be what ``optimize`` chooses:
    of all candidates the first with a fault counts.

    Args:
        rules: rules to use instead of those that ship.
        seconds: time after which no further set is tried.

    Raises:
        UsageError: the check finds fault with the original itself, or as ``optimize``.
    """
    complaint = check(model, model)
    if complaint:
        raise UsageError(f"the check finds fault with the original itself, so no rule is to blame: {complaint}")
    end = time.monotonic() + seconds
    chooser = Run(model.clone(), options, on_progress, rules).chooser()
    loaded = chooser.proposer.rules
    first = chooser.fault(None, check, options.candidates)
    if first is None:
        return Bisection("", len(loaded), tried=1)
    plain = chooser.as_written(check)
    if plain is not None:  # what reads or writes models is to blame
        return Bisection(first.said, len(loaded), tried=2, pair=Pair(chooser.imported.model, *plain))
    asked = 0

    with Worker() as worker:

        def shows(names: Collection[str]) -> bool:
            nonlocal asked
            asked += 1
            chooser.tell("bisect", asked, 0, f"{len(names)} rules")
            return chooser.fault(names, check, first.number, worker) is not None

        suspects = next((some for some in chooser.suspects(first.entry.proposal) if shows(some)), None)
        if suspects is None:
            pair = Pair(chooser.imported.model, first.entry.model, first.said)
            return Bisection(first.said, len(loaded), tried=asked + 1, again=False, pair=pair)
        names, minimal = smallest_set(suspects, shows, lambda: time.monotonic() > end)
        guilty = tuple(rule for rule in loaded if rule.name in names)
        last = chooser.fault(names, check, first.number, worker) or first
    whole = Pair(chooser.imported.model, last.entry.model, last.said)
    part = next(_parts(last, guilty, chooser.imported, check, options), None)
    return Bisection(first.said, len(loaded), guilty, minimal, asked + 1, pair=part or whole, is_part=part is not None)


def _parts(fault: Fault, rules: tuple[Rule, ...], imported: Imported, check: Check, options: Options) -> Iterator[Pair]:
    """Parts of the model that show the fault on their own: what was rewritten together, the smallest first."""
    frozen, selection = fault.proposer.frozen, fault.entry.proposal.extraction.selection
    changed = [region for region in regions(frozen, selection) if region.rules]
    for region in sorted(changed, key=lambda r: len(r.old))[:MOST_PARTS]:
        own = [i for i in region.old if frozen.original[i] == region.cls]
        part = _cut(frozen.graph, region.old, own)
        if part is None or not rules:
            continue
        small = _as_model(part, imported.opset)
        if small is None:
            continue
        plain = replace(options, shapes={}, measure_shapes={}, verify_inputs=None)
        plain = replace(plain, skip_rules=(), only_rules=(), rule_files=())  # no other rules than the guilty ones
        try:
            found = Run(small.clone(), plain, None, rules).chooser().fault(None, check, fault.number)
        except EgraphOptError:  # it cannot be read, measured or run on its own
            continue
        if found is not None and not check(small, small):
            yield Pair(small, found.entry.model, found.said)


def _cut(graph: TensorGraph, nodes: Sequence[int], outputs: Sequence[int]) -> TensorGraph | None:
    """These nodes and their constants as a graph of its own, whose inputs are the other operands; ``outputs`` are among
    the nodes. ``None`` where an operand or an output is no tensor.
    """
    new, place = TensorGraph(opaques=graph.opaques), dict[int, int]()
    wanted = set(nodes) | {i for i in nodes for i in graph.nodes[i].operands if isinstance(graph.types[i], TupleType)}
    around = wanted | {i for w in wanted for i in graph.nodes[w].operands}
    for index in sorted(around):
        node, type_ = graph.nodes[index], graph.types[index]
        if node.op == "Const":
            place[index] = new.constant(graph.constants[int(str(node.attrs[0]))])
        elif index in wanted and node.op != "Input":
            if any(i not in place for i in node.operands):
                return None
            place[index] = new.add(node.op, node.attrs, [place[i] for i in node.operands], type_)
        elif isinstance(type_, TensorType):
            place[index] = new.add("Input", (f"x{len(place)}",), (), type_)
        else:
            return None
        if index in graph.names and node.op not in ("Input", "Const"):
            new.names.setdefault(place[index], graph.names[index])
    new.outputs = tuple(place[i] for i in outputs)
    return new if all(isinstance(graph.types[i], TensorType) for i in outputs) else None


def _as_model(graph: TensorGraph, opset: int) -> onnx_ir.Model | None:
    inputs = [(str(n.attrs[0]), t) for n, t in zip(graph.nodes, graph.types, strict=True) if n.op == "Input"]
    if not all(isinstance(t, TensorType) for _, t in inputs) or any(
        graph.nodes[i].op == "Input" for i in graph.outputs
    ):
        return None
    return export_graph(graph, inputs, [f"y{i}" for i in range(len(graph.outputs))], opset=opset)  # type: ignore[arg-type]
