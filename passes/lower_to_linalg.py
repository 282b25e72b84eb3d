"""Lower every graph op to linalg on tensors, by the op's own `lower` rule.

    func @f(%x: tensor<?x4xf32, affine_map<()[s0] -> (s0, 4)>>)
      %0 = graph.exp(%x)
    →
    func @f(%x: tensor<?x4xf32>)
      %0 = linalg.generic … math.exp

What is left is of upstream dialects, without encodings, of signless integers; each
symbol is computed once, from the input sizes that say what it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from aotc.artifacts.backends import BACKENDS
from aotc.dialects import iree_text
from aotc.dialects.calls.callees import declaration_of
from aotc.dialects.functions.entries import entries_of, lower_signature
from aotc.dialects.functions.function_table import erase, index_functions, insert
from aotc.dialects.functions.functions import (
    callee_of,
    functions_of,
    is_root,
    lowered_op,
    name_of,
    signature,
)
from aotc.dialects.functions.fusion import is_region, target_of
from aotc.dialects.functions.symbol_solver import solve_symbols
from aotc.dialects.functions.walking import walk
from aotc.dialects.graph import GraphOp, as_tuple, where_of
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.sources import filled_with
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, element_count, lowered_type
from aotc.errors import CompileError
from aotc.kernels.cpu import dispatch as cpu
from aotc.kernels.gpu import dispatch as gpu
from aotc.machine.target import Target
from aotc.mlir import Function, Module, Operation, Value, arith, func, ir, tensor
from aotc.passes.base import Pass, Unit, lowered_error
from aotc.passes.decompose import decompose_ops
from aotc.passes.double_reads import (
    integers_that_wrap,
    products_reduced_over_symbols,
    reductions_reduced_again,
    sums_in_parts_of_unknown_size,
    values_of_many_arguments,
    values_of_many_results,
    values_read_in_two_ways,
)
from aotc.passes.properties import CALLS_INLINED, LOWERED, OPS_DECOMPOSED
from aotc.passes.state_windows import windows_in_place

# of a region, for lowered operands: its lowered results
_Call: TypeAlias = Callable[[Function, Sequence[Value]], list[Value]]


class LowerToLinalg(Pass):
    """Replace every function by its lowered form, with functions of control flow
    inlined.
    """

    name = "lower-to-linalg"
    level = 0
    keeps_graph = False
    requires = (
        CALLS_INLINED,
        OPS_DECOMPOSED,
    )
    ensures = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        if (op := lowered_op(unit.module)) is not None:
            raise lowered_error(self, op)
        functions = functions_of(unit.module)
        with index_functions(unit.module):
            in_place = _windows_in_place(unit.module, functions)
            lowered = [
                _lower_function(function, functions, in_place, unit.target)
                for function in functions.values()
                if is_root(function)
            ]
            for function in functions.values():
                erase(function)
            for function in lowered:
                insert(function)
        return bool(functions)


def _windows_in_place(module: Module, functions: dict[str, Function]) -> set[Value]:
    """Return the results of state updates that may overwrite their operand's buffer."""
    entries = entries_of(module)
    states = {
        port.name
        for entry in entries
        for port in entry.arguments
        if port.kind == "state" and 0 not in port.type.shape
    }
    found = (windows_in_place(entry, functions, len(states)) for entry in entries)
    return set().union(*found)


def _lower_function(
    function: Function,
    functions: dict[str, Function],
    in_place: set[Value],
    target: Target | None,
) -> Function:
    """Create and return the lowered function of an entry or other root function."""
    inputs, results = signature(function)
    kind = ir.FunctionType.get(
        [lowered_type(t) for t in inputs], [lowered_type(t) for t in results]
    )
    contracts = contracts_of(function)
    with known_contracts(contracts), ir.InsertionPoint(function), function.location:
        visibility = "private" if function.is_external else None
        lowered = func.FuncOp(name_of(function), kind, visibility=visibility)
        lower_signature(function, lowered)
        if function.is_external:  # an entry that is declared
            return lowered
        with ir.InsertionPoint(lowered.add_entry_block()):
            unknown: list[Any] = [None] * len(contracts)
            on_gpu = target is not None and not BACKENDS[target.backend].on_cpu
            lowering = Lowering(unknown, in_place, on_gpu=on_gpu)
            _read_symbols(lowering, inputs, lowered.arguments)
            _require_bound(lowering, contracts)
            inlined = _Inlined(functions, lowering, target)
            returned = inlined(name_of(function), list(lowered.arguments))
            func.ReturnOp(returned)
    return lowered


