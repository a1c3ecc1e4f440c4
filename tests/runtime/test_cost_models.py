"""Signatures and the two cost models, on real ONNX Runtime."""

from __future__ import annotations

import time

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operators
from egraph_opt.runtime import Analytic, CostDatabase, OrtCpu, Scope, Signature, cost_models, get_cost_model, work
from egraph_opt.runtime.ort_cpu import ALIAS

F32 = "float32"


def conv(channels: int, size: int, op: str = "Conv", extra: tuple[object, ...] = ()) -> Signature:
    types = (TensorType(F32, (1, channels, size, size)), TensorType(F32, (channels, channels, 3, 3)))
    return Signature(op, ((1, 1), (1, 1, 1, 1), (1, 1), 1, *extra), types, (False, True))


def unary(op: str, *shape: int, dtype: str = F32, attrs: tuple[object, ...] = ()) -> Signature:
    return Signature(op, attrs, (TensorType(dtype, shape),), (False,))


RESHAPE = unary("Reshape", 64, 32, attrs=((2048,),))


@pytest.fixture
def model() -> OrtCpu:
    return OrtCpu(budget_seconds=0.003, database=CostDatabase.in_memory())


class Progress:
    """Counts what is measured."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))


def test_signature_key_is_one_line_and_tells_what_matters_apart() -> None:
    x = TensorType(F32, (2, 3))
    variants = [
        Signature("Add", (), (x, x), (False, False)),
        Signature("Add", (), (x, x), (False, True)),
        Signature("Sub", (), (x, x), (False, False)),
        Signature("Add", (), (x, TensorType(F32, (3,))), (False, False)),
        Signature("LeakyRelu", (0.0,), (x,), (False,)),
        Signature("LeakyRelu", (-0.0,), (x,), (False,)),
        Signature("LeakyRelu", ("a\nb",), (x,), (False,)),
    ]
    assert len({s.key for s in variants}) == len(set(variants)) == len(variants)
    assert not any("\n" in s.key for s in variants)
    assert variants[0] == Signature("Add", (), (x, x), (False, False))


def test_signature_of_a_graph_node_marks_weights_and_knows_its_result() -> None:
    import numpy as np

    graph = TensorGraph()
    x = graph.add("Input", ("x",), (), TensorType(F32, (2, 3)))
    w = graph.constant(Constant.of(np.ones(3, np.float32)))
    add = graph.add("Add", (), (x, w), TensorType(F32, (2, 3)))
    signature = Signature.of(graph, add)
    assert signature.constant == (False, True)
    assert signature.result == TensorType(F32, (2, 3))
    with pytest.raises(ValueError, match="2 operands"):
        Signature("Add", (), (TensorType(F32, ()),) * 2, (False,))


def test_registry_names_what_there_is() -> None:
    assert set(cost_models()) == {"analytic", "cuda", "ort-cpu"}
    assert all(m.description for m in cost_models().values())
    assert get_cost_model("analytic:h100", threads=2) == Analytic(device="h100", threads=2)
    for call in (
        lambda: get_cost_model("ort"),
        lambda: get_cost_model("analytic", speed=3),
        lambda: get_cost_model("ort-cpu:fast"),
        lambda: get_cost_model("analytic:abacus"),
        lambda: get_cost_model("ort-cpu", threads=0),
    ):
        with pytest.raises(UsageError):
            call()
    with pytest.raises(UsageError, match=r"ort-cpu.*analytic"):
        get_cost_model("ort")


def test_analytic_is_a_roofline() -> None:
    small, large, relu, free = Analytic().price(
        [conv(8, 16), conv(64, 56), unary("Relu", 1, 64, 56, 56), Signature("Input", ("x",))]
    )
    assert 0 < small.seconds < large.seconds
    assert relu.seconds < large.seconds
    assert large.flops == 2 * 64 * 56 * 56 * 64 * 9
    assert relu.bytes == 2 * 4 * 64 * 56 * 56
    assert free.seconds == 0
    assert free.origin == "free"
    assert large.lower_bound == large.seconds
    (gpu,) = Analytic(device="h100").price([conv(64, 56)])
    (four,) = Analytic(threads=4).price([conv(64, 56)])
    assert gpu.seconds < four.seconds < large.seconds
    (reshape,) = Analytic().price([RESHAPE])
    assert reshape.bytes == 0
    assert 0 < reshape.seconds <= relu.seconds


def test_unknown_operators_have_a_price_but_no_bound_beyond_it(model: OrtCpu) -> None:
    opaque = Signature("Opaque", (3,), (TensorType(F32, (1000,)),), (False,))
    assert work(opaque).bytes == 4000
    for cost in (*Analytic().price([opaque]), *model.price([opaque])):
        assert cost.seconds > 0
        assert 0 <= cost.lower_bound <= cost.seconds
    assert model.price([opaque])[0].estimated


def test_measured_prices_are_positive_ordered_by_work_and_bounded(model: OrtCpu) -> None:
    signatures = [
        conv(64, 28),
        conv(8, 8),
        conv(8, 8, "FusedConv", ("Relu", ())),
        unary("Sqrt", 64, 64),
        unary("Log", 64, 64, dtype="float64"),
        unary("Not", 16, dtype="bool"),
        Signature("Div", (), (TensorType("int64", (32,)),) * 2, (False, False)),
        Signature("Add", (), (TensorType(F32, (32, 32)),) * 2, (True, True)),
        RESHAPE,
    ]
    costs = model.price(signatures)
    assert all(c.origin == "measured" and c.seconds > 0 for c in costs), costs
    assert all(0 <= c.lower_bound <= c.seconds and c.layout >= 0 for c in costs)
    assert costs[0].seconds > 5 * costs[1].seconds  # 784 times the work


def test_second_call_measures_nothing_and_answers_the_same(model: OrtCpu) -> None:
    signatures = [conv(8, 8), unary("Relu", 100), unary("Relu", 100), RESHAPE, Signature("Get", (0,))]
    first, second = Progress(), Progress()
    costs = model.price(signatures, on_progress=first)
    assert first.calls == [(1, 3), (2, 3), (3, 3)]  # two are equal, one is free
    assert costs[1] == costs[2]
    assert model.price(list(reversed(signatures)), on_progress=second) == costs[::-1]
    assert second.calls == []
    assert model.database is not None
    assert ALIAS in {key for key, _, _ in model.database.rows()}


def test_other_threads_or_versions_are_measured_anew(model: OrtCpu, monkeypatch: pytest.MonkeyPatch) -> None:
    relu = [unary("Relu", 64)]
    model.price(relu)
    two = Progress()
    OrtCpu(threads=2, budget_seconds=0.003, database=model.database).price(relu, on_progress=two)
    assert two.calls == [(1, 1)]
    monkeypatch.setattr("egraph_opt.runtime.database.version", lambda name: "99.0")
    newer = Progress()
    model.price(relu, on_progress=newer)
    assert newer.calls == [(1, 1)]
    assert model.database is not None
    assert len({scope for _, scope, _ in model.database.rows()}) == 3


def test_what_onnx_runtime_cannot_run_is_estimated_and_remembered(model: OrtCpu) -> None:
    bfloat = unary("Erf", 64, 64, dtype="bfloat16")
    costs = model.price([bfloat, unary("Relu", 64, 64)])
    assert costs[0].estimated
    assert costs[0].seconds > 0
    assert not costs[1].estimated
    again = Progress()
    model.price([bfloat], on_progress=again)
    assert again.calls == []
    assert model.database is not None
    notes = model.database.read([bfloat.key], Scope.here("ort-cpu", 1))
    assert "implementation" in notes[bfloat.key].note


def test_after_the_deadline_costs_are_estimated_and_not_kept(model: OrtCpu) -> None:
    late = model.price([conv(8, 8), unary("Relu", 64)], deadline=time.monotonic())
    assert all(c.estimated and c.seconds > 0 for c in late)
    progress = Progress()
    model.price([conv(8, 8), unary("Relu", 64)], on_progress=progress)
    assert len(progress.calls) == 2


def test_every_operator_of_the_table_can_be_measured_or_says_why(model: OrtCpu) -> None:
    """Samples of the whole table in float32; what cannot be measured must be ONNX Runtime's own refusal."""
    import numpy as np

    rng = np.random.default_rng(0)
    signatures: list[Signature] = []
    for declared in operators().values():
        low, high = declared.arity
        count = low if high is None else high
        sample = next(
            (s for _ in range(5) if (s := declared.complete(rng, [None] * len(declared.params), [None] * count))), None
        )
        if sample is None or not all(isinstance(t, TensorType) for t in sample.types):
            continue
        types = tuple(TensorType(F32 if t.dtype == "float64" else t.dtype, t.shape) for t in sample.types)
        signatures.append(Signature(declared.name, sample.attrs, types, (False,) * len(types)))
    assert len(signatures) > 40
    estimated = [s.key for s, c in zip(signatures, model.price(signatures), strict=True) if c.estimated]
    notes = model.database.read(estimated, Scope.here("ort-cpu", 1)) if model.database else {}
    unexpected = {k: e.note for k, e in notes.items() if "Could not find an implementation" not in e.note}
    assert not unexpected
