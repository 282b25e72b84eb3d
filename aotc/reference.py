"""Evaluates graph functions op by op in NumPy: the meaning that compilation must keep.

Every pass on graph IR is proven by evaluating before and after, every lowering by
comparing the compiled result with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from aotc.core import dtypes
from aotc.dialects.calls.callees import Declaration, declaration_of
from aotc.dialects.functions.entry_guards import require_guards
from aotc.dialects.functions.functions import callee_of, functions_of, signature
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.functions.symbol_solver import solve_symbols
from aotc.dialects.graph import Evaluator, GraphOp
from aotc.dialects.reference.devices import SimulatedDevices
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import InputError
from aotc.mlir import Block, Function, Module, Operation, Value, func

Arrays = Sequence[np.ndarray]
Watch = Callable[[Operation, list[np.ndarray], list[np.ndarray]], None]
EvaluateOp = Callable[[GraphOp, Arrays, Sequence[int]], list[np.ndarray]]
# None where the region calls others, which are then evaluated
EvaluateRegion = Callable[[Function, Arrays, Sequence[int]], list[np.ndarray] | None]


def evaluate(
    module: Module,
    name: str,
    inputs: Arrays,
    watch: Watch | None = None,
    *,
    with_op: EvaluateOp | None = None,
    with_region: EvaluateRegion | None = None,
) -> list[np.ndarray]:
    """Evaluate a function of a graph module on arrays by NumPy; return its results.

    Args:
        module: MLIR module whose functions hold graph ops and calls.
        name: of the function.
        inputs: one array per argument, of its dtype and a shape that its type allows.
        watch: gets each op when it is done, with its operands and results. Those that a
            loop or branch runs come before it, once for each time that they are run.
        with_op: computes the results of one op from it, its operands and the symbols;
            by default its `ref` rule does.
        with_region: computes what a fusion region returns from the function, its
            arguments and the symbols; by default its ops do.

    Raises:
        InputError: an input does not fit its type, or the sizes break a guard.
    """
    functions = functions_of(module)
    arrays = [np.asarray(array) for array in inputs]
    with module.context, np.errstate(all="ignore"):
        types, _ = signature(functions[name])
        symbols = bind_symbols(types, arrays)
        require_guards(functions[name], symbols)
        with_op = with_op or Evaluator()
        evaluation = Evaluation(functions, symbols, watch, with_op, with_region)
        return evaluation.call(name, arrays)


def evaluate_part(
    module: Module,
    ops: Sequence[Operation],
    known: Mapping[Value, np.ndarray],
    symbols: Sequence[int],
    wanted: Sequence[Value],
    *,
    with_op: EvaluateOp | None = None,
) -> list[np.ndarray]:
    """Evaluate some ops of a block; return the arrays of the wanted values.

    Args:
        module: as for `evaluate`.
        ops: of one block, in order.
        known: arrays of the values that these ops read and do not make.
        symbols: of the function.
        wanted: results of the ops.
        with_op: as for `evaluate`.
    """
    return PreparedPart.of(module, ops, wanted, with_op).evaluate(known, symbols)


@dataclass(frozen=True)
class PreparedPart:
    """A sequence of ops that compute some values, analysed once for repeated
    evaluation.

    Args:
        module: that the block is of.
        functions: of it, by name.
        steps: the ops.
        wanted: results of the ops, or values that are known.
        with_op: as for `evaluate`.
    """

    module: Module
    functions: dict[str, Function]
    steps: Sequence[_OpStep]
    wanted: Sequence[Value]
    with_op: EvaluateOp

    @classmethod
    def of(
        cls,
        module: Module,
        ops: Sequence[Operation],
        wanted: Sequence[Value],
        with_op: EvaluateOp | None = None,
    ) -> PreparedPart:
        """Analyse ops of a block, in order, for repeated evaluation."""
        steps = _steps_of(ops, kept=wanted)
        return cls(module, functions_of(module), steps, wanted, with_op or Evaluator())

    def evaluate(
        self, known: Mapping[Value, np.ndarray], symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Evaluate the ops; return the arrays of the wanted values.

        Args:
            known: arrays of the values that the ops read and do not make.
            symbols: of the function.
        """
        with self.module.context, np.errstate(all="ignore"):
            run = Evaluation(self.functions, list(symbols), None, self.with_op)
            values = dict(known)
            for step in self.steps:
                run.take_step(step, values)
            return [values[value] for value in self.wanted]


def evaluate_devices(
    module: Module,
    name: str,
    inputs: Sequence[Arrays],
    axis_name: str,
    *,
    with_op: EvaluateOp | None = None,
) -> list[list[np.ndarray]]:
    """Evaluate a function on several simulated devices; return the results of each.

    Args:
        module: as for `evaluate`.
        name: of the function, which every device runs.
        inputs: for each device, one array per argument.
        axis_name: the axis along which the devices are; the module's collectives over
            more than one device must be along it.
        with_op: as for `evaluate`; for one device after the other, to its next
            collective.

    Raises:
        InputError: an input does not fit, or the devices do not meet in the same
            collectives.
    """
    devices = SimulatedDevices(axis_name, len(inputs))
    return devices.run(
        lambda number: evaluate(module, name, inputs[number], with_op=with_op)
    )