@dataclass(frozen=True)
class _Inlined:
    """Callable that emits the lowered ops of functions at the insertion point."""

    functions: dict[str, Function]
    lowering: Lowering
    target: Target | None
    in_memory: set[Value] = field(default_factory=set)
    analysed: set[str] = field(default_factory=set)  # a turn of a loop is many steps

    def __call__(self, name: str, arguments: list[Value]) -> list[Value]:
        """Emit the lowered ops of function `name` on lowered arguments; return its
        results.
        """
        block = self.functions[name].entry_block
        if name not in self.analysed:
            self.analysed.add(name)
            self.in_memory.update(values_read_in_two_ways(block))
            self.in_memory.update(products_reduced_over_symbols(block))
            self.in_memory.update(values_of_many_arguments(block))
            self.in_memory.update(values_of_many_results(block))
            backend = None if self.target is None else self.target.backend
            if backend == "llvm-cpu":
                self.in_memory.update(reductions_reduced_again(block))
            elif backend == "vmvx":
                self.in_memory.update(sums_in_parts_of_unknown_size(block))
                self.in_memory.update(integers_that_wrap(block))
        return walk(block, arguments, self._lower)

    def with_lowering(self, lowering: Lowering) -> "_Inlined":
        """Return a copy that emits through another `Lowering`."""
        return replace(self, lowering=lowering)

    @cached_property
    def _call_kernel(self) -> _Call:
        """The function that emits calls of region kernels for the backend (default:
        CPU).
        """
        target = target_of(next(iter(self.functions.values())))
        backend = "llvm-cpu" if target is None else Target.parse(target).backend
        return _KERNEL_CALLS[backend](self.lowering)

    def _lower(self, op: Operation, operands: list[Value]) -> Sequence[Value]:
        """Lower one op or call at the insertion point; return its lowered results."""
        if isinstance(op, func.CallOp):
            callee = self.functions[callee_of(op)]
            if is_region(callee):
                return self._call_kernel(callee, operands)
            declared = declaration_of(callee)
            if declared is not None:
                return declared.lower(self.lowering, op, operands, self)
        if not isinstance(op, GraphOp):
            raise CompileError(
                "not-lowered",
                f"expected ops of the graph dialect only; found {op.operation.name}",
                where=where_of(op),
                hint="run the passes 'autodiff' and 'inline' first",
            )
        results = [Tensor.of(value) for value in op.results]
        if results and all(element_count(result.shape) == 0 for result in results):
            # Nothing to compute, which not every upstream op accepts.
            return [self.lowering.empty(result) for result in results]
        if type(op).rearranges and (scalar := filled_with(operands[0])) is not None:
            return [self.lowering.full(results[0], scalar)]  # Note [parts of fills]
        lowered = as_tuple(type(op).lower(self.lowering, op, *operands))
        return [
            iree_text.optimization_barrier(each) if value in self.in_memory else each
            for value, each in zip(op.results, lowered, strict=True)
        ]


def _lower_ops(
    region: Function, arguments: Sequence[Value], symbols: Sequence[Value | None]
) -> list[Value]:
    """Emit the lowered ops of a region that has no GPU kernel; return its results."""
    module = ir.Module.create(region.location)
    copy = region.operation.clone(ir.InsertionPoint(module.body)).opview
    assert isinstance(copy, func.FuncOp)
    with known_contracts(contracts_of(copy)):
        decompose_ops(copy)
        known: list[Any] = [*symbols]  # None for those that no size mentions
        lowering = Lowering(known, on_gpu=True)
        inlined = _Inlined({name_of(copy): copy}, lowering, None)
        return inlined(name_of(copy), [*arguments])


_GPU_CALLS = partial(gpu.GpuKernelCalls, lower_ops=_lower_ops)
_KERNEL_CALLS: Mapping[str, Callable[[Lowering], _Call]] = {
    "llvm-cpu": cpu.CpuKernelCalls,
    "cuda": _GPU_CALLS,
    "rocm": _GPU_CALLS,
}


def _read_symbols(
    lowering: Lowering, inputs: list[Tensor], arguments: Sequence[Value]
) -> None:
    """Emit the symbols that sizes of inputs determine; store their values in the
    lowering.
    """
    for binding in solve_symbols(inputs):
        axis = lowering.index(binding.axis)
        value = tensor.dim(arguments[binding.input], axis)
        if binding.rest != 0:
            value = arith.subi(value, lowering.size(binding.rest))
        if binding.factor != 1:
            value = arith.floordivsi(value, lowering.index(binding.factor))
        lowering.symbols[binding.symbol] = value


def _require_bound(lowering: Lowering, contracts: Sequence[Contract]) -> None:
    """Raise if a symbol's value is not determined by any input size."""
    for contract, value in zip(contracts, lowering.symbols, strict=True):
        if value is None:
            raise CompileError(
                "unbound-symbol",
                f"no size of an input says what '{contract.name}' is",
                hint=f"give an input the size '{contract.name}', or a multiple of it",
            )
