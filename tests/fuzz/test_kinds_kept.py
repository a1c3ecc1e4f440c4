"""Kinds of faults around what must stay as it is: normalizations that train, operators of other domains. ONNX Runtime
without optimization is the judge."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import egraph_opt
from egraph_opt.errors import UnsupportedModelError
from tests.fuzz.kept import MICROSOFT, Stored, model_of, operators, optimized, weight

# --- normalizations


def normalization(outputs: int = 1, **attrs: Any) -> onnx.NodeProto:
    names = ["n", "running_mean", "running_variance", "saved_mean", "saved_variance"][:outputs]
    return helper.make_node("BatchNormalization", ["v", "s", "b", "m", "w"], names, **attrs)


def statistics(channels: int = 3) -> Stored:
    return {name: weight(channels, seed=k) for k, name in enumerate("sbmw")}


def before_it(form: str) -> tuple[list[onnx.NodeProto], Stored]:
    """What stands before a normalization, and could take it in."""
    if form == "Conv":
        return [helper.make_node("Conv", ["x", "k"], ["v"])], {"k": weight(3, 2, 1, 1)}
    if form == "ConvTranspose":
        return [helper.make_node("ConvTranspose", ["x", "k"], ["v"])], {"k": weight(2, 3, 1, 1)}
    return [helper.make_node("Concat", ["x", "k"], ["v"], axis=1)], {"k": weight(2, 1, 4, 4)}


@pytest.mark.parametrize("form", ["Conv", "ConvTranspose", "Concat"])
@pytest.mark.parametrize("opset", [14, 15, 21])
@pytest.mark.parametrize("used", [False, True])
def test_a_normalization_that_trains_stays(form: str, opset: int, used: bool, fuzz: ModuleType) -> None:
    """It normalizes by the statistics of the batch, whatever the stored ones are, and where its own are not used."""
    nodes, stored = before_it(form)
    nodes += [
        normalization(outputs=3, training_mode=1, momentum=0.7, epsilon=1e-3),
        helper.make_node("Mul", ["n", "c"], ["y"]),
    ]
    ends = ("y", "running_mean", "running_variance") if used else ("y",)
    scale = {"c": np.array(2, np.float32)}
    after = optimized(fuzz, model_of(nodes, (2, 2, 4, 4), stored | statistics() | scale, opset=opset, outputs=ends))
    (kept,) = [n for n in after.graph.node if n.op_type == "BatchNormalization"]
    attrs = {a.name: helper.get_attribute_value(a) for a in kept.attribute}
    assert attrs["training_mode"] == 1
    assert attrs["momentum"] == pytest.approx(0.7)
    assert len(kept.output) == 3


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_outputs_of_statistics_mean_training_in_older_opsets(opset: int) -> None:
    """No statistics are folded, whether it runs here or not; opsets 7 and 8 are refused as a whole."""
    nodes, stored = before_it("Conv")
    nodes += [normalization(outputs=5, momentum=0.7), helper.make_node("Relu", ["n"], ["y"])]
    ends = ("y", "running_mean", "running_variance", "saved_mean", "saved_variance")
    model = model_of(nodes, (2, 2, 4, 4), stored | statistics(), opset=opset, outputs=ends)
    if opset < 9:
        with pytest.raises(UnsupportedModelError, match="convert it to 9 or newer"):
            egraph_opt.optimize(model, target="analytic", measure=False)
        return
    result = egraph_opt.optimize(model, target="analytic", measure=False)
    assert isinstance(result.model, onnx.ModelProto)
    (kept,) = [n for n in result.model.graph.node if n.op_type == "BatchNormalization"]
    assert len(kept.output) == 5


@pytest.mark.parametrize("form", ["Conv", "ConvTranspose", "Concat"])
@pytest.mark.parametrize("opset", [9, 14, 15])
def test_a_normalization_that_does_not_train_goes_into_what_stands_before_it(
    form: str, opset: int, fuzz: ModuleType
) -> None:
    nodes, stored = before_it(form)
    nodes += [normalization(momentum=0.7, epsilon=1e-3), helper.make_node("Relu", ["n"], ["y"])]
    after = optimized(fuzz, model_of(nodes, (2, 2, 4, 4), stored | statistics(), opset=opset))
    if form == "Conv":
        assert "BatchNormalization" not in operators(after)


# --- other domains

TWICE = "twice, which is once"
CONTRIB: dict[str, tuple[list[onnx.NodeProto], Stored]] = {
    "an operator with the name of one of ours": (
        [helper.make_node("Gelu", ["t"], ["u"], domain=MICROSOFT)],
        {},
    ),
    "of constants": (
        [
            helper.make_node("FusedMatMul", ["k", "k"], ["c"], domain=MICROSOFT, transA=1, alpha=0.5),
            helper.make_node("MatMul", ["t", "c"], ["u"]),
        ],
        {"k": weight(6, 6)},
    ),
    "a product with attributes": (
        [helper.make_node("FusedMatMul", ["t", "k"], ["u"], domain=MICROSOFT, transB=1, alpha=-2.0)],
        {"k": weight(6, 6)},
    ),
    "several outputs, of which one is left out": (
        [
            helper.make_node("SkipLayerNormalization", ["t", "x3", "k"], ["u", "", "", "w"], domain=MICROSOFT),
        ],
        {"k": weight(6)},
    ),
    "an input that is left out": (
        [helper.make_node("FastGelu", ["t", ""], ["u"], domain=MICROSOFT)],
        {},
    ),
    "a bias of its own": (
        [helper.make_node("BiasGelu", ["t", "k"], ["u"], domain=MICROSOFT)],
        {"k": weight(6)},
    ),
    "a padding with another meaning of its inputs": (
        [
            helper.make_node("Pad", ["t", "p"], ["q"], domain=MICROSOFT, mode="constant"),
            helper.make_node("Slice", ["q", "one", "end", "axis"], ["u"]),
        ],
        {"p": np.array([0, 1, 0, 1]), "one": np.array([0]), "end": np.array([6]), "axis": np.array([1])},
    ),
    TWICE: (
        [
            helper.make_node("QuickGelu", ["t"], ["a"], domain=MICROSOFT, alpha=1.5),
            helper.make_node("QuickGelu", ["t"], ["b"], domain=MICROSOFT, alpha=1.5),
            helper.make_node("Add", ["a", "b"], ["u"]),
        ],
        {},
    ),
    "twice, with other attributes": (
        [
            helper.make_node("QuickGelu", ["t"], ["a"], domain=MICROSOFT, alpha=1.5),
            helper.make_node("QuickGelu", ["t"], ["b"], domain=MICROSOFT, alpha=1.0),
            helper.make_node("Sub", ["a", "b"], ["u"]),
        ],
        {},
    ),
}


@pytest.mark.parametrize("opset", [11, 13, 17, 20])
@pytest.mark.parametrize("name", CONTRIB)
def test_an_operator_of_another_domain_stays_and_what_is_around_it_is_optimized(
    name: str, opset: int, fuzz: ModuleType
) -> None:
    inner, stored = CONTRIB[name]
    nodes = [
        helper.make_node("Transpose", ["x"], ["x1"], perm=[1, 0]),
        helper.make_node("Transpose", ["x1"], ["x2"], perm=[1, 0]),
        helper.make_node("Relu", ["x2"], ["x3"]),
        helper.make_node("Relu", ["x3"], ["t"]),
        *inner,
        helper.make_node("Transpose", ["u"], ["u1"], perm=[1, 0]),
        helper.make_node("Transpose", ["u1"], ["y"], perm=[1, 0]),
    ]
    model = model_of(nodes, (4, 6), stored, opset=opset)
    after = optimized(fuzz, model)
    ours = [n.op_type for n in after.graph.node if not n.domain]
    known = name != "a padding with another meaning of its inputs"  # its result has no rank that is known
    assert ours.count("Transpose") == (0 if known else 2)
    assert ours.count("Relu") == 1
    wanted = sorted(n.SerializeToString() for n in _plain(inner))
    assert wanted == sorted(n.SerializeToString() for n in _plain(list(after.graph.node))) or name == TWICE
    assert set(wanted) == {n.SerializeToString() for n in _plain(list(after.graph.node))}
    assert MICROSOFT in [o.domain for o in after.opset_import]


def _plain(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes of the other domain, with neither names nor notes."""
    return [
        helper.make_node(
            n.op_type, [], [], domain=n.domain, **{a.name: helper.get_attribute_value(a) for a in n.attribute}
        )
        for n in nodes
        if n.domain
    ]