@dataclass
class Evaluation:
    """The state of evaluating one call: functions, symbol values and hooks.

    Args:
        functions: of the module, by name.
        symbols: their values.
        watch: as for `evaluate`.
        with_op: as for `evaluate`.
        with_region: as for `evaluate`.
    """

    functions: dict[str, Function]
    symbols: list[int]
    watch: Watch | None = None
    with_op: EvaluateOp = field(default_factory=Evaluator)
    with_region: EvaluateRegion | None = None
    _declared: dict[str, tuple[Declaration, list[Tensor]] | None] = field(
        default_factory=dict
    )
    _steps: dict[str, list[_OpStep]] = field(default_factory=dict)

    def call(self, name: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Evaluate a function of the module on arrays; return its results."""
        function = self.functions[name]
        if self.with_region is not None and is_region(function):
            found = self.with_region(function, arrays, self.symbols)
            if found is not None:
                return found
        if name not in self._declared:
            declared = declaration_of(function)
            known = (declared, signature(function)[1]) if declared else None
            self._declared[name] = known
        known = self._declared[name]
        if known:
            return list(known[0].evaluate(self.call, arrays, self.symbols, known[1]))
        if name not in self._steps:
            self._steps[name] = _steps_of(list(function.entry_block.operations))
        return self._run(function.entry_block, arrays, self._steps[name])

    def _run(
        self, block: Block, arrays: Arrays, steps: Sequence[_OpStep]
    ) -> list[np.ndarray]:
        """Evaluate the steps of a block on its arguments; return what it returns."""
        values = dict(zip(block.arguments, arrays, strict=True))
        for step in steps[:-1]:
            self.take_step(step, values)
        return [values[value] for value in steps[-1].operands]  # a return

    def take_step(self, step: _OpStep, values: dict[Value, np.ndarray]) -> None:
        """Evaluate one op, store its results in `values`, and drop values not read
        any more.
        """
        operands = [values[value] for value in step.operands]
        for value in step.last_reads:  # so that a network does not keep all it has
            del values[value]
        if step.callee is not None:
            results = self.call(step.callee, operands)
        else:
            results = self.with_op(cast(GraphOp, step.op), operands, self.symbols)
        if self.watch is not None:
            self.watch(step.op, operands, results)
        values.update(zip(step.results, results, strict=True))


@dataclass(frozen=True)
class _OpStep:
    """An op of a block, analysed for repeated evaluation.

    Args:
        op: itself.
        operands: its operands.
        results: its results.
        callee: the function that it calls, if it is a call.
        last_reads: the values that nothing after it reads.
    """

    op: Operation
    operands: list[Value]
    results: list[Value]
    callee: str | None
    last_reads: list[Value]


def _steps_of(ops: Sequence[Operation], kept: Sequence[Value] = ()) -> list[_OpStep]:
    """Return the ops of a block as steps that drop values after their last use,
    except `kept`.
    """
    seen = set(kept)
    found: list[_OpStep] = []
    for op in reversed(ops):
        operands = list(op.operands)
        done = [value for value in dict.fromkeys(operands) if value not in seen]
        seen.update(done)
        callee = callee_of(op) if isinstance(op, func.CallOp) else None
        found.append(_OpStep(op, operands, list(op.results), callee, done))
    return found[::-1]


def bind_symbols(types: Sequence[Tensor], arrays: Arrays) -> list[int]:
    """Return the value of each symbol, solved from the shapes of arrays.

    Raises:
        InputError: a dtype, rank or size is not what the type says.
    """
    for tensor, array in zip(types, arrays, strict=True):
        if (
            dtypes.canonical_dtype(array.dtype) != tensor.dtype
            or array.ndim != tensor.rank
        ):
            raise _misfit(tensor, array)
    found = solve_symbols(types)
    symbols = [0] * (max((each.symbol for each in found), default=-1) + 1)
    for each in found:
        size = arrays[each.input].shape[each.axis]
        part = size - evaluate_size(each.rest, symbols)
        symbols[each.symbol] = part // each.factor
    for tensor, array in zip(types, arrays, strict=True):
        if tuple(evaluate_size(size, symbols) for size in tensor.shape) != array.shape:
            raise _misfit(tensor, array)
    return symbols


def _misfit(tensor: Tensor, array: np.ndarray) -> InputError:
    """Return the error for an array that does not fit its type."""
    got = f"{dtypes.canonical_dtype(array.dtype)}{list(array.shape)}"
    return InputError(
        "input-mismatch", f"expected an array of type {tensor}; got {got}"
    )
