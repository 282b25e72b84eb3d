"""Search for the op with a wrong derivative rule, checking each one alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from aotc import reference
from aotc.checks.certificate.check import Arrays, DerivativeCheck
from aotc.checks.certificate.modules import modes_of
from aotc.core import dtypes
from aotc.dialects.functions.functions import (
    SYMBOLS,
    callee_of,
    copy_module,
    functions_of,
)
from aotc.dialects.functions.walking import clone
from aotc.dialects.graph import where_of
from aotc.dialects.types import Tensor
from aotc.mlir import Module, Operation, Value, func, ir
from aotc.passes import run_passes

WORST = 1e-4  # of either test: an op may meet large values


def wrong_op(
    graph: Module, check: DerivativeCheck, x: Arrays, rng: np.random.Generator
) -> tuple[str, str | None] | None:
    """Find the first op whose derivative rules disagree; return its name and source
    line, or None.

    Ops of loops and branches are checked where they first run, and come before them.

    Args:
        graph: the module of the checks, with all derivatives written.
        check: the one that failed.
        x: the arguments at which it did.
        rng: of the directions.
    """
    met: dict[Any, Arrays] = {}

    def note(op: Operation, operands: Arrays, _: Arrays) -> None:
        met.setdefault(op, operands)

    with graph.context, np.errstate(all="ignore"):
        known = functions_of(graph)
        reference.Evaluation(known, check.symbols, note).call(check.of, x)
    for op, operands in met.items():
        if _is_wrong(graph, check, op, operands, rng):
            return _title(op), where_of(op)
    return None


def _is_wrong(
    graph: Module,
    check: DerivativeCheck,
    op: Operation,
    operands: Arrays,
    rng: np.random.Generator,
) -> bool:
    """Return whether the derivative of one op fails the check on these operands."""
    wrt = tuple(i for i, x in enumerate(op.operands) if _is_float(x))
    smooth = any(map(_is_float, op.results)) and not getattr(op, "is_constant", False)
    if not wrt or not smooth or not all(map(_is_finite, operands)):
        return False
    module = _module_of_op(graph, check, op)
    modes = modes_of(module, "op")
    alone = DerivativeCheck.declare(module, "check", "op", wrt, modes, check.symbols)
    run_passes(module, ("autodiff", "inline"))
    run = partial(reference.evaluate, module, "check")
    first = alone.evaluate(run, operands, rng)
    dot_product, difference = alone.measure(run, first, rng)
    return not max(dot_product or 0.0, difference) <= WORST


def _module_of_op(graph: Module, check: DerivativeCheck, op: Operation) -> Module:
    """Build a module whose function `op` is a copy of the given op."""
    is_call = isinstance(op, func.CallOp)
    module = copy_module(graph) if is_call else ir.Module.create()
    primal = functions_of(graph)[check.of]
    types = [[value.type for value in side] for side in (op.operands, op.results)]
    with ir.InsertionPoint(module.body), op.location:
        function = func.FuncOp("op", tuple(types), visibility="private")
    if SYMBOLS in primal.attributes:
        function.attributes[SYMBOLS] = primal.attributes[SYMBOLS]
    block = function.add_entry_block()
    with ir.InsertionPoint(block), op.location:
        func.ReturnOp(clone(op, list(block.arguments)))
    return module


def _title(op: Any) -> str:
    """Return `graph.sin` for an op, or the name of a called function in quotes."""
    if isinstance(op, func.CallOp):
        return f"'{callee_of(op)}'"
    return f"graph.{type(op)._op_name}"


def _is_float(value: Value) -> bool:
    return dtypes.is_float(Tensor.of(value).dtype)


def _is_finite(array: np.ndarray) -> bool:
    return bool(array.dtype.kind != "f" or np.isfinite(array).all())
