"""Nodes of a result say where they come from; without that the result is the same to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
import pytest

import egraph_opt
from egraph_opt.rewrites.library import all_rules

CAME_FROM, MADE_BY = "pkg.egraph_opt.nodes", "pkg.egraph_opt.rules"
CLS = "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer"
TEXT = """g (float[N,4] x) => (float[N,4] y, float[4,N] z) {
    [first] a = Relu(x)
    [second] b = Relu(a)
    [there] z = Transpose<perm = [1, 0]>(b)
    [back] d = Transpose<perm = [1, 0]>(z)
    [exp] y = Exp(d)
}"""
BODY = """b (int64 i, bool c, float[2,4] v) => (bool d, float[2,4] w) {
    d = Identity(c)
    [inner] p = Relu(v)
    [again] q = Relu(p)
    w = Neg(q)
}"""


def optimize(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    settings: dict[str, Any] = {"target": "analytic", "measure": False, "extractor": "dag-greedy"}
    made = egraph_opt.optimize(model, **{**settings, **options})
    assert made.changed, made.report.reason
    assert isinstance(made.model, onnx.ModelProto)
    return made.model


def said(node: onnx.NodeProto) -> dict[str, list[str]]:
    return {p.key: json.loads(p.value) for p in node.metadata_props if p.key in (CAME_FROM, MADE_BY)}


def every_node(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    inner = [every_node(a.g) for node in graph.node for a in node.attribute if a.HasField("g")]
    return [*graph.node, *(node for nodes in inner for node in nodes)]


@pytest.fixture
def parsed(tools: Any) -> onnx.ModelProto:
    return tools.parse(TEXT)


def test_what_became_of_each_node(parsed: onnx.ModelProto) -> None:
    nodes = {node.op_type: said(node) for node in optimize(parsed).graph.node}
    assert set(nodes["Relu"][CAME_FROM]) == {"first", "second", "back"}
    assert nodes["Relu"][MADE_BY]
    assert set(nodes["Relu"][MADE_BY]) <= {rule.name for rule in all_rules()}
    assert nodes["Exp"] == {CAME_FROM: ["exp"]}
    assert nodes["Transpose"] == {CAME_FROM: ["there"]}


def test_nodes_without_a_name_are_called_by_their_output(parsed: onnx.ModelProto) -> None:
    for node in parsed.graph.node:
        node.name = ""
    nodes = {node.op_type: said(node) for node in optimize(parsed).graph.node}
    assert nodes["Exp"][CAME_FROM] == ["y"]


@pytest.mark.parametrize("ir", [3, 8, 10])
def test_checker_and_runtime_accept_it(ir: int, tools: Any) -> None:
    made = optimize(tools.parse(TEXT, ir=ir, opset=12))
    assert any(said(node) for node in made.graph.node)
    onnx.checker.check_model(made, full_check=True)
    ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def test_nodes_of_bodies_say_it_too(tools: Any) -> None:
    model = tools.parse("g (float[2,4] x) => (float[2,4] y) <int64 n = {3}, bool t = {1}> { y = Relu(x) }")
    loop = onnx.helper.make_node("Loop", ["n", "t", "x"], ["y"], "loop", body=onnx.parser.parse_graph(BODY))
    model.graph.node[0].CopyFrom(loop)
    (relu,) = (node for node in every_node(optimize(model).graph) if node.op_type == "Relu")
    assert set(said(relu)[CAME_FROM]) == {"inner", "again"}


@pytest.mark.zoo
def test_a_real_model_without_it_is_the_same(zoo: Path) -> None:
    original = onnx.load(str(zoo / f"{CLS}.onnx"))
    options: dict[str, Any] = {"measure_shapes": {"x": (1, 3, 48, 192)}}
    told, silent = optimize(original, **options), optimize(original, provenance=False, **options)
    names = {node.name for node in original.graph.node}
    for node in told.graph.node:
        assert said(node)[CAME_FROM], node.name
        assert names.issuperset(said(node)[CAME_FROM])
    assert told.ByteSize() < 1.05 * silent.ByteSize()
    onnx.checker.check_model(told, full_check=True)
    ort.InferenceSession(told.SerializeToString(), providers=["CPUExecutionProvider"])
    for node in told.graph.node:
        del node.metadata_props[:]
    assert told.SerializeToString(deterministic=True) == silent.SerializeToString(deterministic=True)
