"""Dispatches that write over what they were given, as text for IREE.

A dispatch is one kernel launch. IREE makes them itself and gives each result a buffer
of its own; one that is written down here may say that a result is tied to an operand.
"""

import re
from collections.abc import Sequence

from aotc.mlir import Operation, Type, ir

_TENSOR = "iree_tensor_ext.dispatch.tensor"


def in_place(op: Operation, kinds: Sequence[ir.RankedTensorType]) -> list[str]:
    """The body of a function of the operands of a linalg op, tied to its `outs`.

    Args:
        op: of static shapes; its operands are the arguments of a function of their own,
            in order. Its results are what the body returns.
        kinds: the types of the operands, where an input that is a number in the op may
            be a tensor: the op gets its first element.
    """
    taken_as = [value.type for value in op.operands]
    count = len(op.results)
    first = len(kinds) - count
    modes = ["readonly"] * first + ["readwrite"] * count
    views = [f"!{_TENSOR}<{m}:{kind}>" for m, kind in zip(modes, kinds, strict=True)]
    given = ", ".join(f"%{i}" for i in range(len(kinds)))
    tied = ", ".join(f"%{i}" for i in range(first, len(kinds)))
    taken = ", ".join(f"%t{i}: {view}" for i, view in enumerate(views))
    signature = f"({', '.join(map(str, kinds))}) -> ({tied})"
    return [
        f"%r:{count} = flow.dispatch.workgroups({given}) : {signature} = ({taken}) {{",
        *(
            f"%arg{i} = {_TENSOR}.load %t{i}, {_part(kind, wanted)} "
            f": {view} -> {wanted}"
            for i, (kind, wanted, view) in enumerate(
                zip(kinds, taken_as, views, strict=True)
            )
        ),
        *_op_text(op),
        *(
            f"{_TENSOR}.store %y#{i - first}, %t{i}, {_part(kinds[i], kinds[i])} "
            f": {kinds[i]} -> {views[i]}"
            for i in range(first, len(kinds))
        ),
        "flow.return",
        "} count() -> (index, index, index) {",
        f"%x, %y, %z = {_TENSOR.removesuffix('.tensor')}.workgroup_count_from_slice()",
        "flow.return %x, %y, %z : index, index, index",
        "}",
        f"return {', '.join(f'%r#{i}' for i in range(count))} "
        f": {', '.join(map(str, kinds[first:]))}",
    ]


def _part(kind: ir.RankedTensorType, wanted: Type) -> str:
    """All of a tensor, or its first element, as loads and stores say it."""
    zeros, ones = [0] * kind.rank, [1] * kind.rank
    sizes = list(kind.shape) if wanted == kind else ones
    return f"offsets = {zeros}, sizes = {sizes}, strides = {ones}"


def _op_text(op: Operation) -> list[str]:
    """The op as text that reads %arg0, … and computes %y#0, …; no other %0, %1, …."""
    text = op.operation.get_asm(
        use_local_scope=True, print_generic_op_form=True, assume_verified=True
    )
    _, computed = text.split(" = ", 1)
    renamed = re.sub(r"%(\d+)", r"%v\1", computed)
    return f"%y:{len(op.results)} = {renamed}".splitlines()
