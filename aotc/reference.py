"""Evaluates graph functions op by op in NumPy: the meaning that compilation must keep.

Every pass on graph IR is proven by evaluating before and after, every lowering by
comparing the compiled result with this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.graph import evaluate as evaluate_op
from aotc.dialects.types import Dim, Tensor, evaluate_size
from aotc.errors import InputError
from aotc.mlir import func, ir
from aotc.passes.inline import functions_of


def evaluate(module: Any, name: str, inputs: Sequence[Any]) -> list[Any]:
    """The results of function `name` of a graph module.

    Args:
        module: MLIR module whose functions hold graph ops and calls.
        name: of the function.
        inputs: one array per argument, of its dtype and a shape that its type allows.

    Raises:
        InputError: an input does not fit its type.
    """
    functions = functions_of(module)
    arrays = [np.asarray(array) for array in inputs]
    with module.context, np.errstate(all="ignore"):
        return _call(functions[name], arrays, functions)


def _call(function: Any, arrays: list[Any], functions: dict[str, Any]) -> list[Any]:
    block = function.entry_block
    types = [Tensor.of(value) for value in block.arguments]
    symbols = bind_symbols(types, arrays)
    values = dict(zip(block.arguments, arrays, strict=True))
    for op in block.operations:
        operands = [values[value] for value in op.operands]
        if isinstance(op, func.ReturnOp):
            return operands
        if isinstance(op, func.CallOp):
            callee = functions[ir.FlatSymbolRefAttr(op.callee).value]
            results = _call(callee, operands, functions)
        else:
            results = evaluate_op(op, operands, symbols)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a function ends in a return")


def bind_symbols(types: Sequence[Tensor], arrays: Sequence[Any]) -> list[int]:
    """The value of each symbol, read from the sizes of `arrays`.

    Raises:
        InputError: a dtype, rank or size is not what the type says.
    """
    bound: dict[int, int] = {}
    for tensor, array in zip(types, arrays, strict=True):
        if dtypes.canonical(array.dtype) != tensor.dtype or array.ndim != tensor.rank:
            raise _misfit(tensor, array)
        for size, actual in zip(tensor.shape, array.shape, strict=True):
            if isinstance(size, Dim) and isinstance(size.expr, ir.AffineSymbolExpr):
                bound.setdefault(size.expr.position, actual)
    symbols = [bound.get(number, 0) for number in range(max(bound, default=-1) + 1)]
    for tensor, array in zip(types, arrays, strict=True):
        if tuple(evaluate_size(size, symbols) for size in tensor.shape) != array.shape:
            raise _misfit(tensor, array)
    return symbols


def _misfit(tensor: Tensor, array: Any) -> InputError:
    got = f"{dtypes.canonical(array.dtype)}{list(array.shape)}"
    return InputError(
        "input-mismatch", f"expected an array of type {tensor}; got {got}"
    )
