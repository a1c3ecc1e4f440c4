"""What the tests of operators share: one-node models out of samples, and graphs out of ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from egraph_opt.ir import AttrValue, Node, TensorGraph, TensorType, TupleType, Type
from egraph_opt.ops import GraphBuilder, Lowering, Operator, Sample, Sink, Source, importers, operator
from egraph_opt.ops.lowering import onnx_dtype

Array = NDArray[Any]


@dataclass(frozen=True)
class Emitted:
    """A model that holds what one operator writes for one sample."""

    proto: onnx.ModelProto
    results: tuple[TensorType, ...]


@dataclass(frozen=True)
class Read:
    """A graph that was read from ONNX nodes, and the nodes of its outputs."""

    graph: TensorGraph
    outputs: tuple[int, ...]

    @property
    def node(self) -> Node:
        """The node of the first output; the tuple node for a part of one."""
        node = self.graph.nodes[self.outputs[0]]
        return self.graph.nodes[node.operands[0]] if node.op == "Get" else node

    @property
    def type(self) -> Type:
        return self.graph.types[self.outputs[0]]


class Bench:
    """The tools of the tests, as one fixture."""

    @staticmethod
    def value(name: str, type_: TensorType) -> onnx_ir.Value:
        """An ONNX value; symbolic sizes are written as their text."""
        dims = [size if isinstance(size, int) else str(size) for size in type_.shape]
        dtype = onnx_ir.TensorType(onnx_dtype(type_.dtype))
        return onnx_ir.Value(name=name, type=dtype, shape=onnx_ir.Shape(dims))

    def emit(self, declared: Operator, sample: Sample, opset: int) -> Emitted:
        """The model that ``to_onnx`` makes of ``sample`` at ``opset``."""
        type_ = declared.infer(sample.attrs, sample.types)
        items = type_.items if isinstance(type_, TupleType) else (type_,)
        results = tuple(t for t in items if isinstance(t, TensorType))
        sink = Sink(opset)
        inputs = tuple(self.value(f"x{i}", t) for i, t in enumerate(sample.types))
        made = declared.to_onnx(Lowering(sink, sample.attrs, inputs, sample.types, type_))
        outputs = made if isinstance(made, tuple) else (made,)
        for i, (value, t) in enumerate(zip(outputs, results, strict=True)):
            model_value = self.value(f"y{i}", t)
            value.name, value.type, value.shape = f"y{i}", model_value.type, model_value.shape
        for i, value in enumerate(sink.initializers):
            value.name = f"c{i}"
        graph = onnx_ir.Graph(
            inputs, outputs, nodes=sink.nodes, initializers=sink.initializers, opset_imports={"": opset}, name="g"
        )
        proto = onnx_ir.to_proto(onnx_ir.Model(graph, ir_version=10 if opset < 24 else 13))
        return Emitted(proto, results)

    @staticmethod
    def run(proto: onnx.ModelProto, operands: Sequence[Array]) -> list[Array]:
        """What ONNX Runtime computes without optimizing."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, {f"x{i}": x for i, x in enumerate(operands)})  # type: ignore[return-value]

    @staticmethod
    def read(proto: onnx.ModelProto, types: Sequence[TensorType] | None = None) -> Read:
        """The graph of ``proto``; ``types`` override those of its inputs."""
        model = onnx_ir.from_proto(proto)
        builder = GraphBuilder(TensorGraph())
        found: dict[onnx_ir.Value, int] = {}
        for i, value in enumerate(model.graph.inputs):
            assert types is not None
            found[value] = builder.graph.add("Input", (value.name,), (), types[i])
        for value in model.graph.initializers.values():
            assert value.const_value is not None
            found[value] = builder.constant(value.const_value.numpy())
        for node in model.graph:
            operands = tuple(None if v is None else found[v] for v in node.inputs)
            made = importers()[node.op_type].from_onnx(Source(builder, node, operands, model.opset_imports[""]))
            indices = (made,) if isinstance(made, int) else made
            for value, index in zip(node.outputs, indices, strict=False):
                found[value] = index
        return Read(builder.graph, tuple(found[value] for value in model.graph.outputs))

    def importing(
        self,
        op_type: str,
        operands: Sequence[TensorType | Array | list[int] | None],
        opset: int,
        outputs: int = 1,
        **attributes: AttrValue,
    ) -> Read:
        """The graph of one ONNX node; operands are types of inputs, or constants, or left out."""
        inputs: list[onnx_ir.Value] = []
        given: list[onnx_ir.Value | None] = []
        constants: list[onnx_ir.Value] = []
        types: list[TensorType] = []
        for i, operand in enumerate(operands):
            if isinstance(operand, TensorType):
                inputs.append(self.value(f"x{i}", operand))
                types.append(operand)
                given.append(inputs[-1])
            elif operand is None:
                given.append(None)
            else:
                array = np.array(operand, np.int64) if isinstance(operand, list) else operand
                constants.append(onnx_ir.Value(name=f"c{i}", const_value=onnx_ir.tensor(array)))
                given.append(constants[-1])
        return self.read(self._one_node(op_type, inputs, given, constants, opset, outputs, attributes), types)

    @staticmethod
    def _one_node(
        op_type: str,
        inputs: Sequence[onnx_ir.Value],
        given: Sequence[onnx_ir.Value | None],
        constants: Sequence[onnx_ir.Value],
        opset: int,
        outputs: int,
        attributes: Mapping[str, AttrValue],
    ) -> onnx.ModelProto:
        node = onnx_ir.Node("", op_type, given, _attributes(attributes), num_outputs=outputs)
        for i, value in enumerate(node.outputs):
            value.name = f"y{i}"
        graph = onnx_ir.Graph(
            inputs, node.outputs, nodes=[node], initializers=constants, opset_imports={"": opset}, name="g"
        )
        return onnx_ir.to_proto(onnx_ir.Model(graph, ir_version=10))

    def agrees(
        self,
        op_type: str,
        operands: Sequence[Array],
        opset: int,
        outputs: int = 1,
        fixed: int = 0,
        **attributes: AttrValue,
    ) -> None:
        """Asserts that the graph read from an ONNX node computes what ONNX Runtime does.

        The last ``fixed`` operands are constants of the model.
        """
        free = len(operands) - fixed
        types = [TensorType(x.dtype.name, x.shape) for x in operands]
        inputs = [self.value(f"x{i}", t) for i, t in enumerate(types[:free])]
        constants = [
            onnx_ir.Value(name=f"c{i}", const_value=onnx_ir.tensor(x)) for i, x in enumerate(operands) if i >= free
        ]
        proto = self._one_node(op_type, inputs, [*inputs, *constants], constants, opset, outputs, attributes)
        untyped = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        wanted = self.run(untyped, operands[:free])
        read = self.read(proto, types)
        for index, want in zip(read.outputs, wanted, strict=True):
            got = evaluate(read.graph, index, operands)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    @staticmethod
    def draw(rng: np.random.Generator, declared: Operator, sample: Sample) -> list[Array]:
        """Operands for ``sample`` that stay inside ``declared.limits``."""
        return [
            draw_array(rng, t, bound)
            for t, bound in zip(sample.types, declared.limits(sample.attrs, sample.types), strict=True)
        ]


