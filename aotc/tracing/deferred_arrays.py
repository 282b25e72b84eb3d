"""Arrays that functions of arrays compute when they are asked for."""

from __future__ import annotations

from collections.abc import Callable

from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor
from aotc.mlir import ir
from aotc.programs.computed_arrays import ComputedArray, StoredArray
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.tracing import Trace


def compute_when_read(
    function: Callable[..., Array], *arrays: StoredArray
) -> StoredArray:
    """Return an array that is computed by `function` from others each time it is read.

    Args:
        function: of arrays, which is traced.
        arrays: its arguments, such as views of a mapped file.
    """
    types = [Tensor(x.shape, dtypes.canonical_dtype(x.dtype)) for x in arrays]
    with context(), ir.Location.unknown():
        module = ir.Module.create()
    trace = Trace(module, "computed", types, ())
    with trace.active():
        value = trace.value_of(lift(function(*trace.arguments)))
    given = dict(zip(trace.block.arguments, arrays, strict=True))
    if value in given:
        return given[value]
    needed = set(backward_slice([value]))
    ops = [
        op
        for op in trace.block.operations
        if isinstance(op, GraphOp) and needed.intersection(op.results)
    ]
    return ComputedArray(ops, value, given)
