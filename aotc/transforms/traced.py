"""Functions traced on their arguments, for all transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.core import dtypes
from aotc.core.pytree import Structure
from aotc.dialects.functions.functions import call
from aotc.dialects.functions.transform import Derived, derive
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.bodies import AdaptResult, Body, function_name, trace_bodies
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail, location
from aotc.tracing.tracing import Trace, current_trace
from aotc.transforms.executed import Executed


class TracedFunction:
    """A function traced to IR on its arguments, and calls of its transformations.

    Args:
        transformation: what messages call it.
        function: of pytrees of arrays.
        leaves: of its arguments.
        structure: the form of (args, kwargs).
        adapt_result: of the function and what it returned; gives what counts as such.
        stacked: numbers of the leaves of which the function gets one element, along
            the leading axis.
    """

    def __init__(
        self,
        transformation: str,
        function: Callable[..., object],
        leaves: Sequence[object],
        structure: Structure,
        adapt_result: AdaptResult = lambda _, result: result,
        stacked: Sequence[int] = (),
    ) -> None:
        trace = _require_trace(f"{transformation}({function_name(function)})")
        self.structure = structure
        self.arrays = [lift(leaf) for leaf in leaves]
        types = [
            array.type.with_shape(array.type.shape[number in stacked :])
            for number, array in enumerate(self.arrays)
        ]
        bodies, captures = trace_bodies(
            trace, [function], types, structure, adapt_result
        )
        self.body: Body = bodies[0]
        self._captures = [Array(value=value, trace=trace) for value in captures]

    def results(self) -> Any:
        """Return the function's own results."""
        return self.body.tree.unflatten(self._call(self.body.name, []))

    def apply(
        self, derived: Derived, more: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Emit a call of a transformed function; return the body's outputs and added
        ones.

        It is called where tracing is now, which may be in a function nested in the one
        that the arguments are of.
        """
        trace = _require_trace("what a transformation returned")
        with location(), ir.InsertionPoint(trace.block):
            name = derive(derived)
        results = self._call(name, more)
        count = len(self.body.outputs)
        return results[:count], results[count:]

    def _call(self, name: str, more: Sequence[Array]) -> list[Array]:
        """Emit a call of a function with all arguments; return its results."""
        trace = _require_trace("what a transformation returned")
        operands = [
            trace.value_of(array) for array in (*self.arrays, *self._captures, *more)
        ]
        with location(), ir.InsertionPoint(trace.block):
            values = call(name, operands)
        return [Array(value=value, trace=trace) for value in values]


def _require_trace(what: str) -> Trace:
    """Return the current trace; raise if there is none."""
    trace = current_trace()
    if trace is None:
        fail(
            "leaked-function",
            f"{what} was made of a function that was traced, and is called where "
            "nothing is traced",
            "call it in the entry that it was made in",
        )
    return trace


def traced_or_executed(
    transformation: str,
    function: Callable[..., object],
    leaves: Sequence[object],
    structure: Structure,
    adapt_result: AdaptResult = lambda _, result: result,
) -> TracedFunction | Executed:
    """Trace a function on its arguments within a trace, else execute it.

    Args:
        transformation: what messages call it.
        function: of pytrees of arrays.
        leaves: of its arguments.
        structure: the form of (args, kwargs).
        adapt_result: of the function and what it returned; gives what counts as such.
    """
    if current_trace() is None:
        return Executed(function, leaves, structure, adapt_result)
    return TracedFunction(transformation, function, leaves, structure, adapt_result)


Function = TracedFunction | Executed


def is_float(array: Array) -> bool:
    """Return whether an array has a float dtype, and so may have a derivative."""
    return dtypes.is_float(array.dtype)
