"""``Resize`` and ``Upsample``: not computed here, but their sizes are known where they are multiples."""

from __future__ import annotations

import numpy as np

from egraph_opt.ir import Size, TensorType
from egraph_opt.ops.base import Operator
from egraph_opt.ops.kinds import Unsupported
from egraph_opt.ops.source import Source


class ResizeImporter(Operator):
    """Stays opaque, with a type."""

    name = "Resize"
    onnx_names = ("Resize", "Upsample")

    def from_onnx(self, source: Source) -> int:
        raise Unsupported(f"{source.op_type} is not in the operator table", _type(source))


def _type(source: Source) -> TensorType | None:
    x = source.type(0)
    if source.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None  # its region of interest decides
    axes = source.ints_attr("axes") or tuple(range(x.rank))
    try:
        sizes = _sizes(source, x, axes)
    except Unsupported:
        return None
    if len(sizes) != len(axes):
        return None
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[source.axis(axis, x.rank)] = size
    return TensorType(x.dtype, tuple(shape))


def _sizes(source: Source, x: TensorType, axes: tuple[int, ...]) -> tuple[Size, ...]:
    """The new sizes of ``axes``; Unsupported where a run decides."""
    if source.has(3):
        if source.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Unsupported("the aspect ratio decides")
        return source.sizes(3, "the sizes")
    scales = source.array(2 if source.opset >= 11 else 1)
    if scales is None or scales.size != len(axes):
        raise Unsupported("the scales are computed while the model runs")
    return tuple(
        _scaled(x.shape[axis], np.float32(scale)) for axis, scale in zip(axes, scales.reshape(-1), strict=True)
    )


def _scaled(size: Size, scale: np.float32) -> Size:
    if scale == int(scale):
        return size * int(scale)
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * scale))
    raise Unsupported("a size that is not known is scaled by a fraction")


OPERATORS = ()
IMPORTERS = (ResizeImporter(),)
