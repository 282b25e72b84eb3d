"""Round rows to bytes where the weight is of integers, too (`--numerics relaxed`).

    %2 = graph.dequantize(%w, %s)          %1 = graph.dequantize(%q, %t)
    %3 = graph.dot_general(%x, %2)    →    %2 = graph.dequantize(%w, %s)
                                           %3 = graph.dot_general(%1, %2)

where %t is the largest absolute value of each 32 terms of a row over 127, and %q is
%x / %t, rounded. Kernels multiply the integers of both and scale the sums: four terms
an instruction, where processors have those. Fewer rows than four, by bytes, take as
long as the bytes to read, and stay as they are; of fewer bits it takes longer to make
floats. Products of one operand share its rounded rows.

An element of a row moves by 1/254 of the largest of its block at most.
"""

from __future__ import annotations

import numpy as np

from aotc.core.numerics import RELAXED, allows
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.kernels.capabilities import NoTargetKernels, capabilities_of
from aotc.kernels.machine import Machine
from aotc.kernels.planning.dequantized import ROUNDED, may_round, state_rounded
from aotc.mlir import Function, Value
from aotc.passes.base import Pass, Unit

MOST = 127  # that a byte holds, of either sign


class RoundRows(Pass):
    """Quantise left operands to bytes, row by row, where the target multiplies integers
    faster.
    """

    name = "round-rows"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any rows were quantised
        (relaxed numerics only).
        """
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels) or capabilities.emitted.on_gpus:
            return False
        if not allows(unit.program.numerics, RELAXED):
            return False
        machine = capabilities.machine
        functions = functions_of(unit.module).values()
        bodies = [each for each in functions if not each.is_external]
        return any([_round_in(each, machine) for each in bodies])


def _round_in(function: Function, machine: Machine) -> bool:
    """Quantise the left operands of a function's products; return whether any were."""
    rounded: dict[Value, Value] = {}
    with known_contracts(contracts_of(function)):
        for op in [*function.entry_block.operations]:
            if not isinstance(op, DotGeneral) or not may_round(op, machine):
                continue
            if op.lhs not in rounded:
                with before(op):
                    rounded[op.lhs] = round_rows(Builder(), op.lhs)
            op.operation.operands[0] = rounded[op.lhs]
            state_rounded(op)
    return bool(rounded)


def round_rows(b: Builder, x: Value) -> Value:
    """Emit `x` quantised to i8 with one scale per block of the last axis; return the
    result.

    Of a block of zeros the quotient is NaN, and its bytes are zeros, as its scale is.
    """
    kind = Tensor.of(x)
    *leading, size = kind.shape
    assert isinstance(size, int)
    shape = (*leading, size // ROUNDED, ROUNDED)
    parts = b.reshape(x, shape=shape)
    largest = b.reduce_max(b.abs(parts), axes=(len(shape) - 1,))
    most = b.full_like(largest, float(MOST))
    steps = b.broadcast(
        b.divide(most, largest), shape=shape, axes=(*range(len(shape) - 1),)
    )
    q = b.cast(b.round_even(b.multiply(parts, steps)), dtype="i8")
    found: Value = b.dequantize(
        b.reshape(q, shape=kind.shape),
        b.divide(largest, most),
        b.constant(value=np.zeros((), np.float32)),
        axis=kind.rank - 1,
        bits=8,
    )
    return found
