"""Table of ops known not to compile: op × dtype × kind of target, from `limits.json`.

The table is measured, not written by hand: `benchmarks/op_targets.py --write` compiles
the cases of all ops for a target and notes the dtypes of which none compiles, with
IREE's reason. A build looks here before IREE does.

`of` names a use of an op by dtypes: `f16`, or `f16->i32` where the result has another.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.machine.target import Target
from aotc.mlir import Function, Module, Operation, ir

FILE = Path(__file__).with_name("limits.json")

# family of targets → op → dtypes → reason
Table = dict[str, dict[str, dict[str, str]]]


@cache
def table() -> Table:
    """Return the table of ops that do not compile, of all families of targets."""
    found: Table = json.loads(FILE.read_text(encoding="utf-8"))["families"]
    return found


def of(operands: Sequence[Tensor], results: Sequence[Tensor]) -> str:
    """Return the key of a use of an op in the table: its dtypes, such as `f16->i32`."""
    found = [tensor.dtype for tensor in operands or results]
    main = next((dtype for dtype in found if dtype != "bool"), "bool")
    result = results[0].dtype if results else main
    return main if result == main else f"{main}->{result}"


@cache  # every op asks
def limits_of(name: str) -> dict[str, dict[str, str]]:
    """Return the dtypes of op `name` that do not compile, and why, by target family."""
    return {family: ops[name] for family, ops in table().items() if name in ops}


def is_limited(op: type[GraphOp], dtypes: str, target: Target) -> bool:
    """Return whether a target cannot compile an op of these dtypes (a key of `of`)."""
    known = limits_of(op._op_name).get(target.family, {})
    return dtypes in known


def require_supported(module: Module, targets: Sequence[Target]) -> None:
    """Raise CompileError for an op that one of the targets cannot compile.

    Args:
        module: graph IR.
        targets: what it is about to be compiled for.

    Raises:
        CompileError: `not-on-target`; names op, dtype, target and the user's line.
    """
    for _, refusal in refusals(module, targets):
        raise refusal


def refusals(
    module: Module, targets: Sequence[Target]
) -> Iterator[tuple[str, CompileError]]:
    """Yield the name and the error of each op that a target cannot compile."""
    for op in graph_ops(module):
        for target in targets:
            refusal = _refusal(op, target)
            if refusal is not None:
                yield f"graph.{type(op)._op_name}", refusal


def graph_ops(root: Module | Function) -> list[GraphOp]:
    """Return the graph ops of a module or function, those in its regions included."""
    found: list[Any] = []

    def visit(operation: Operation) -> ir.WalkResult:
        if isinstance(operation.opview, GraphOp):
            found.append(operation.opview)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit)
    return found


def _refusal(op: GraphOp, target: Target) -> CompileError | None:
    """Return the error for an op that a target cannot compile; None if it can."""
    name = type(op)._op_name
    measured, reason = limits_of(name).get(target.family), type(op).limit(op, target)
    if not (measured or reason):  # most often
        return None
    dtypes = of(list(map(Tensor.of, op.operands)), list(map(Tensor.of, op.results)))
    reason = reason or (measured or {}).get(dtypes)
    if not reason:
        return None
    return CompileError(
        "not-on-target",
        f"graph.{name} on {dtypes} cannot be compiled for '{target}': {reason}",
        where=where_of(op),
        hint="`aotc ops` shows the dtypes that ops do not have on a target"
        if measured
        else "leave this target out, and build for others (`aotc targets`)",
    )
