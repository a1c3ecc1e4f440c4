"""Measures what operators cost on this machine's GPU, as the executor would run them."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import IllTyped, operator
from egraph_opt.runtime.costs import OnProgress
from egraph_opt.runtime.cuda.device import machine
from egraph_opt.runtime.cuda.executor import Program
from egraph_opt.runtime.cuda.plan import make_plan
from egraph_opt.runtime.cuda.tune import Choices, Tuner
from egraph_opt.runtime.database import CostDatabase, Entry, Scope
from egraph_opt.runtime.signature import FREE, Signature
from egraph_opt.runtime.single import values_of

SCHEMA = 1
"""Raised whenever measured seconds stop being comparable with new ones."""


def scope_here(fast: bool) -> Scope:
    """The scope of measurements on this machine; ``fast`` ones let float32 use TF32."""
    found = machine()
    return Scope(f"cuda{' fast' if fast else ''}: {found.name}", f"{found.versions}, schema {SCHEMA}")


@dataclass(frozen=True)
class Done:
    """What ``measure_into`` did: the device, and how many signatures it measured, found measured, and left."""

    device: str
    measured: int
    known: int
    left: int

    def __str__(self) -> str:
        return f"{self.measured} operators measured on {self.device}, {self.known} were known, {self.left} are left"


def measure_into(
    database: Path | None, signatures: Path, *, choices: Path | None, time_limit: float | None, fast: bool
) -> Done:
    """Measures the signatures of a file that the database (that of the cache by default) does not hold.

    Args:
        choices: JSON file with the fastest library calls; read, and written.
        time_limit: seconds after which no other operator is measured.
        fast: float32 products and convolutions may use TF32.

    Raises:
        UsageError: the file cannot be read, or there is no usable GPU.
    """
    wanted, scope = read_signatures(signatures), scope_here(fast)
    end = time.monotonic() + time_limit if time_limit is not None else float("inf")
    with closing(CostDatabase.open(database)) as stored:
        known = stored.read((s.key for s in wanted), scope)
        missing = [s for s in wanted if s.key not in known]
        tuner, done = Tuner(Choices(choices), alone=True), 0
        for key, entry in measure(missing, tuner, fast=fast, deadline=lambda: time.monotonic() > end):
            stored.write({key: entry}, scope)
            done += 1
        tuner.choices.save()
    return Done(scope.device, done, len(known), len(missing) - done)


def measure(
    signatures: Sequence[Signature], tuner: Tuner, *, fast: bool, deadline: Callable[[], bool] = lambda: False,
    on_progress: OnProgress | None = None,
) -> Iterator[tuple[str, Entry]]:  # fmt: skip
    """Key and entry of one signature after the other, until ``deadline()`` says that time is up.

    An entry without seconds says why the executor cannot run the operator. ``Entry.layout`` is what the changes of
    layout around the lone operator take: between two operators that want the same one there are none.
    """
    for number, signature in enumerate(signatures):
        if deadline():
            return
        yield signature.key, measured(signature, tuner, fast=fast)
        if on_progress is not None:
            on_progress(number + 1, len(signatures))


def measured(signature: Signature, tuner: Tuner, *, fast: bool) -> Entry:
    """The seconds of one operator in a replayed CUDA graph, its weights cold, its other operands in the cache."""
    if signature.op in FREE:
        return Entry(0.0)
    try:
        plan = make_plan(single(signature), exact=not fast, lay_inputs=True)
        seconds = layout = 0.0
        program = Program(plan, tuple(f"y{i}" for i in range(len(plan.outputs))), fast=fast, tuner=tuner)
        for index, step in enumerate(plan.steps):
            taken = tuner.seconds(program.launcher(index), step, plan.buffers)
            if step.title.startswith("copy of"):
                layout += taken
            else:
                seconds += taken
    except (EgraphOptError, IllTyped) as error:
        return Entry(None, note=str(error)[:200])
    except Exception as error:  # noqa: BLE001 - one operator that a library chokes on must not end the rest
        return Entry(None, note=f"{type(error).__name__}: {str(error)[:200]}")
    if seconds == float("inf") or layout == float("inf"):
        return Entry(None, note="its kernel does not run")
    return Entry(seconds, layout)


def single(signature: Signature) -> TensorGraph:
    """A graph of the one operator; weights are constants, other operands inputs."""
    graph, operands = TensorGraph(), list[int]()
    for position, (type_, constant) in enumerate(zip(signature.tensors, signature.constant, strict=True)):
        if constant and not all(signature.constant):
            key = f"weight {position} of {signature.key}"
            weight = Constant(type_, key, lambda p=position: values_of(signature, p))
            operands.append(graph.constant(weight))
        else:
            operands.append(graph.add("Input", (f"x{position}",), (), type_))
    node = graph.add(signature.op, signature.attrs, operands, signature.result)
    many = operator(signature.op).outputs != 1
    results = signature.results
    graph.outputs = tuple(graph.add("Get", (i,), (node,), t) for i, t in enumerate(results)) if many else (node,)
    return graph


# --- signatures in files


def write_signatures(path: Path, signatures: Iterable[Signature]) -> int:
    """One signature a line, as JSON; returns how many. Those that are not fully known are left out."""
    lines = [_line(s) for s in signatures if s.is_known and s.op not in FREE]
    path.write_text("".join(f"{line}\n" for line in lines))
    return len(lines)


def read_signatures(path: Path) -> list[Signature]:
    """What ``write_signatures`` wrote.

    Raises:
        UsageError: the file cannot be read, or a line is no signature.
    """
    found: list[Signature] = []
    try:
        for line in path.read_text().splitlines():
            found.append(signature_of(json.loads(line)))
    except (OSError, ValueError, SyntaxError) as error:
        raise UsageError(f"{path} holds no signatures: {error}") from None
    return found


def signature_of(row: list) -> Signature:
    """A signature from its operator, attributes (as Python writes them), types and marks of constants."""
    op, attrs, types, constant = row[:4]
    tensors = tuple(TensorType(dtype, tuple(shape)) for dtype, shape in types)
    return Signature(op, ast.literal_eval(attrs), tensors, tuple(constant))


def _line(signature: Signature) -> str:
    types = [[t.dtype, list(t.numbers())] for t in signature.tensors]
    return json.dumps([signature.op, repr(signature.attrs), types, list(signature.constant)])
