"""Numbers for the symbolic sizes of a model's inputs, found by running it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import onnx_ir
import onnxruntime as ort

from egraph_opt.errors import UsageError
from egraph_opt.runtime import run_session
from egraph_opt.verification.feeds import input_elements, leading_symbols, random_feeds, symbols
from egraph_opt.verification.serialize import runnable

COMMON = (64, 32, 16, 48, 96, 128, 160, 224, 256, 288, 320, 512, 576, 640, 1024, 16000, 1, 2, 3, 4, 5, 6, 7, 8)
"""Sizes that models are known to want, the likely ones first: powers of two, image sides, windows of audio."""

_SMALL = (1, 2, 3, 4, 8, 16, 64)
_TRIES = 100
_LARGEST = 2**24
"""Elements of all inputs together beyond which sizes are not tried: a cube of 16,000 would take all memory."""
_SECONDS = 10.0


def default_sizes(model: onnx_ir.Model, session: ort.InferenceSession | None = None) -> dict[str, int]:
    """Sizes at which the model runs: 1 for first axes, a common size for the others.

    ``session``: the model opened without optimizations; it is opened here if not given.

    Raises:
        UsageError: none was found, ONNX Runtime cannot load the model, or an input is no tensor.
    """
    if not symbols(model):
        return {}
    with _trial(model, session) as trial:
        found = next((s for s in _limited(likely_sizes(model)) if trial.runs(s)), None)
    if found is None:
        names = ", ".join(symbols(model))
        raise UsageError(f"no sizes were found at which the model runs: give {names} with --measure-shape")
    return found


def alternative_sizes(
    model: onnx_ir.Model, sizes: Mapping[str, int], session: ort.InferenceSession | None = None
) -> list[dict[str, int]]:
    """More sizes at which the model runs, so that every symbol takes a second value as far as the model allows.

    One assignment that changes all of them, where there is one; otherwise one per symbol that can be changed alone.
    ``session`` as for ``default_sizes``.
    """
    names = symbols(model)
    if not names:
        return []
    leading = leading_symbols(model)
    with _trial(model, session, max(_LARGEST, 8 * input_elements(model, sizes))) as trial:
        together = ({n: _other(sizes[n], n in leading, turn) for n in names} for turn in range(4))
        found = next((s for s in _limited(together) if trial.runs(s)), None)
        if found is not None:
            return [found]
        singles: list[dict[str, int]] = []
        for name in names:
            tried = (2, 3) if name in leading else (*(_other(sizes[name], False, t) for t in range(4)), *COMMON)
            values = [v for v in tried if v != sizes[name]]
            single = next((s for s in _limited({**sizes, name: v} for v in values) if trial.runs(s)), None)
            singles += [single] if single else []
        return singles


@dataclass(frozen=True)
class _Trial:
    model: onnx_ir.Model
    session: ort.InferenceSession
    largest: int

    def runs(self, sizes: Mapping[str, int]) -> bool:
        if input_elements(self.model, sizes) > self.largest:
            return False
        feeds = random_feeds(self.model, sizes)
        try:
            run_session(self.session, feeds)
        except Exception:  # that is the answer; ONNX Runtime's errors have no common base class
            return False
        return True


@contextmanager
def _trial(model: onnx_ir.Model, session: ort.InferenceSession | None, largest: int = _LARGEST) -> Iterator[_Trial]:
    """The model for trial runs on so many elements, one session for all."""
    if session is not None:
        yield _Trial(model, session, largest)
        return
    with runnable(model) as source:
        try:
            session = source.open(optimize=False)
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise UsageError(f"ONNX Runtime cannot load the model: {' '.join(str(error).split())[:300]}") from None
        yield _Trial(model, session, largest)


def likely_sizes(model: onnx_ir.Model) -> Iterator[dict[str, int]]:
    """Numbers for the symbolic sizes of the inputs, in the order in which ``default_sizes`` tries them."""
    names, leading = symbols(model), leading_symbols(model)
    others = [n for n in names if n not in leading]
    first = dict.fromkeys(leading, 1)
    if not others:
        yield first
    for value in COMMON if others else ():
        yield {**first, **dict.fromkeys(others, value)}
    if 1 < len(others) <= 3:
        for values in itertools.product(_SMALL, repeat=len(others)):
            yield {**first, **dict(zip(others, values, strict=True))}
    for value in COMMON:
        yield dict.fromkeys(names, value)


def _limited(candidates: Iterable[dict[str, int]]) -> Iterator[dict[str, int]]:
    end = time.monotonic() + _SECONDS
    for candidate in itertools.islice(candidates, _TRIES):
        if time.monotonic() > end:
            return
        yield candidate


def _other(size: int, leading: bool, turn: int) -> int:
    if leading:
        return size + 1 + turn % 2
    return (max(size // 2, 1) if size > 16 else size + 16, size + 32, size * 2, size + 1)[turn]
