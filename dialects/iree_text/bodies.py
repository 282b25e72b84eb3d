"""The bodies of functions that only IREE can read, as lines of text.

Their arguments are %0, %1, …, and the last line returns the results.
"""

from collections.abc import Sequence
from itertools import count

from aotc.artifacts import loader_module
from aotc.dialects.iree_text import sizes
from aotc.mlir import ir


def trace(key: ir.StringAttr, kind: ir.RankedTensorType) -> list[str]:
    """Return the text body that passes a tensor to the loader's trace sink.

    Args:
        key: what the loader knows the trace by.
        kind: of the tensor.
    """
    lines, dims = sizes("%0", kind)
    return [*lines, f"flow.tensor.trace {key} = [%0 : {kind}{dims}]", "return"]


EXCHANGE = f"@{loader_module.NAME}.{loader_module.EXCHANGE}"
START = f"@{loader_module.NAME}.{loader_module.START}"
FINISH = f"@{loader_module.NAME}.{loader_module.FINISH}"
# The types of these functions.
LOADER_FUNCTIONS = {
    EXCHANGE: "(!util.buffer, !hal.buffer_view) -> !hal.buffer_view",
    START: "(!util.buffer, !hal.buffer_view) -> i64",
    FINISH: "(i64) -> !hal.buffer_view",
}


def exchange(
    request: ir.StringAttr,
    operand_type: ir.RankedTensorType,
    result_type: ir.RankedTensorType,
) -> list[str]:
    """Return the text body that has the loader run a collective on a tensor.

    Args:
        request: JSON that says which collective it is.
        operand_type: of the tensor, the first argument.
        result_type: of what comes back. Its dynamic sizes are the other arguments.
    """
    return [
        *_sent(request, operand_type),
        f"%received = {_loader_call(EXCHANGE, '%asked, %sent')}",
        *_received(result_type),
    ]


def start_exchange(
    request: ir.StringAttr, operand_type: ir.RankedTensorType
) -> list[str]:
    """Return the text body that has the loader start a collective; see `exchange`.

    It returns the number that `finish_exchange` takes.
    """
    call = _loader_call(START, "%asked, %sent")
    return [*_sent(request, operand_type), f"%number = {call}", "return %number : i64"]


def finish_exchange(result_type: ir.RankedTensorType) -> list[str]:
    """Return the text body that waits for a collective that was started.

    Args:
        result_type: of what comes back. Its dynamic sizes are the arguments after the
            number.
    """
    return [f"%received = {_loader_call(FINISH, '%0')}", *_received(result_type)]


def _loader_call(function: str, operands: str) -> str:
    """Return the text of a call of a function of the loader."""
    return f"util.call {function}({operands}) : {LOADER_FUNCTIONS[function]}"


def _sent(request: ir.StringAttr, operand_type: ir.RankedTensorType) -> list[str]:
    """Return lines that define %asked, the JSON, and %sent, the buffer view of %0."""
    lines, dims = sizes("%0", operand_type)
    return [
        *lines,
        f"%asked = util.buffer.constant : !util.buffer = {request}",
        f"%sent = hal.tensor.export %0 : {operand_type}{dims} -> !hal.buffer_view",
    ]


def _received(result_type: ir.RankedTensorType) -> list[str]:
    """Return lines that return %received as a tensor of sizes %1, %2, …"""
    axes = filter(result_type.is_dynamic_dim, range(result_type.rank))
    names = ", ".join(f"%{n}" for n, _ in enumerate(axes, 1))
    dims = f"{{{names}}}" if names else ""
    return [
        f"%y = hal.tensor.import %received : !hal.buffer_view -> {result_type}{dims}",
        f"return %y : {result_type}",
    ]


def scatter(
    combine: str,
    updates: ir.RankedTensorType,
    rows: ir.RankedTensorType,
    table: ir.RankedTensorType,
) -> list[str]:
    """Return the text body that fills a table and scatters rows of updates into it.

    The barriers, with that of the start, keep apart what IREE 3.13 cannot compile
    together: two scatters that share a fill ("'stream.yield' op used resource not
    listed in explicit captures"), and a scatter and what computes its updates, or its
    rows from integers of 8 or 16 bits ("exceeded stack allocation limit").

    Args:
        combine: the op that combines an update and what the table has there.
        updates: their type, the first argument.
        rows: the type of the numbers of their rows.
        table: its type. What it is filled with is the last argument.
    """
    element = table.element_type
    dims, updates_sizes = sizes("%0", updates)
    count = "{%size0}" if rows.is_dynamic_dim(0) else ""  # as the updates
    barrier = "iree_tensor_ext.compute_barrier.start"
    return [
        *dims,
        f"%updates = {barrier} %0 : {updates}{updates_sizes} -> {updates}",
        f"%rows = {barrier} %1 : {rows}{count} -> {rows}",
        f"%empty = linalg.fill ins(%3 : {element}) outs(%2 : {table}) -> {table}",
        "%full = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)",
        f"  ins(%updates, %rows : {updates}, {rows}) outs(%empty : {table}) {{",
        f"^bb0(%new: {element}, %old: {element}):",
        f"  %both = {combine} %old, %new : {element}",
        f"  iree_linalg_ext.yield %both : {element}",
        f"}} -> {table}",
        f"return %full : {table}",
    ]


def dispatch(
    name: str,
    operands: Sequence[ir.RankedTensorType],
    symbols: int,
    results: Sequence[ir.RankedTensorType],
    scratch: Sequence[ir.RankedTensorType] = (),
    *,
    function: str = "",
    number: str = "index",
    tied: Sequence[int] = (),
) -> list[str]:
    """Return the text body that dispatches an executable of aotc's own.

    The arguments are the operands, the symbols, how many workgroups there are, the
    sizes of operands, results and scratch that are not static, in order.

    Args:
        name: of the executable.
        operands: their types.
        symbols: how many of them it takes.
        results: their types, which the body returns.
        scratch: the types of results that nothing reads.
        function: of the executable; by default it has the same name.
        number: the type of symbols.
        tied: the number of the operand that each result is written over, or -1; none
            of them if that is empty.
    """
    function = function or name
    workgroups = len(operands) + symbols
    numbers = count(workgroups + 1)

    def sized(kind: ir.RankedTensorType) -> str:
        axes = filter(kind.is_dynamic_dim, range(kind.rank))
        names = [f"%{next(numbers)}" for _ in axes]
        return f"{kind}{{{', '.join(names)}}}" if names else str(kind)

    given = ", ".join(f"%{number}" for number in range(workgroups))
    taken = ", ".join([*map(sized, operands), *[number] * symbols])
    over = [*tied] or [-1] * len(results)
    own = [
        sized(kind) if at < 0 else f"%{at}"
        for kind, at in zip(results, over, strict=True)
    ]
    made = ", ".join([*own, *map(sized, scratch)])
    named = ", ".join(f"%r#{number}" for number in range(len(results)))
    return [
        f'%r:{len(results) + len(scratch)} = flow.dispatch @"{name}"::@"{function}"'
        f"[%{workgroups}]({given}) : ({taken}) -> ({made})",
        f"return {named} : {', '.join(map(str, results))}",
    ]


def thread_count() -> list[str]:
    """Return the text body that queries how many threads IREE's device has."""
    return [
        "%first = arith.constant 0 : index",
        "%device = hal.devices.get %first : !hal.device",
        "%known, %count = hal.device.query<%device : !hal.device> "
        'key("hal.dispatch" :: "concurrency") : i1, i64 = 1 : i64',
        "%threads = arith.index_cast %count : i64 to index",
        "return %threads : index",
    ]
