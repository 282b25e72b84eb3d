"""What static tools know of `aotc.mlir.affine`."""

from collections.abc import Sequence

from aotc.mlir.ir import AffineMap, OpView, Value

class AffineApplyOp(OpView):
    """The value of an affine map of index values."""

    def __init__(self, map: AffineMap, mapOperands: Sequence[Value]) -> None: ...  # noqa: N803