def evaluate(graph: TensorGraph, index: int, operands: Sequence[Array]) -> Any:
    """The value of a node, inputs being named x0, x1..."""
    node = graph.nodes[index]
    if node.op == "Input":
        return operands[int(str(node.attrs[0])[1:])]
    if node.op == "Const":
        return graph.value(index)
    return operator(node.op).evaluate(node.attrs, [evaluate(graph, i, operands) for i in node.operands])


def draw_array(rng: np.random.Generator, type_: TensorType, bound: tuple[int, int] | None) -> Array:
    """Signed values with few ties; positive and away from 0 where an operator wants that is up to the caller."""
    shape = type_.numbers()
    if type_.dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if "int" in type_.dtype:
        low, high = bound or (0 if type_.dtype.startswith("u") else -9, 9)
        return np.asarray(rng.integers(low, high + 1, shape)).astype(type_.dtype)
    return np.asarray(rng.normal(size=shape) * 2).astype(type_.dtype)


def _attributes(given: Mapping[str, AttrValue]) -> list[onnx_ir.Attr]:
    made: list[onnx_ir.Attr] = []
    for name, value in given.items():
        if value == ():
            made.append(onnx_ir.AttrInt64s(name, []))
        else:
            plain = list(value) if isinstance(value, tuple) else value
            made.extend(onnx_ir.convenience.convert_attributes({name: plain}))  # type: ignore[dict-item]
    return made


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
