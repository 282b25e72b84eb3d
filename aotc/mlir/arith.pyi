"""What static tools know of `aotc.mlir.arith`: its functions make one value each."""

from collections.abc import Callable
from typing import Any

from aotc.mlir.ir import Attribute, OpView, Type, Value

CmpFPredicate: Any
CmpIPredicate: Any

class ConstantOp(OpView):
    """A number, or a tensor of numbers."""

    def __init__(self, result: Type, value: Attribute | float) -> None: ...

def __getattr__(name: str) -> Callable[..., Value]: ...
