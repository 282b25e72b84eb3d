"""Copies of ops: calls inlined, and some ops as a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from aotc.errors import InputError
from aotc.importers.stablehlo.interpreter import (
    RETURNS,
    functions_of,
    nested_operations,
)
from aotc.importers.stablehlo.operation import Op
from aotc.mlir import func, ir

TOKEN = "!stablehlo.token"
_CALLS = ("func.call", "call")

Copies = dict[ir.Value, ir.Value]  # value → its copy


def inline_calls_of_main(module: ir.Module, main: str) -> None:
    """Inline the functions that `main` calls, in place.

    Calls within regions of its ops remain.

    Raises:
        InputError: a function calls itself.
    """
    functions = functions_of(module)
    with module.context, ir.Location.unknown():
        for each in [*functions[main].regions[0].blocks[0].operations]:
            _inline(each.operation, functions, (main,))


def _inline(
    call: ir.Operation, functions: Mapping[str, ir.Operation], callers: tuple[str, ...]
) -> None:
    """Inline a call (and calls in the callee) in place; refuse recursion."""
    name = Op(call).text("callee") if call.name in _CALLS else ""
    if name not in functions:
        return
    if name in callers:
        raise InputError("unsupported-ops", f"func.call: @{name} calls itself")
    body = functions[name].regions[0].blocks[0]
    copies: Copies = dict(zip(body.arguments, call.operands, strict=True))
    made, results = [], []
    with ir.InsertionPoint(call):
        for each in body.operations:
            if each.operation.name in RETURNS:
                results = [copies[x] for x in each.operation.operands]
            else:
                made.append(_copy(each.operation, copies))
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.erase()
    for copied in made:
        _inline(copied, functions, (*callers, name))


def _copy(operation: ir.Operation, copies: Copies) -> ir.Operation:
    """Clone an op at the insertion point, reading copies; add its results to
    `copies`.
    """
    made: ir.Operation = operation.clone().operation
    for each in (made, *nested_operations(made)):
        for number, operand in enumerate(each.operands):
            if operand in copies:
                each.operands[number] = copies[operand]
    copies.update(zip(operation.results, made.results, strict=True))
    return made


def read_values(operation: ir.Operation) -> Iterator[ir.Value]:
    """Yield the operands of an op and of all ops in its regions."""
    for each in (operation, *nested_operations(operation)):
        yield from each.operands


def excerpt(
    module: ir.Module,
    operations: Sequence[ir.Operation],
    arguments: Mapping[ir.Value, ir.Type | ir.Attribute],
    outputs: Sequence[ir.Value],
    should_copy: Callable[[ir.Value], bool],
) -> tuple[ir.Module, Copies]:
    """Return a new module whose `main` has copies of some ops of a function.

    Args:
        module: that they are from.
        operations: in order.
        arguments: for each value that `main` takes, its type, whose sizes are known; or
            an attribute, and it is a constant there.
        outputs: the values that `main` returns.
        should_copy: whether a value that ops read is made by a copy of its op.

    Returns:
        The module, and its values by those that they are copies of.
    """
    with module.context, ir.Location.unknown():
        made = ir.Module.create()
        for name, attribute in _attributes(module):
            made.operation.attributes[name] = attribute
        taken = [v for v, given in arguments.items() if isinstance(given, ir.Type)]
        results = [value.type for value in outputs]
        with ir.InsertionPoint(made.body):
            main = func.FuncOp("main", ([arguments[v] for v in taken], results))
            block = main.add_entry_block()
        with ir.InsertionPoint(block):
            copies: Copies = {}
            for value, argument in zip(taken, block.arguments, strict=True):
                copies[value] = _as_type(argument, value.type)
            for value, given in arguments.items():
                if not isinstance(given, ir.Type):
                    copies[value] = _constant(given)
            for each in operations:
                _copy_producers(each, copies, should_copy)
                _copy(each, copies)
            func.ReturnOp([copies[value] for value in outputs])
        _copy_symbols(module, made, block)
    return made, copies


def _attributes(module: ir.Module) -> Iterator[tuple[str, ir.Attribute]]:
    """Yield a module's attributes by name, without its symbol name."""
    attributes = module.operation.attributes
    for each in attributes:
        name = each if isinstance(each, str) else each.name
        if name != "sym_name":
            yield name, attributes[name]


def _as_type(value: ir.Value, wanted: ir.Type) -> ir.Value:
    """Return a value converted to a type with more dynamic sizes, by a new op."""
    if value.type == wanted:
        return value
    made = ir.Operation.create("stablehlo.convert", results=[wanted], operands=[value])
    found: ir.Value = made.results[0]
    return found


def _constant(attribute: ir.Attribute) -> ir.Value:
    """Create a constant op at the insertion point; return its value."""
    made = ir.Operation.create(
        "stablehlo.constant",
        results=[attribute.type],
        attributes={"value": attribute},
    )
    found: ir.Value = made.results[0]
    return found


def _copy_producers(
    operation: ir.Operation, copies: Copies, should_copy: Callable[[ir.Value], bool]
) -> None:
    """Copy the ops that compute an op's operands, where they are to be copied."""
    for value in read_values(operation):
        _copy_producer(value, copies, should_copy)


def _copy_producer(
    value: ir.Value, copies: Copies, should_copy: Callable[[ir.Value], bool]
) -> None:
    """Copy a value's producer, after what that reads, if `should_copy` says so."""
    if value in copies or not should_copy(value):
        return
    if str(value.type) == TOKEN:
        made = ir.Operation.create("stablehlo.create_token", results=[value.type])
        copies[value] = made.results[0]
        return
    _copy_producers(value.owner.operation, copies, should_copy)
    _copy(value.owner.operation, copies)


def _copy_symbols(module: ir.Module, made: ir.Module, block: ir.Block) -> None:
    """Copy a module's other symbols (meshes), and the functions that a block's ops
    call.
    """
    functions = functions_of(module)
    with ir.InsertionPoint.at_block_begin(made.body):
        for each in module.body.operations:
            if each.operation.name != "func.func":
                each.operation.clone()
    seen: set[str] = set()
    left = [each.operation for each in block.operations]
    while left:
        op = left.pop()
        for name in {*_named_functions(op)} - seen:
            seen.add(name)
            if name in functions:
                with ir.InsertionPoint(made.body):
                    left.append(functions[name].clone().operation)
        left += nested_operations(op)


def _named_functions(operation: ir.Operation) -> Iterator[str]:
    """Yield the names of functions that an op calls or refers to."""
    op = Op(operation)
    yield from filter(None, (op.text("callee"), op.text("decomposition")))
    for each in op.attribute("called_computations") or ():
        yield str(ir.FlatSymbolRefAttr(each).value)
