"""Faults in the lowering of ops that IREE compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc.dialects import OPS
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.lowering import scalars, scans
from aotc.dialects.ops import dynamic, indexing, reduction
from aotc.dialects.ops import scatter_lowering as scatters
from aotc.dialects.types import Tensor
from aotc.mlir import Value, arith, ir, math
from aotc.passes.update_in_place import UpdateInPlace

from ..planting import Fault
from .ways import given, lowered_as


def _nearest_up(x: Value) -> Value:
    """Emit a rounding that rounds ties up, not to even."""
    half = scalars.constant(x.type, 0.5)
    return math.floor(arith.addf(x, half))


def _sign_of_bit(x: Value) -> Value:
    """Emit a sign that is 1 or -1 for zeros."""
    one = scalars.constant(x.type, 1.0)
    return math.copysign(one, x)


def _power_by_logarithm(x: Value, y: Value) -> Value:
    """Emit a power as exp(y log x), which is wrong for x <= 0."""
    return math.exp(arith.mulf(y, math.log(x)))


def _strictly_compared(right: Any) -> Any:
    """Return a faulty comparison: > for >=, < for <=."""
    others = {"ge": "gt", "le": "lt"}
    return lambda dtype, direction, **how: right(
        dtype, others.get(direction, direction), **how
    )


def _last_position(right: Any) -> Any:
    """Return a faulty argmax lowering that gives the last of equal elements."""

    def first_position(low: Any, axis: int, dtype: str) -> Any:
        equal = scalars.comparison(dtype, "eq")

        def body(value: Value, extreme: Value, so_far: Value) -> Value:
            here = arith.index_cast(
                ir.IntegerType.get_signless(32), low.loop_index(axis)
            )
            nowhere = low.scalar("i32", reduction._NOWHERE)
            is_none = scalars.int_compare("eq", so_far, nowhere)
            best = arith.select(is_none, here, arith.maxsi(so_far, here))
            return arith.select(equal(value, extreme), best, so_far)

        return body

    return first_position


def _short_of_last(low: Any, number: Any, dtype: str, size: Any) -> Sequence[Any]:
    """Return arguments with a size one too small."""
    return low, number, dtype, size - 1


def _of_processor(x: Value, y: Value) -> Value:
    """Emit the CPU's division, which rounds toward zero."""
    return arith.divsi(x, y)


def _never_infinite(x: Value, y: Value) -> Value:
    """Emit a division that is finite for a zero divisor."""
    least = scalars.constant(y.type, 1e-30)
    zero = scalars.constant(y.type, 0.0)
    is_zero = scalars.float_compare("OEQ", y, zero)
    return arith.divf(x, arith.select(is_zero, least, y))


def _keep_old_states(right: Any) -> Any:
    """Return a faulty pass that returns each state's old value, besides its usual
    work.
    """

    def run(self: Any, unit: Any) -> bool:
        right(self, unit)
        functions = functions_of(unit.module)
        for entry in unit.program.entries:
            block = functions[entry.name].entry_block
            ports = zip(entry.arguments, block.arguments, strict=True)
            old = {port.name: value for port, value in ports}
            returned = block.operations[len(block.operations) - 1].operation.operands
            for number, port in enumerate(entry.results):
                if port.kind == "state":
                    returned[number] = old[port.name]
        return True

    return run


FAULTS = [
    Fault(
        "halves are rounded up, not to even", "IREE", "rounded",
        OPS["round_even"], "lower", lowered_as(_nearest_up),
    ),
    Fault(
        "the sign of 0 is 1", "IREE", "signs",
        OPS["sign"], "lower", lowered_as(_sign_of_bit),
    ),
    Fault(
        "at least means more than", "IREE", "at_least",
        scalars, "comparison", _strictly_compared,
        frozenset({"between", "first_of_greatest", "written_at", "of_seen", "power"}),
    ),
    Fault(
        "the last of equal elements is the greatest", "IREE", "first_of_greatest",
        reduction, "_first_position", _last_position,
    ),
    Fault(
        "0 ** 0 is NaN", "IREE", "power",
        OPS["power"], "lower", lowered_as(_power_by_logarithm),
    ),
    Fault(
        "the last row of a table is not reached", "IREE", "rows_of_table",
        indexing, "checked_index", given(_short_of_last),
    ),
    Fault(
        "the last position of a cache is not reached", "IREE", "written_at",
        dynamic, "checked_index", given(_short_of_last),
    ),
    Fault(
        "a division of integers by 0 is the processor's", "IREE", "divided",
        OPS["divide"], "lower", lowered_as(_of_processor),
        frozenset({"inverse", "quantization"}),  # which divide floats
    ),
    Fault(
        "1 / 0 is a number", "IREE", "inverse",
        OPS["divide"], "lower", lowered_as(_never_infinite), frozenset({"divided"}),
    ),
    Fault(
        "the greatest of nothing that is seen is a number", "IREE", "of_seen",
        OPS["select"], "lower",
        lambda right: lambda low, op, *x: _select_finite(right, low, op, *x),
        frozenset({"at_least", "written_at", "power", "divided"}),
    ),
    Fault(
        "of updates that meet, the greatest is kept", "IREE", "added_at",
        scatters.Scattering, "combine",
        lambda right: lambda self: arith.maximumf,
    ),
    Fault(
        "a block of running sums adds its own total, not that before", "IREE",
        "running", scans.ScanLowering, "_delay",
        lambda right: lambda self, total, blocks: total,
    ),
    Fault(
        "a state stays as it was", "IREE", "counted",
        UpdateInPlace, "run", _keep_old_states,
    ),
    Fault(
        "the upper bound is not held", "IREE", "between",
        OPS["clamp"], "lower",
        lambda right: lambda low, op, x, *limits: low.pointwise(
            [x], Tensor.of(op.results[0]),
            lambda e: arith.maximumf(e, scalars.constant(e.type, -1.0)),
        ),
        frozenset({"chain"}),
    ),
]  # fmt: skip


def _select_finite(right: Any, low: Any, op: Any, *operands: Value) -> Value:
    """Emit the right result, clamped to finite numbers."""
    found = right(low, op, *operands)
    kind = Tensor.of(op.results[0])
    if kind.dtype != "f32":
        return found
    return low.pointwise(
        [found], kind,
        lambda e: arith.maximumf(e, scalars.constant(e.type, -3e38)),
    )  # fmt: skip
