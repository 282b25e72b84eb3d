"""Functions of a module: how rules, passes and frontends find, make and call them.

A function is flat: one block of ops and calls. Private functions are bodies for others:
of a loop, of a branch, of a derivative. All functions that one entry reaches share its
symbols, so a size means the same in each of them.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aotc.dialects.attributes import SymbolReferences, read_attribute
from aotc.dialects.functions.function_table import erase, insert, table_of
from aotc.dialects.functions.function_table import name_of as name_of
from aotc.dialects.types import Tensor
from aotc.errors import AotcError
from aotc.mlir import Function, Module, Operation, Value, func, ir

ENTRY = "graph.entry"
SYMBOLS = "graph.symbols"
CONTROL = "graph.control"  # what makes a function control flow; see dialects/control

Values = list[Value]
Body = Callable[[Values], Sequence[Value]]


def functions_of(module: Module) -> dict[str, Function]:
    """Return the functions of a module by name."""
    return {
        name_of(op): op for op in module.body.operations if isinstance(op, func.FuncOp)
    }


def lowered_op(module: Module) -> str | None:
    """Return the name of the first op outside the graph dialect; None without one.

    Functions, calls and parameters belong to a graph.
    """
    found: list[str] = []

    def visit(op: Operation) -> ir.WalkResult:
        if op.name.partition(".")[0] in ("graph", "func", "builtin", "ml_program"):
            return ir.WalkResult.ADVANCE
        found.append(op.name)
        return ir.WalkResult.INTERRUPT

    module.operation.walk(visit)
    return found[0] if found else None


def is_private(function: Function) -> bool:
    """Return whether a function is visible only inside of the module."""
    attributes = function.attributes
    if "sym_visibility" not in attributes:
        return False
    return str(ir.StringAttr(attributes["sym_visibility"]).value) == "private"


def is_entry(function: Function) -> bool:
    """Return whether a function is an entry of the model, with or without a body."""
    return ENTRY in function.attributes


def is_root(function: Function) -> bool:
    """Return whether a function must be kept though no other function calls it."""
    return not is_private(function) or is_entry(function)


def signature(function: Function) -> tuple[list[Tensor], list[Tensor]]:
    """Return the types of a function's arguments and results."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return [Tensor.of(t) for t in kind.inputs], [Tensor.of(t) for t in kind.results]


def run_by_control(function: Function) -> tuple[str, ...] | None:
    """Return the names of functions that control flow runs; None for other functions.

    Raises:
        InputError: `malformed-op`: it does not say which.
    """
    if CONTROL not in function.attributes:
        return None
    return read_attribute(
        ir.DictAttr(function.attributes[CONTROL]), "functions", SymbolReferences
    )


def callee_of(call: func.CallOp) -> str:
    """Return the name of the function that a call op calls."""
    return str(ir.FlatSymbolRefAttr(call.callee).value)


def unique_name(module: Module, name: str) -> str:
    """Return `name`, with a number appended if the module has that symbol."""
    return table_of(module).unused_name(name)


def copy_module(module: Module) -> Module:
    """Return a copy of a module, source lines included."""
    with module.context:
        other = ir.Module.create(module.operation.location)
        for name in module.operation.attributes:
            other.operation.attributes[name] = module.operation.attributes[name]
        end = ir.InsertionPoint(other.body)
        for op in module.body.operations:
            op.operation.clone(end)
    return other


def keep_only(module: Module, names: Container[str]) -> None:
    """Erase the entries and other public functions that are not in `names`."""
    for function in functions_of(module).values():
        if is_root(function) and name_of(function) not in names:
            erase(function)


# ---- at the insertion point ---------------------------------------------------------


def current_function() -> Function:
    """Return the function that the insertion point is in."""
    op = ir.InsertionPoint.current.block.owner
    while not isinstance(op.opview, func.FuncOp):
        op = op.parent
    return op.opview


def current_module() -> Module:
    """Return the module that the insertion point is in."""
    module: Module = current_function().operation.parent.opview
    return module


def find(name: str) -> Function:
    """Return the function `name` in the module of the insertion point."""
    return table_of(current_module())[name]


def define(name: str, inputs: Sequence[Tensor], body: Body) -> str:
    """Add a private function to the current module, with a body; return its name.

    It has the symbols of the current function.

    Args:
        name: made unique.
        inputs: types of its arguments.
        body: gets the arguments, writes ops and returns the values to return.
    """
    module, symbols = current_module(), current_function().attributes
    name = unique_name(module, name)
    types = [tensor.to_mlir() for tensor in inputs]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, (types, []), visibility="private")
    if SYMBOLS in symbols:
        function.attributes[SYMBOLS] = symbols[SYMBOLS]
    insert(function)
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        results = list(body(list(block.arguments)))
        require_own_values(results, f"the body of '{name}'")
        func.ReturnOp(results)
    whole = ir.FunctionType.get(types, [value.type for value in results])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    return name


def require_own_values(
    results: Sequence[Value], writer: str, known: Container[Value] = ()
) -> None:
    """Raise AotcError if `results` depend on values of another function.

    Args:
        results: what was written at the insertion point.
        writer: who wrote it, for the message.
        known: values that are of this function for certain.

    Raises:
        AotcError: a rule has taken a value of the function it derives another from.
    """
    block = ir.InsertionPoint.current.block
    seen, rest = set[Any](), list(results)
    while rest:
        value = rest.pop()
        if value in seen or value in known:
            continue
        seen.add(value)
        is_argument = isinstance(value.owner, ir.Block)
        own = value.owner if is_argument else value.owner.operation.block
        if own != block:
            raise AotcError(
                "foreign-value",
                f"{writer} uses a value of another function, of type {value.type}; "
                "expected only those it was given",
                hint="this is a bug in aotc: the rule takes a value from its op that "
                "it should take from its operands",
            )
        if not is_argument:
            rest += value.owner.operands


def declare(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    attributes: dict[str, ir.Attribute],
) -> str:
    """Add a private function without a body to the current module; return its name.

    It has the symbols of the current function.

    Args:
        name: made unique.
        inputs: types of its arguments.
        outputs: types of its results.
        attributes: what the function is.
    """
    module, symbols = current_module(), current_function().attributes
    name = unique_name(module, name)
    types = [[tensor.to_mlir() for tensor in side] for side in (inputs, outputs)]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, tuple(types), visibility="private")
    for key, value in attributes.items():
        function.attributes[key] = value
    if SYMBOLS in symbols:
        function.attributes[SYMBOLS] = symbols[SYMBOLS]
    insert(function)
    return name


def call(name: str, operands: Sequence[Value]) -> Values:
    """Emit a call of a function of the module; return its results."""
    _, outputs = signature(find(name))
    results = [tensor.to_mlir() for tensor in outputs]
    symbol = ir.FlatSymbolRefAttr.get(name)
    return list(func.CallOp(results, symbol, list(operands)).results)


@contextmanager
def before(op: Operation) -> Iterator[None]:
    """Set the insertion point and location to those of `op` within this block."""
    with ir.InsertionPoint(op), op.location:
        yield


def types_of(values: Sequence[Value]) -> list[Tensor]:
    """Return the types of graph values as `Tensor`s."""
    return [Tensor.of(value) for value in values]
