"""What static tools know of `aotc.mlir.linalg`: other functions make one value each."""

from collections.abc import Callable, Sequence
from typing import Any

from aotc.mlir.ir import ArrayAttr, IntegerAttr, OpView, Type, Value

TypeFn: Any

class GenericOp(OpView):
    """One loop nest: maps of its operands, kinds of its loops, and a body."""

    def __init__(
        self,
        result_tensors: Sequence[Type],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        indexing_maps: ArrayAttr,
        iterator_types: ArrayAttr,
    ) -> None: ...
    @property
    def inputs(self) -> Sequence[Value]: ...
    @property
    def outputs(self) -> Sequence[Value]: ...
    @property
    def indexing_maps(self) -> ArrayAttr: ...

class FillOp(OpView):
    """A tensor of one number."""

    def __init__(
        self,
        result_tensors: Sequence[Type],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
    ) -> None: ...

class IndexOp(OpView):
    """The position along a loop."""

    def __init__(self, dim: IntegerAttr) -> None: ...

class SoftmaxOp(OpView):
    """A softmax along an axis."""

    def __init__(self, *parts: object) -> None: ...

class YieldOp(OpView):
    """The end of a body."""

    def __init__(self, values: Sequence[Value]) -> None: ...

def broadcast(
    input: Value, *, outs: list[Value], dimensions: Sequence[int]
) -> OpView: ...
def transpose(
    input: Value, *, outs: list[Value], permutation: Sequence[int]
) -> OpView: ...
def __getattr__(name: str) -> Callable[..., Value]: ...
