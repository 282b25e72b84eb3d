"""Loops that carry numbers alone, as one loop of the machine inside one dispatch.

A step of a loop costs IREE a submission of work, some microseconds, whatever it
computes. Where all that a loop carries and computes are numbers (tensors of rank 0), it
becomes a loop of scalars within the body of one op instead.
"""

from collections.abc import Callable, Sequence

import numpy as np

from aotc.dialects import iree_text
from aotc.dialects.functions import functions
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.scalars import Body
from aotc.dialects.types import Tensor, lowered_element
from aotc.mlir import AffineMap, Operation, Type, Value, func, ir, linalg


class ScalarLowering(Lowering):
    """Lowers ops on tensors of rank 0 to scalar ops: a lowered value is the element."""

    def generic(
        self,
        inputs: Sequence[Value],
        maps: Sequence[AffineMap],
        init: Value,
        iterators: Sequence[str],
        body: Body,
    ) -> Value:
        """Emit the body on the elements; there are no loops over axes."""
        assert not iterators
        return body(*inputs, init)

    def empty(self, of: Tensor) -> Value:
        """Emit an arbitrary element, 0."""
        return self.scalar(of.dtype, 0)

    def full(self, of: Tensor, value: Value | float) -> Value:
        """Return the value as an element; emit a constant for a number."""
        return value if isinstance(value, Value) else self.scalar(of.dtype, value)

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        """Emit a scalar constant of element type `dtype`."""
        return self.scalar(dtype, np.asarray(array).item())

    def reshape(self, source: Value, old: Tensor, new: Tensor) -> Value:
        """Return the element unchanged."""
        return source

    def number(self, x: Value) -> Value:
        """Return the element unchanged."""
        return x

    def from_number(self, element: Value) -> Value:
        """Return the element unchanged."""
        return element

    def lowered_type(self, kind: Tensor) -> Type:
        """Return the MLIR element type."""
        return lowered_element(kind.dtype)


def has_numbers_only(name: str) -> bool:
    """Return whether a function has scalar values only, and ops that lower to them.

    Each op then has a body on scalars; those with effects do not count.
    """
    block = functions.find(name).entry_block
    *ops, _ = block.operations
    values = [*block.arguments, *(value for op in ops for value in op.results)]
    return all(Tensor.of(value).rank == 0 for value in values) and all(
        type(op).on_scalars if isinstance(op, GraphOp) else _calls_numbers(op)
        for op in ops
    )


def _calls_numbers(call: Operation) -> bool:
    """Return whether a call runs control flow over functions of scalars only."""
    assert isinstance(call, func.CallOp)  # what else stands in a function
    run = functions.run_by_control(functions.find(functions.callee_of(call)))
    return run is not None and all(map(has_numbers_only, run))


def in_one_dispatch(
    low: Lowering,
    numbers: Sequence[Value],
    kinds: Sequence[Tensor],
    body: Callable[..., Sequence[Value]],
) -> list[Value]:
    """Emit a scalar body over tensors of rank 0 as one dispatch; return its results.

    They stand behind a barrier: an op that reads one of them for each of its elements
    would otherwise take the loop into its own body, and run it for each.

    Args:
        low: what lowers the tensors; within a loop of numbers they are scalars.
        numbers: the tensors.
        kinds: types of the results, of rank 0.
        body: gets the elements and returns those of the results.
    """
    if isinstance(low, ScalarLowering):
        return list(body(*numbers))
    inits = [low.empty(kind) for kind in kinds]
    maps = [ir.AffineMap.get(0, 0, [])] * (len(numbers) + len(inits))
    op = linalg.GenericOp(
        [init.type for init in inits],
        list(numbers),
        inits,
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get([]),
    )
    elements = [value.type.element_type for value in numbers]
    elements += [lowered_element(kind.dtype) for kind in kinds]
    block = op.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp(list(body(*list(block.arguments)[: len(numbers)])))
    return [iree_text.optimization_barrier(result) for result in op.results]
