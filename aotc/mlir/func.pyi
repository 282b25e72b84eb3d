"""What static tools know of `aotc.mlir.func`."""

from collections.abc import Sequence
from typing import Any

from aotc.mlir.ir import Block, FlatSymbolRefAttr, OpView, Value

class FuncOp(OpView):
    """A function; external if it has no body."""

    def __init__(self, *parts: object, **options: object) -> None: ...
    def add_entry_block(self) -> Block: ...
    @property
    def entry_block(self) -> Block: ...
    @property
    def arguments(self) -> Sequence[Value]: ...
    @property
    def is_external(self) -> bool: ...
    @property
    def type(self) -> Any: ...

class CallOp(OpView):
    """A call of a function by its name."""

    def __init__(self, *parts: object, **options: object) -> None: ...
    @property
    def callee(self) -> FlatSymbolRefAttr: ...

class ReturnOp(OpView):
    """The end of a function."""

    def __init__(self, *parts: object, **options: object) -> None: ...
