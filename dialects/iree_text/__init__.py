"""Functions whose bodies only IREE can read: called here, written out on its side.

A `lower` rule that needs an op of IREE's calls a declared function that carries its
body as text; `aotc.backend` puts the text into the module that IREE compiles:

    func private @print(tensor<?xf32>) attributes {graph.iree_body = "…flow.…"}
    call @print(%x)

The text calls the arguments %0, %1, … and its last line returns the results.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from aotc.artifacts import loader_module
from aotc.dialects.functions.function_table import insert, name_of, table_of
from aotc.dialects.functions.functions import (
    current_function,
    current_module,
    unique_name,
)
from aotc.mlir import Function, Module, Type, Value, func, ir

BODY = "graph.iree_body"
HELD = "graph.iree_global"
_NO_INLINE = "no_inline"
_FACTS = (BODY, HELD, _NO_INLINE)


def call(
    name: str,
    operands: Sequence[Value],
    results: Sequence[Type],
    body: Sequence[str],
    *,
    held: str = "",
    inlined: bool = True,
) -> list[Value]:
    """Emit a call of a function with the text `body`; return its results."""
    types = [value.type for value in operands]
    callee = declare(name, types, results, body, held=held, inlined=inlined)
    return call_declared(callee, operands)


def call_declared(callee: Function, operands: Sequence[Value]) -> list[Value]:
    """Emit a call of a function that `declare` returned; return its results."""
    kind = ir.FunctionType(ir.TypeAttr(callee.attributes["function_type"]).value)
    made = ir.Operation.create(
        "func.call",
        results=kind.results,
        operands=list(operands),
        attributes={"callee": ir.FlatSymbolRefAttr.get(name_of(callee))},
    )
    return list(made.results)


def declare(
    name: str,
    operands: Sequence[Type],
    results: Sequence[Type],
    body: Sequence[str],
    *,
    held: str = "",
    inlined: bool = True,
) -> Function:
    """Return the function with the text `body`; add it to the module if need be.

    Args:
        name: what to call it, if none with this body and these types is there yet.
        operands: lowered types.
        results: lowered types.
        body: lines of MLIR.
        held: a global that the module gets beside the function.
        inlined: False for a function that must stay a call.
    """
    signature = ir.FunctionType.get(list(operands), list(results))
    text = "\n".join(body)
    attributes: dict[str, ir.Attribute] = {BODY: ir.StringAttr.get(text)}
    if held:
        attributes[HELD] = ir.StringAttr.get(held)
    if not inlined:
        attributes[_NO_INLINE] = ir.UnitAttr.get()
    callee = _find_declared(signature, attributes)
    return callee or _declare(name, signature, attributes)


def optimization_barrier(x: Value) -> Value:
    """Emit `x` behind a barrier of IREE's, across which sizes are not known either.

    IREE ends a submission of work at every barrier: a constant's is put at the start.
    """
    lines, dims = sizes("%0", x.type)
    kept = f"%y = util.optimization_barrier %0 : {x.type}"
    tied = f"%z = flow.tensor.tie_shape %y : {x.type}{dims}"
    return _barrier(x, [*lines, kept, tied, f"return %z : {x.type}"])


def scalar_barrier(number: Value) -> Value:
    """Emit a scalar behind a barrier, which is no work of the device."""
    kept = f"%y = util.optimization_barrier %0 : {number.type}"
    return _barrier(number, [kept, f"return %y : {number.type}"])


def _barrier(x: Value, body: Sequence[str]) -> Value:
    """Emit a barrier call on `x`; for a constant, at the start of the function."""
    point = None
    if not isinstance(x.owner, ir.Block) and x.owner.name == "arith.constant":
        point = ir.InsertionPoint.at_block_begin(current_function().entry_block)
    with point or nullcontext():
        given = x.owner.clone().results[0] if point else x
        (y,) = call("barrier", [given], [x.type], body)
    return y


def _find_declared(
    signature: ir.FunctionType, attributes: dict[str, ir.Attribute]
) -> Function | None:
    """Return the module's function of this type and these attributes, or None."""
    known = table_of(current_module()).group_by(_definition_key)
    return next(iter(known.get((signature, *map(attributes.get, _FACTS)), ())), None)


def _definition_key(function: Function) -> tuple[Any, ...] | None:
    """Return type and attributes of a function with a text body; None for others."""
    attributes = function.attributes
    if BODY not in attributes:
        return None
    return function.type, *(attributes.get(fact, None) for fact in _FACTS)


def _declare(
    name: str, signature: ir.FunctionType, attributes: dict[str, ir.Attribute]
) -> Function:
    """Add a private function with these attributes to the current module; return it."""
    module = current_module()
    with ir.InsertionPoint(module.body):
        name = unique_name(module, f"iree.{name}")
        function = func.FuncOp(name, signature, visibility="private")
    for fact, value in attributes.items():
        function.attributes[fact] = value
    insert(function)
    return function


def body_of(function: Function) -> str | None:
    """Return the text body of a function, which only IREE parses; None without one."""
    if BODY not in function.attributes:
        return None
    return str(ir.StringAttr(function.attributes[BODY]).value)


def is_kernel(function: Function) -> bool:
    """Return whether a function's text body dispatches a kernel."""
    return "flow.dispatch @" in (body_of(function) or "")


def calls_loader(function: Function) -> bool:
    """Return whether a function's text body calls a function of the loader."""
    return "util.call @" in (body_of(function) or "")


def waits(function: Function) -> bool:
    """Return whether a function's text body waits for an exchange between devices."""
    finish = f"@{loader_module.NAME}.{loader_module.FINISH}("
    return finish in (body_of(function) or "")


def definition(function: Function) -> list[str]:
    """Return the MLIR text of a function with a text body, as lines for IREE."""
    name = ir.StringAttr(function.attributes["sym_name"]).value
    inputs = ", ".join(f"%{i}: {t}" for i, t in enumerate(function.type.inputs))
    results = ", ".join(map(str, function.type.results))
    body = (body_of(function) or "").splitlines()
    kept = _NO_INLINE in function.attributes
    policy = "attributes {noinline} " if kept else ""
    head = f'func.func private @"{name}"({inputs}) -> ({results}) {policy}{{'
    return [*_held_global(function), head, *(f"  {line}" for line in body), "}"]


def _held_global(function: Function) -> list[str]:
    """Return the line that defines the global beside a function; [] without one."""
    if HELD not in function.attributes:
        return []
    return [str(ir.StringAttr(function.attributes[HELD]).value)]


def unique_global(module: Module, name: str) -> str:
    """Return a name for a global that is unused in the module."""
    return f"{name}{len(table_of(module).group_by(_is_holding).get(True, ()))}"


def _is_holding(function: Function) -> bool | None:
    """Return True for a function that has a global beside it; None for others."""
    return True if HELD in function.attributes else None


def sizes(value: str, kind: ir.RankedTensorType) -> tuple[list[str], str]:
    """Return lines that read the dynamic sizes of `value`, and `{…}` to list them."""
    axes = [axis for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
    lines, names = [], []
    for axis in axes:
        lines += [
            f"%axis{axis} = arith.constant {axis} : index",
            f"%size{axis} = tensor.dim {value}, %axis{axis} : {kind}",
        ]
        names.append(f"%size{axis}")
    return lines, f"{{{', '.join(names)}}}" if names else ""
