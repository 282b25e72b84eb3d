"""Dispatches that write over their operands, as text for IREE.

A dispatch is one kernel launch. IREE makes them itself and gives each result a buffer
of its own; one that is written down here may say that a result is tied to an operand.
"""

import re
from collections.abc import Sequence

from aotc.mlir import Operation, Type, ir

_TENSOR = "iree_tensor_ext.dispatch.tensor"


def in_place(op: Operation, kinds: Sequence[ir.RankedTensorType]) -> list[str]:
    """Return a text body that dispatches a linalg op in place, over its `outs`.

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


def window_in_place(kinds: Sequence[ir.RankedTensorType], is_signed: bool) -> list[str]:
    """Return a text body that writes a window into a tensor in place.

    IREE cuts the window up into tiles, one for each workgroup, so it is the one to say
    how many these are.

    Args:
        kinds: of the tensor, which the result is tied to; of the window; and of the
            vector of integers that says where it starts on each axis. It is moved to
            fit.
        is_signed: whether these have a sign.
    """
    whole, part, starts = kinds
    modes = ("readwrite", "readonly", "readonly")
    views = [f"!{_TENSOR}<{m}:{kind}>" for m, kind in zip(modes, kinds, strict=True)]
    taken = ", ".join(f"%t{i}: {view}" for i, view in enumerate(views))
    given = f"({', '.join(map(str, kinds))}) -> %0"
    offsets, lines = [], []
    for axis, (have, size) in enumerate(zip(whole.shape, part.shape, strict=True)):
        offsets.append(f"%at{axis}" if have > size else "0")
        if have > size:
            lines += _start_lines(axis, have - size, starts, is_signed)
    place = f"offsets = [{', '.join(offsets)}], sizes = {list(part.shape)}"
    return [
        f"%r = flow.dispatch.workgroups(%0, %1, %2) : {given} = ({taken}) {{",
        f"%starts = {_TENSOR}.load %t2, {_part(starts, starts)} "
        f": {views[2]} -> {starts}",
        f"%window = {_TENSOR}.load %t1, {_part(part, part)} : {views[1]} -> {part}",
        *lines,
        f"{_TENSOR}.store %window, %t0, {place}, strides = {[1] * part.rank} "
        f": {part} -> {views[0]}",
        "flow.return",
        "} count() -> (index, index, index) {",
        f"%x, %y, %z = {_TENSOR.removesuffix('.tensor')}.workgroup_count_from_slice()",
        "flow.return %x, %y, %z : index, index, index",
        "}",
        f"return %r : {whole}",
    ]


def _start_lines(
    axis: int, last: int, starts: ir.RankedTensorType, is_signed: bool
) -> list[str]:
    """Return lines that clamp a window's start on `axis` to 0 … last, as %at…"""
    kind, sign = starts.element_type, "s" if is_signed else "u"
    found, wide = f"%start{axis}", f"%wide{axis}"
    lines = [
        f"%axis{axis} = arith.constant {axis} : index",
        f"{found} = tensor.extract %starts[%axis{axis}] : {starts}",
    ]
    if kind.width < 64:
        lines.append(f"{wide} = arith.ext{sign}i {found} : {kind} to i64")
    else:
        wide = found
    return [
        *lines,
        f"%first{axis} = arith.constant 0 : i64",
        f"%last{axis} = arith.constant {last} : i64",
        f"%low{axis} = arith.max{sign}i {wide}, %first{axis} : i64",
        f"%near{axis} = arith.min{sign}i %low{axis}, %last{axis} : i64",
        f"%at{axis} = arith.index_cast %near{axis} : i64 to index",
    ]


def _part(source_type: ir.RankedTensorType, result_type: Type) -> str:
    """Return the slice of a whole tensor, or of its first element, as MLIR text."""
    zeros, ones = [0] * source_type.rank, [1] * source_type.rank
    sizes = list(source_type.shape) if result_type == source_type else ones
    return f"offsets = {zeros}, sizes = {sizes}, strides = {ones}"


def _op_text(op: Operation) -> list[str]:
    """Return an op as text that reads %arg0, … and defines %y#0, …"""
    text = op.operation.get_asm(
        use_local_scope=True, print_generic_op_form=True, assume_verified=True
    )
    _, computed = text.split(" = ", 1)
    renamed = re.sub(r"%(\d+)", r"%v\1", computed)
    return f"%y:{len(op.results)} = {renamed}".splitlines()
