"""What is enumerated: a few worlds of typed variables and operators, each evaluated under several assignments.

A world fixes names for attributes (an axis ``a``, the bundle ``c`` of a convolution...) and gives them, and the
shapes of the variables, a value per assignment. Terms are written with the names, so an equality that holds under
every assignment is an equation between schematic graphs. Shapes differ between axes as far as the operators let them,
and between assignments in rank, stride, padding and groups, so that little holds by accident.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egraph_opt.ir import AttrValue

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """A variable: its role decides which operators take it; one shape per assignment."""

    name: str
    role: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Form:
    """An operator as it is enumerated: a pattern with ``_`` for operands, their roles, and the role of the result.

    ``commutes``: operands may be exchanged, so only one order is enumerated. ``variant``: at most one form with this
    mark occurs in a term of three operators (the choice of convolution variants would multiply otherwise).
    """

    text: str
    takes: tuple[str, ...]
    gives: str
    commutes: bool = False
    variant: str = ""


@dataclass(frozen=True)
class World:
    """Variables, attribute values per assignment, and operators.

    ``numbers`` are constants whose elements are all that number. ``templates`` are single terms of more operators
    than are enumerated. A world that stands ``after`` others takes their rules for known.
    ``seconds``: about how long it takes; what takes long is started first.
    ``semantics``: ``ring`` evaluates exactly, modulo a prime, with element-wise non-linear operators as arbitrary
    functions; ``real`` evaluates in float64 on signed inputs, for operators that order or divide.
    """

    name: str
    variables: tuple[Variable, ...]
    forms: tuple[Form, ...]
    attributes: dict[str, tuple[AttrValue, ...]] = field(default_factory=dict[str, tuple[AttrValue, ...]])
    semantics: Literal["ring", "real"] = "ring"
    operators: int = 3
    numbers: tuple[float, ...] = ()
    templates: tuple[str, ...] = ()
    after: tuple[str, ...] = ("algebra",)
    seconds: int = field(default=0, compare=False, repr=False)

    @property
    def assignments(self) -> int:
        return len(self.variables[0].shapes)


def _variables(role: str, names: str, *shapes: Shape) -> tuple[Variable, ...]:
    return tuple(Variable(name, role, shapes) for name in names.split())


_ELEMENTWISE = (
    Form("Add(_, _)", ("t", "t"), "t", commutes=True),
    Form("Mul(_, _)", ("t", "t"), "t", commutes=True),
)

ALGEBRA = World(
    "algebra",
    _variables("t", "x y z", (2, 3), (4, 1, 3)),
    (
        *_ELEMENTWISE,
        Form("Sub(_, _)", ("t", "t"), "t"),
        Form("Neg(_)", ("t",), "t"),
        Form("Relu(_)", ("t",), "t"),
        Form("Concat(_, _, axis=a)", ("t", "t"), "t"),
        Form("Transpose(_, perm=p)", ("t",), "t"),
    ),
    {"a": (1, 0), "p": ((1, 0), (2, 0, 1))},
    after=(),
    seconds=40,
)

UNITS = World(
    "units",
    _variables("t", "x y", (2, 3), (4, 1, 3)),
    (
        *_ELEMENTWISE,
        Form("Sub(_, _)", ("t", "t"), "t"),
        Form("Div(_, _)", ("t", "t"), "t"),
        Form("Neg(_)", ("t",), "t"),
        Form("Relu(_)", ("t",), "t"),
        Form("Max(_, _)", ("t", "t"), "t", commutes=True),
        Form("Min(_, _)", ("t", "t"), "t", commutes=True),
    ),
    semantics="real",
    operators=1,
    numbers=(0.0, 1.0),
    seconds=2,
)

_UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Exp", "Sqrt", "Abs", "Erf")
_BUNDLED = ("Clip", "LeakyRelu", "HardSigmoid", "Gelu")
_CALLS = (*(f"{op}({{}})" for op in _UNARY), *(f"{op}({{}}, **{op[0].lower()})" for op in _BUNDLED))
_JOINS = tuple(f"Concat({', '.join(f'{{{i}}}' for i in range(n))}, axis=a)" for n in (2, 3, 4))
_JOINED = tuple(
    text
    for call in _CALLS
    for join in _JOINS
    for text in (call.format(join.format(*"xyzu")), join.format(*(call.format(x) for x in "xyzu")))
)

UNARY = World(
    "unary",
    _variables("t", "x y z u", (2, 3), (4, 1, 3)),
    (
        *(Form(call.format("_"), ("t",), "t") for call in _CALLS),
        Form("Transpose(_, perm=p)", ("t",), "t"),
        Form("Reshape(_, shape=s)", ("t",), "t"),
    ),
    {
        "a": (1, 0), "p": ((1, 0), (2, 0, 1)), "s": ((3, 2, 1), (2, 6)),
        "c_min": (-1.0, 0.0), "c_max": (1.0, 6.0), "l_alpha": (0.25, 0.5),
        "h_alpha": (0.25, 0.5), "h_beta": (0.5, 0.25), "g_approximate": ("none", "tanh"),
    },
    operators=2,
    templates=_JOINED,
    seconds=25,
)  # fmt: skip

PARTS = World(
    "parts",
    (
        *_variables("t", "x y", (2, 3), (4, 1, 3)),
        *_variables("b", "w", (2, 6), (8, 1, 3)),
    ),
    (
        *(Form(f"Get(Split(_, axis=a, sizes=s), index={i})", ("b",), "t") for i in (0, 1)),
        Form("Concat(_, _, axis=a)", ("t", "t"), "b"),
        Form("Relu(_)", ("t",), "t"),
        Form("Relu(_)", ("b",), "b"),
        *_ELEMENTWISE,
        Form("Add(_, _)", ("b", "b"), "b", commutes=True),
    ),
    {"a": (1, 0), "s": ((3, 3), (4, 4))},
    seconds=15,
)

MATRIX = World(
    "matrix",
    _variables("t", "x y z u", (3, 3), (2, 3, 3)),
    (
        *_ELEMENTWISE,
        Form("MatMul(_, _)", ("t", "t"), "t"),
        Form("Transpose(_, perm=p)", ("t",), "t"),
        Form("Concat(_, _, axis=k)", ("t", "t"), "t"),
        Form("Concat(_, _, axis=r)", ("t", "t"), "t"),
        Form("Relu(_)", ("t",), "t"),
    ),
    {"p": ((1, 0), (0, 2, 1)), "k": (1, 2), "r": (0, 1)},
    seconds=50,
)

CONVOLUTION = World(
    "convolution",
    (
        *_variables("x", "x y", (2, 4, 5, 4), (1, 4, 6, 6)),
        *_variables("w", "w v", (4, 4, 3, 2), (4, 2, 3, 3)),
        *_variables("b", "b d", (4,), (4,)),
    ),
    (
        Form("Conv(_, _, **c)", ("x", "w"), "x", variant="conv"),
        Form("Conv(_, _, _, **c)", ("x", "w", "b"), "x", variant="conv"),
        Form("Add(_, _)", ("x", "x"), "x", commutes=True),
        Form("Add(_, _)", ("w", "w"), "w", commutes=True),
        Form("Add(_, _)", ("b", "b"), "b", commutes=True),
        Form("Relu(_)", ("x",), "x"),
        Form("Concat(_, _, axis=0)", ("x", "x"), "x"),
        Form("Concat(_, _, axis=1)", ("x", "x"), "x"),
        Form("Concat(_, _, axis=0)", ("w", "w"), "w"),
        Form("Concat(_, _, axis=1)", ("w", "w"), "w"),
        Form("Concat(_, _, axis=0)", ("b", "b"), "b"),
    ),
    {
        "c_strides": ((1, 1), (2, 1)),
        "c_pads": ((1, 1, 1, 0), (1, 1, 1, 1)),
        "c_dilations": ((1, 1), (1, 1)),
        "c_group": (1, 2),
    },
    seconds=55,
)

DENSE_CONVOLUTION = World(
    "dense-convolution",
    (
        *_variables("x", "x y", (2, 3, 5, 4), (1, 3, 6, 6)),
        *_variables("w", "w v", (3, 3, 3, 2), (3, 3, 1, 1)),
        *_variables("b", "b d", (3,), (3,)),
    ),
    (
        Form("Conv(_, _, **c)", ("x", "w"), "x", variant="conv"),
        Form("Conv(_, _, _, **c)", ("x", "w", "b"), "x", variant="conv"),
        Form("Concat(_, _, axis=0)", ("b", "b"), "b"),
        Form("Add(_, _)", ("x", "x"), "x", commutes=True),
        Form("Add(_, _)", ("w", "w"), "w", commutes=True),
        Form("Relu(_)", ("x",), "x"),
        Form("Concat(_, _, axis=0)", ("x", "x"), "x"),
        Form("Concat(_, _, axis=1)", ("x", "x"), "x"),
        Form("Concat(_, _, axis=0)", ("w", "w"), "w"),
        Form("Concat(_, _, axis=1)", ("w", "w"), "w"),
    ),
    {
        "c_strides": ((1, 1), (2, 1)),
        "c_pads": ((1, 1, 1, 0), (0, 0, 0, 0)),
        "c_dilations": ((1, 1), (1, 1)),
        "c_group": (1, 1),
    },
    operators=2,
    seconds=3,
)

POOLING = World(
    "pooling",
    _variables("x", "x y", (2, 3, 5, 4), (1, 2, 6, 6)),
    (
        Form("MaxPool(_, **m)", ("x",), "x", variant="pool"),
        Form("AveragePool(_, **q)", ("x",), "x", variant="pool"),
        Form("GlobalAveragePool(_)", ("x",), "x", variant="pool"),
        Form("Max(_, _)", ("x", "x"), "x", commutes=True),
        Form("Relu(_)", ("x",), "x"),
        Form("Add(_, _)", ("x", "x"), "x", commutes=True),
        Form("Neg(_)", ("x",), "x"),
        Form("Concat(_, _, axis=0)", ("x", "x"), "x"),
        Form("Concat(_, _, axis=1)", ("x", "x"), "x"),
    ),
    {
        "m_kernel": ((2, 3), (3, 3)),
        "m_strides": ((1, 1), (2, 2)),
        "m_pads": ((0, 1, 1, 1), (1, 1, 1, 1)),
        "m_dilations": ((1, 1), (1, 1)),
        "m_ceil_mode": (0, 0),
        "q_kernel": ((2, 3), (3, 3)),
        "q_strides": ((1, 1), (2, 2)),
        "q_pads": ((0, 1, 1, 1), (1, 1, 1, 1)),
        "q_dilations": ((1, 1), (1, 1)),
        "q_ceil_mode": (0, 0),
        "q_count_include_pad": (1, 0),
    },
    semantics="real",
    seconds=80,
)

WORLDS = (ALGEBRA, UNITS, UNARY, PARTS, MATRIX, CONVOLUTION, DENSE_CONVOLUTION, POOLING)
