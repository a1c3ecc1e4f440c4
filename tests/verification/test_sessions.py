"""How often verification opens and reads a model: large ones take seconds for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir
import pytest

from egraph_opt.verification import oracle, verify
from egraph_opt.verification.serialize import Runnable

Parse = Callable[..., onnx_ir.Model]
SUM = "g (float[N,4] x, float[N,4] z) => (float[N,4] y) { y = Add(%s) }"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bool]]:
    """What was opened, and whether optimized."""
    found: list[tuple[bytes, bool]] = []
    real = Runnable.open

    def noted(self: Runnable, *, optimize: bool) -> Any:
        assert isinstance(self.source, bytes)
        found.append((self.source, optimize))
        return real(self, optimize=optimize)

    monkeypatch.setattr(Runnable, "open", noted)
    return found


@pytest.mark.parametrize("given", [[], [{"N": 3}], [{"N": 3}, {"N": 5}]])
def test_each_model_is_opened_once_at_each_level_though_sizes_are_tried(
    given: list[Mapping[str, int]], parse: Parse, opened: list[tuple[bytes, bool]]
) -> None:
    verdict = verify(parse(SUM % "x, z"), parse(SUM % "z, x"), sizes=given, others=True)
    assert verdict.equivalent
    assert len({row.sizes["N"] for row in verdict.evidence}) == max(2, len(given) + 1)
    assert len(opened) == len(set(opened)) == 4


def test_the_candidate_is_not_read_where_the_original_is_too_much_for_float64(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[onnx_ir.Model] = []
    real = oracle.import_model

    def noted(model: onnx_ir.Model) -> Any:
        read.append(model)
        return real(model)

    monkeypatch.setattr(oracle, "import_model", noted)
    one, other = parse(SUM % "x, z"), parse(SUM % "z, x")
    assert "evaluated both" in verify(one, other).checks[-1]
    assert read == [one, other]
    monkeypatch.setattr(oracle, "MOST_FLOPS", 3)
    read.clear()
    assert any("too many for NumPy" in note for note in verify(one, other).notes)
    assert read == [one]
