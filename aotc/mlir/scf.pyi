"""What static tools know of `aotc.mlir.scf`."""

from collections.abc import Sequence

from aotc.mlir.ir import Block, OpView, Region, Type, Value

class ConditionOp(OpView):
    """The end of what a while loop asks."""

    def __init__(self, condition: Value, args: Sequence[Value]) -> None: ...

class ForOp(OpView):
    """A counted loop."""

    OPERATION_NAME: str
    def __init__(self, *parts: object) -> None: ...
    @property
    def body(self) -> Block: ...
    @property
    def induction_variable(self) -> Value: ...
    @property
    def inner_iter_args(self) -> Sequence[Value]: ...

class IfOp(OpView):
    """A choice of two blocks."""

    OPERATION_NAME: str
    def __init__(self, *parts: object, **options: object) -> None: ...
    @property
    def then_block(self) -> Block: ...
    @property
    def else_block(self) -> Block: ...

class WhileOp(OpView):
    """A loop: `before` asks whether `after`, its body, is run."""

    OPERATION_NAME: str
    def __init__(self, results: Sequence[Type], inits: Sequence[Value]) -> None: ...
    @property
    def before(self) -> Region: ...
    @property
    def after(self) -> Region: ...

class YieldOp(OpView):
    """The end of a body."""

    def __init__(self, results: Sequence[Value]) -> None: ...
