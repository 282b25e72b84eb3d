"""Examples of rows: as functions that can be evaluated, and as text."""

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.patterns.rows import Written
from aotc.dialects.patterns.values import splat_of, truth_of
from aotc.dialects.printer import value_text
from aotc.dialects.types import Tensor
from aotc.mlir import Module, Value, func, ir

NAME = "f"  # of the function


def module_of(input_types: Sequence[Tensor], emit: Written) -> Module:
    """Return a module with a function of `input_types` whose body `emit` emits."""
    module = ir.Module.create()
    types = [kind.to_mlir() for kind in input_types]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(NAME, (types, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        result = emit(Builder(), *block.arguments)
        func.ReturnOp([result])
    whole = ir.FunctionType.get(types, [result.type])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    return module


def result_of(module: Module) -> Value:
    """Return the value that the function of a module of `module_of` returns."""
    *_, end = functions_of(module)[NAME].entry_block.operations
    return end.operands[0]


def root_of(module: Module) -> GraphOp:
    """Return the op that defines the result of a module's function."""
    op = result_of(module).owner.opview
    assert isinstance(op, GraphOp)
    return op


def text_of(value: Value) -> str:
    """Return a value as an expression of the function's arguments x, y and z."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return "xyz"[list(owner.arguments).index(value)]
    if (number := splat_of(value)) is not None:
        return f"{number:g}"
    if (truth := truth_of(value)) is not None:
        return str(truth).lower()
    op = owner.opview
    attributes = type(op).attributes_of(op)
    stated = [f"{n}={_attribute_text(x)}" for n, x in attributes.items() if x != ()]
    return f"{op._op_name}({', '.join([*map(text_of, op.operands), *stated])})"


def _attribute_text(value: object) -> str:
    """Return the text of an attribute's value; floats are short."""
    return f"{value:g}" if isinstance(value, float) else value_text(value)
