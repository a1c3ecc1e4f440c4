"""The inputs on which two models are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
import onnxruntime as ort

from egraph_opt.errors import UsageError
from egraph_opt.ops import numpy_dtype
from egraph_opt.runtime import Array
from egraph_opt.verification.branches import branch_values
from egraph_opt.verification.compare import Numerics
from egraph_opt.verification.feeds import Kind, has_integers, input_types, random_feeds, symbols
from egraph_opt.verification.interface import overridable_inputs
from egraph_opt.verification.sizes import alternative_sizes, default_sizes

_INTEGER_LIMITS = (100, 10, 2)
"""Upper bounds of random integers, widest first: what indexes a small table fails on the first ones."""
_AT_EVERY_SIZE = frozenset({"normal", "small"})
"""Kinds that are tried at all sizes; the others say more about values than about shapes."""


@dataclass(frozen=True)
class Case:
    """One input, or several in order of preference, of which the first that the original accepts counts."""

    kind: str
    sizes: Mapping[str, int]
    feeds: tuple[Mapping[str, Array], ...] = ()
    _model: onnx_ir.Model | None = field(default=None, repr=False)
    _random: tuple[Kind, int] = ("normal", 0)
    _limits: tuple[int, ...] = (2,)
    _overrides: Mapping[str, Array] = field(default_factory=dict[str, Array], repr=False)

    def attempts(self) -> Iterator[Mapping[str, Array]]:
        """The values to feed, made when asked for."""
        if self._model is None:
            yield from self.feeds
            return
        kind, seed = self._random
        for limit in self._limits:
            yield {**random_feeds(self._model, self.sizes, seed, kind, integers=limit), **self._overrides}

    def __str__(self) -> str:
        return f"{self.kind} input" + (f" at {dict(self.sizes)}" if self.sizes else "")


def planned_cases(
    model: onnx_ir.Model,
    numerics: Numerics,
    sizes: Sequence[Mapping[str, int]],
    feeds: Sequence[Mapping[str, Array]],
    seed: int,
    notes: list[str],
    session: ort.InferenceSession,
    *,
    others: bool = False,
) -> list[Case]:
    """Every case, the most telling ones first; what cannot be tried is said in ``notes``.

    ``session`` is the model without optimizations, on which sizes are tried where none are given, or ``others`` too.

    Raises:
        UsageError: there is no input to try.
    """
    cases = [Case("user", {}, (fed,)) for fed in feeds]
    try:
        chosen, types = _sizes(model, sizes, notes, session, others=others), input_types(model)
    except UsageError as error:
        if not cases:
            raise
        notes.append(f"only the given inputs were tried: {error}")
        return cases
    kinds: list[Kind] = ["normal", "unit", "small", "wide", "zeros"]
    if numerics == "exact":
        kinds.append("nonfinite")
    if not types:
        kinds = ["normal"]
    limits = _INTEGER_LIMITS if has_integers(model) else (2,)
    for kind in kinds:
        for turn, numbers in enumerate(chosen if kind in _AT_EVERY_SIZE else chosen[:1]):
            cases.append(Case(kind, numbers, (), model, (kind, seed + turn), limits))
    more: list[Kind] = ["unit", "small", "normal"]
    for turn in range(_extra_rounds(model, chosen[0])):
        for kind in more if len(kinds) > 1 else ():
            cases.append(Case(kind, chosen[turn % len(chosen)], (), model, (kind, seed + 100 + turn), limits))
    for values in branch_values(model):
        cases.append(Case("branch", chosen[0], (), model, ("normal", seed), limits, values))
    overrides = _overrides(model)
    if overrides:
        cases.insert(1, Case("overridden", chosen[0], (), model, ("normal", seed), limits, overrides))
    return cases


def _extra_rounds(model: onnx_ir.Model, sizes: Mapping[str, int]) -> int:
    """How many more rounds of input: a small input says little, and costs as little."""
    elements = sum(array.size for array in random_feeds(model, sizes).values())
    return 5 if elements < 256 else 1 if elements < 16384 else 0


def _sizes(
    model: onnx_ir.Model,
    given: Sequence[Mapping[str, int]],
    notes: list[str],
    session: ort.InferenceSession,
    *,
    others: bool,
) -> list[Mapping[str, int]]:
    names = symbols(model)
    if not names:
        return [{}]
    if given:
        chosen = [{n: int(g[n]) for n in names if n in g} for g in given]
        missing = sorted({n for c in chosen for n in names if n not in c})
        if missing:
            raise UsageError(f"sizes are missing for {', '.join(missing)}")
    else:
        chosen = [default_sizes(model, session)]
    if others or not given:
        chosen += alternative_sizes(model, chosen[0], session)
    fixed = [n for n in names if len({c[n] for c in chosen}) < 2]
    if fixed:
        notes.append(f"only one value was tried for the size {', '.join(fixed)}")
    return list(chosen)


def _overrides(model: onnx_ir.Model) -> dict[str, Array]:
    """Other values for the inputs that have a default: half as large again, so that variances stay positive."""
    overrides: dict[str, Array] = {}
    for value in overridable_inputs(model):
        tensor = model.graph.initializers[str(value.name)].const_value
        if tensor is None:
            continue
        array = np.asarray(tensor.numpy())
        if array.dtype.kind == "f":
            overrides[str(value.name)] = (array * 1.5 + 0.25).astype(array.dtype)
        elif array.dtype == numpy_dtype("bool"):
            overrides[str(value.name)] = ~array
    return overrides
