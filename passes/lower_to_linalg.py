"""Lower every graph op to linalg on tensors, by the op's own `lower` rule.

    func @f(%x: tensor<?x4xf32, affine_map<()[s0] -> (s0, 4)>>)
      %0 = graph.exp(%x)
    →
    func @f(%x: tensor<?x4xf32>)
      %0 = linalg.generic … math.exp

Requires: no calls (inline). Ensures: upstream dialects only, no encodings, signless
integers; each symbol is read once, from the first input whose size it is.
"""

from typing import Any

from aotc.dialects.graph import GraphOp, several, where_of
from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Dim, Tensor, element_count, lowered_type
from aotc.errors import CompileError
from aotc.mlir import arith, func, ir, tensor


def run(module: Any) -> bool:
    """Replace every function by its lowered form."""
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    for function in functions:
        _lower_function(function)
    return bool(functions)


def _lower_function(function: Any) -> None:
    block = function.entry_block
    terminator = block.operations[len(block.operations) - 1]
    graph_results = [Tensor.of(value) for value in terminator.operands]
    graph_inputs = [Tensor.of(value) for value in block.arguments]
    signature = ir.FunctionType.get(
        [lowered_type(t) for t in graph_inputs],
        [lowered_type(t) for t in graph_results],
    )
    name = ir.StringAttr(function.attributes["sym_name"]).value
    with ir.InsertionPoint(function), function.location:
        lowered = func.FuncOp(name, signature)
        with ir.InsertionPoint(lowered.add_entry_block()):
            lowering = Lowering(
                _symbol_values(function, graph_inputs, lowered.arguments)
            )
            mapping = dict(zip(block.arguments, lowered.arguments, strict=True))
            for op in block.operations:
                with op.location:
                    _lower_op(lowering, op, mapping)
    function.operation.erase()


def _lower_op(lowering: Lowering, op: Any, mapping: dict[Any, Any]) -> None:
    operands = [mapping[value] for value in op.operands]
    if isinstance(op, func.ReturnOp):
        func.ReturnOp(operands)
        return
    if not isinstance(op, GraphOp):
        raise CompileError(
            "not-lowered",
            f"expected ops of the graph dialect only; found {op.operation.name}",
            where=where_of(op),
            hint="run the passes 'autodiff' and 'inline' first",
        )
    results = [Tensor.of(value) for value in op.results]
    if results and all(element_count(result.shape) == 0 for result in results):
        # Nothing to compute, and not every upstream op accepts having nothing to do.
        lowered = tuple(lowering.empty(result) for result in results)
    else:
        lowered = several(type(op).lower(lowering, op, *operands))
    mapping.update(zip(op.results, lowered, strict=True))


def _symbol_values(function: Any, inputs: list[Tensor], arguments: Any) -> list[Any]:
    """The index value of each symbol: the size of an input that is just it."""
    if "graph.symbols" not in function.attributes:
        return []
    values = []
    for number in range(len(ir.ArrayAttr(function.attributes["graph.symbols"]))):
        position, axis = _bare_size(inputs, Dim.symbol(number))
        index = arith.ConstantOp(ir.IndexType.get(), axis).result
        values.append(tensor.dim(arguments[position], index))
    return values


def _bare_size(inputs: list[Tensor], symbol: Dim) -> tuple[int, int]:
    for position, graph_type in enumerate(inputs):
        for axis, size in enumerate(graph_type.shape):
            if size == symbol:
                return position, axis
    raise CompileError(
        "unbound-symbol", f"no input has the size '{symbol}' by itself", hint="add one"
    )
