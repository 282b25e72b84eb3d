"""What static tools know of `aotc.mlir.tensor`: its functions make one value each."""

from collections.abc import Callable, Sequence

from aotc.mlir.ir import OpView, Type, Value

class EmptyOp(OpView):
    """A tensor without defined elements."""

    def __init__(self, sizes: Sequence[int | Value], element_type: Type) -> None: ...

class PadOp(OpView):
    """A tensor with more elements around it, which its body gives."""

    def __init__(self, *parts: object) -> None: ...

class YieldOp(OpView):
    """The end of a body."""

    def __init__(self, value: Value) -> None: ...

def __getattr__(name: str) -> Callable[..., Value]: ...
