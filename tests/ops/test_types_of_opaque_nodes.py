"""A node that the table cannot express may still have a type that holds for every size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

from egraph_opt.ir import Size, TensorType, evaluate, symbol
from egraph_opt.onnx_io import import_model
from egraph_opt.ops.base import concrete_type

N = symbol("N")

NODES: dict[str, tuple[str, tuple[Size, ...] | str | None]] = {
    "Expand to a size of another": ("s = Shape(x) e = Concat<axis=0>(two, s) y = Expand(one, e)", (2, N, 3)),
    "ConstantOfShape": ("s = Shape(x) y0 = ConstantOfShape(s) y = Relu(y0)", (N, 3)),
    "Tile by a size": ("s = Shape(x) y = Tile(x, s)", (N * N, 9)),
    "Range to a size": ("s = Shape(x) d = Gather(s, zero) r = Range(zero, d, step) y = Cast<to=1>(r)", (N,)),
    "Range by twos": ("s = Shape(x) d = Gather(s, zero) r = Range(zero, d, two0) y = Cast<to=1>(r)", "half"),
    "Slice to a middle": ("s = Shape(x) f = Slice(s, z1, o1) g = Div(f, two) y = Slice(x, z1, g, z1)", None),
    "Slice of both to a size": (
        "d = Concat<axis=0>(x, x) s = Shape(x) f = Slice(s, z1, o1) y = Slice(d, z1, f, z1)",
        (N, 3),
    ),
    "Pad by a size": ("s = Shape(x) p = Concat<axis=0>(s, two, two) y = Pad(x, p)", (N * 2 + 2, 8)),
    "Resize by twos": ("u = Unsqueeze(x, zz) r = Resize(u, , scales) y = Squeeze(r, zz)", (N * 2, 6)),
    "Resize to sizes": (
        "u = Unsqueeze(x, zz) a = Shape(u) b = Add(a, a4) r = Resize(u, , , b) y = Squeeze(r, zz)",
        (N + 1, 4),
    ),
    "Reshape that ONNX cannot write": (
        "s = Shape(x) q = Concat<axis=0>(three, m1) t = Transpose(x) y = Reshape(t, q)",
        (3, N),
    ),
    "Squeeze of what must be 1": ("t = Transpose(x) s = Slice(t, z1, o1) y = Squeeze(s, z1)", (N,)),
}
STORED = (
    "<int64[1] two={2}, int64 two0={2}, int64 zero={0}, int64 step={1}, int64[1] z1={0}, int64[1] o1={1},"
    " float one={1}, int64[2] zz={0,1}, float[4] scales={1,1,2,2}, int64[4] a4={0,0,1,1},"
    " int64[1] three={3}, int64[1] m1={-1}>"
)


@pytest.mark.parametrize("name", NODES)
def test_the_type_holds_for_every_size(name: str) -> None:
    nodes, shape = NODES[name]
    dims = "?" if shape == "half" or shape == (N,) else "?,?"
    header = '<ir_version: 8, opset_import: ["" : 13]> '
    model = onnx.parser.parse_model(f"{header} g (float[N,3] x) => (float[{dims}] y) {STORED} {{ {nodes} }}")
    found = import_model(onnx_ir.from_proto(model))
    type_ = found.graph.types[found.graph.outputs[0]]
    assert isinstance(type_, TensorType)
    if isinstance(shape, tuple):
        assert type_ == TensorType("float32", shape)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    for n in (1, 2, 5):
        y = np.asarray(session.run(None, {"x": np.ones((n, 3), np.float32)})[0])
        symbols = {"N": n}
        if all(s.symbols() <= {"N"} for s in type_.shape if not isinstance(s, int)):
            assert concrete_type(type_, symbols).shape == y.shape
            assert shape != "half" or evaluate(type_.shape[0], symbols) == (n + 1) // 2
        else:
            assert shape is None
