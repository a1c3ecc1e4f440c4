"""The space of shapes and attributes that every axiom is tried on, written down.

``FULL`` is what ``egraph-opt axioms validate`` walks completely. An axis of a result may be longer than a size here
(two blocks of 4 make 8); operand sizes, kernels, strides, dilations and pads are these and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from egraph_opt.ir import AttrValue

Kernel = tuple[int, ...]


@dataclass(frozen=True)
class Space:
    """Names and values of everything that an enumeration may choose.

    Attributes:
        sizes: of every axis of an operand.
        ranks: of tensors whose operators accept any.
        kernels: per number of spatial axes.
        few: kernels where other choices multiply them: pools, which have flags, inputs that are padded apart, and
            blocks, where an axiom applies three or more convolutions or pools.
        carried: kernels of convolutions that an axiom only names, where both sides compute the same one.
        enlarged: kernels that a smaller one is padded to.
        strides, dilations: the same on every spatial axis.
        pads: names of patterns that ``pads`` spells out.
        groups: numbers of groups; 0 is as many as channels.
        batch: sizes of the batch axis of convolutions and pools. Where an axiom leaves that axis alone, the cases of
            all these sizes are stacked into one array of their sum and evaluated at once.
        joined: sizes of that axis where an axiom concatenates along it, which keeps its cases apart.
        sides: (begin, end) of Pad, on one axis, on all spatial axes or on all axes.
        scalars: attributes of activations, normalisations and products.
    """

    sizes: tuple[int, ...] = (1, 2, 3, 4)
    ranks: tuple[int, ...] = (0, 1, 2, 3, 4)
    kernels: tuple[Kernel, ...] = ((1,), (2,), (3,), (1, 1), (3, 3), (2, 3))
    few: tuple[Kernel, ...] = ((1,), (2,), (3,), (2, 3))
    carried: tuple[Kernel, ...] = ((1,), (2,), (3,))
    enlarged: tuple[Kernel, ...] = ((2,), (3,), (3, 3), (2, 3))
    strides: tuple[int, ...] = (1, 2)
    dilations: tuple[int, ...] = (1, 2)
    pads: tuple[str, ...] = ("none", "symmetric", "SAME_UPPER", "SAME_LOWER", "asymmetric", "more than half the kernel")
    groups: tuple[int, ...] = (1, 2, 0)
    batch: tuple[int, ...] = (1, 2, 3, 4)
    joined: tuple[int, ...] = (2, 3)
    sides: tuple[tuple[int, int], ...] = ((0, 0), (1, 1), (0, 1), (2, 0), (-1, 0))
    scalars: Mapping[str, tuple[tuple[AttrValue, ...], ...]] = field(
        default_factory=lambda: {
            "Clip": ((0.0, 6.0), (-1.0, 2.0), (None, 1.0), (-2.0, None)),
            "LeakyRelu": ((0.01,), (0.5,)),
            "Elu": ((1.0,), (0.5,)),
            "HardSigmoid": ((0.2, 0.5), (0.5, 0.25)),
            "Gelu": (("none",), ("tanh",)),
            "Gemm": ((1.0, 1.0), (2.0, 3.0)),
            "epsilon": ((1e-5,), (0.125,)),
            "Pad": (("constant", 0.0), ("constant", 2.0), ("edge", 0.0), ("reflect", 0.0)),
        }
    )

    def stacked(self) -> int:
        """Rows of the batch axis when its sizes are evaluated at once."""
        return sum(self.batch)


FULL = Space()
TINY = Space(
    sizes=(1, 2),
    kernels=((1,), (2,), (1, 1), (2, 1), (2, 2)),
    few=((1,), (2,), (2, 1), (2, 2)),
    dilations=(1,),
    batch=(1,),
    joined=(2,),
    ranks=(0, 1, 2, 3),
    sides=((0, 0), (1, 0), (0, 1), (-1, 0)),
)
"""For exact polynomials, which grow quickly."""


def pads(name: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The pads of a pattern on one axis."""
    reach = (kernel - 1) * dilation
    match name:
        case "none":
            return 0, 0
        case "symmetric":
            return (reach + 1) // 2, (reach + 1) // 2
        case "asymmetric":
            return min(reach, 1), min(reach, 2)
        case "more than half the kernel":
            return kernel // 2 + 1, kernel // 2 + 1
        case "SAME_UPPER" | "SAME_LOWER":
            total = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
            small, large = total // 2, total - total // 2
            return (small, large) if name == "SAME_UPPER" else (large, small)
        case _:
            raise KeyError(name)
