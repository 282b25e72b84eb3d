"""Ops that do more than compute a value: they are kept, once each, in their order.

What they are applied to is differentiated as if they were not there. An effect in a
branch or a loop happens when, and as often as, its body runs. Prints keep their order,
and so do assertions; of a print and an assertion in one step of a loop, IREE may put
the print first. States are written after all assertions of a call.
"""

from typing import Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.core import printing
from aotc.dialects import iree_text
from aotc.dialects.attributes import Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent, where_of
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering, ordering
from aotc.dialects.rules.batching import leading
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.samples import OpSample, boolean, f32, i32
from aotc.dialects.sizes.intervals import bounds
from aotc.dialects.types import Size, Tensor
from aotc.errors import InputError
from aotc.mlir import Value, arith, cf, ir


class Effect(GraphOp):
    """Base of ops with one operand and a side effect, without a result."""

    @classmethod
    def infer(cls, x: Tensor, **_: object) -> tuple[Tensor, ...]:
        """Return no result types, as there are no results."""
        require_dtype(x, cls.dtypes)
        return ()

    @staticmethod
    def jvp(b: Builder, op: "Effect", dx: Value) -> tuple[Value, ...]:
        """Return no tangents, as there are no results."""
        return ()

    @staticmethod
    def vjp(b: Builder, op: "Effect") -> list[Tangent]:
        """Return no cotangent, as there are no results."""
        return [None]

    batch = leading()


class Assert(Effect, name="assert"):
    """y = (); the call fails with `message` unless all of `condition` hold."""

    why = "an effect: a run ends with the model's message"

    condition: Operand[Any]
    message: Str
    dtypes = ("bool",)

    @staticmethod
    def ref(condition: np.ndarray, *, message: str) -> tuple[np.ndarray, ...]:
        """Raise the error with `message` if an element of the condition is false."""
        if not np.all(condition):
            raise InputError("assertion-failed", message)
        return ()

    @staticmethod
    def lower(low: Lowering, op: "Assert", condition: Value) -> tuple[Value, ...]:
        """Emit a `cf.assert` of the conjunction, whose text has the source line."""
        whole = Tensor((), "bool")
        axes = range(Tensor.of(op.condition).rank)
        if axes:
            condition = low.reduce(condition, whole, axes, True, arith.andi)
        text = printing.assertion(op.message, where_of(op))
        cf.AssertOp(low.extract(condition, []), text)
        return ()

    samples = [
        OpSample((np.array(True),), {"message": "x is positive"}),
        OpSample(
            (np.ones((2, 3), bool),), {"message": 'a "quoted" reason; two\nlines'}
        ),
        OpSample((boolean("n", 0),), {"message": "nothing fails"}),
    ]


class Print(Effect, name="print"):
    """y = (); writes `format`, with x in the place of its `{}`, to standard error.

    A batched print writes all values at once.
    """

    why = "an effect: values are shown while the model runs"

    x: Operand[Any]
    format: Str
    dtypes = dt.NAMES

    @staticmethod
    def ref(x: np.ndarray, *, format: str) -> tuple[np.ndarray, ...]:
        """Write the formatted text to standard error."""
        printing.show(format, x)
        return ()

    @staticmethod
    def lower(low: Lowering, op: "Print", x: Value) -> tuple[Value, ...]:
        """Emit a trace: IREE hands the tensor to the loader, which prints it."""
        key = ir.StringAttr.get(printing.key(op.format, Tensor.of(op.x).dtype))
        iree_text.call("print", [x], [], bodies.trace(key, x.type))
        return ()

    samples = [
        OpSample((f32(),), {"format": "loss = {:.3f}\n"}),
        OpSample((i32("n", 2),), {"format": "{}\n"}),
        OpSample((boolean(3),), {"format": "100 {{%}} {} in the middle\n"}),
    ]


class Barrier(GraphOp, name="barrier"):
    """y = x, kept apart: what is computed from y is not merged with the same from x."""

    why = "an effect on passes: nothing is merged across it"

    x: Operand[Any]
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        """Return the result type, that of the operand."""
        return x

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        """Return the operand unchanged."""
        return x

    @staticmethod
    def jvp(b: Builder, op: "Barrier", dx: Value) -> Value:
        """Return the tangent behind a barrier of its own."""
        return b.barrier(dx)

    @staticmethod
    def vjp(b: Builder, op: "Barrier", dy: Value) -> list[Tangent]:
        """Return the cotangent behind a barrier of its own."""
        return [b.barrier(dy)]

    batch = leading()

    @staticmethod
    def lower(low: Lowering, op: "Barrier", x: Value) -> Value:
        """Emit IREE's optimization barrier."""
        return iree_text.optimization_barrier(x)

    samples = [OpSample((f32(2, 3),)), OpSample((f32("n", 4),)), OpSample((i32(),))]


class After(GraphOp, name="after", traits=[Pure]):
    """y = x, read only once `event` is known; not merged with x either.

    What is computed from y is computed late, and again if it was computed from x.
    """

    why = "an order that no data flow says; memory is planned with it"

    x: Operand[Any]
    event: Operand[Any]
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, event: Tensor) -> Tensor:
        """Return the result type, that of the first operand."""
        return x

    @staticmethod
    def ref(x: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Return the first operand unchanged."""
        return x

    @staticmethod
    def jvp(b: Builder, op: "After", dx: Tangent, _: Tangent) -> Tangent:
        """Return the tangent of x, in which the op is linear."""
        return None if dx is None else b.after(dx, op.event)

    @staticmethod
    def vjp(b: Builder, op: "After", dy: Value) -> list[Tangent]:
        """Return dy as the cotangent of x, in which the op is linear."""
        return [dy, None]

    batch = leading()

    @staticmethod
    def lower(low: Lowering, op: "After", x: Value, event: Value) -> Value:
        """Emit a data dependence on `event`; a barrier if it may have no elements."""
        kind = Tensor.of(op.event)
        if kind.dtype == "bool" or not all(map(_is_positive, kind.shape)):
            return iree_text.optimization_barrier(x)
        return ordering.after(x, event)

    samples = [
        OpSample((f32(2, 3), f32(4))),
        OpSample((f32("n", 4), i32("n", 2))),
        OpSample((boolean(3), f32())),
        OpSample((i32(2), f32(2, 0))),
    ]


def _is_positive(size: Size) -> bool:
    """Return whether a size is provably positive."""
    return (size if isinstance(size, int) else bounds(size.expr)[0]) > 0
