"""Formulas of a row: norms and softmax on vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import LogSoftmax, Normalize
from aotc.dialects.ops.quantization import ByteSoftmax
from aotc.dialects.ops.reduction import ReduceMax, ReduceSum
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.elementary import exp_of_negative
from aotc.kernels.cpu.lookup import share_lookup
from aotc.kernels.cpu.rows.walk import Combination, Walk
from aotc.kernels.cpu.vectors import Values, add
from aotc.mlir import Value, arith, math

# Where a vector begins in the row, how many of its lanes there are → the vector.
Read = Callable[[Value, int], Value]


@dataclass(frozen=True)
class Kept:
    """Memory of f32 in which a row is kept for a later pass.

    Args:
        memory: that holds it.
        begin: where the row begins in it.
    """

    memory: Value
    begin: Value


@dataclass(frozen=True)
class RowState:
    """A row during its passes: how elements are read, and where kept.

    Args:
        walk: goes through it.
        kept: where something may be kept; None where each pass computes it. `read` is
            undefined where something has been.
        read_first: its elements, as the first pass has them.
        read: the same in later passes.
    """

    walk: Walk
    kept: Kept | None
    read_first: Read
    read: Read

    def keep(self, x: Value, at: Value, count: int) -> None:
        """Emit the store of a vector that later passes read."""
        assert self.kept is not None
        begin, lanes = self.kept.begin, self.walk.lanes
        vectors.store(x, self.kept.memory, add(begin, at), lanes, count)

    def read_kept(self, at: Value, count: int) -> Value:
        """Emit the load of a kept vector."""
        assert self.kept is not None
        begin, lanes = self.kept.begin, self.walk.lanes
        return vectors.load(self.kept.memory, add(begin, at), lanes, count)

    def reduce(self, combination: Combination, element: Read) -> Value:
        """Emit the reduction of the whole row to one number, in all lanes."""
        parts = self.walk.reduce(combination, lambda at, count: [element(at, count)])
        return vectors.reduce_lanes(parts, combination.combine)

    def splat(self, value: float) -> Value:
        """Emit a constant in all lanes."""
        return vectors.splat(value, self.walk.lanes)


# a sum with it rounds to a multiple of 2**12
_UPPER_HALF = 1.5 * 2.0 ** (23 + 12)
_SUM, _MAXIMUM = Combination.of(ReduceSum), Combination.of(ReduceMax)


@dataclass(frozen=True)
class Formula:
    """The results of a softmax or norm: a function for vectors, and statistics.

    Args:
        result: of each vector of it.
        statistics: the numbers that are further results of the op, in all lanes.
    """

    result: Read
    statistics: Sequence[Value] = ()


def formula(op: GraphOp, row: RowState) -> Formula:
    """Emit the passes of an op over a row; return functions for its results."""
    if isinstance(op, Normalize):
        return _normalize(op, row)
    if isinstance(op, ByteSoftmax):
        return Formula(_byte_softmax(op, row))
    return Formula(_log_softmax(row) if isinstance(op, LogSoftmax) else _softmax(row))


def _softmax(row: RowState) -> Read:
    """Emit a row's softmax up to its sum; return a function for its vectors.

    A row with NaN or infinity, or of nothing but -infinity, is NaN, as x - max x is.
    """
    highest = row.reduce(_MAXIMUM, row.read_first)

    def power(at: Value, count: int) -> Value:
        return exp_of_negative(arith.subf(row.read(at, count), highest))

    def power_and_keep(at: Value, count: int) -> Value:
        found = power(at, count)
        row.keep(found, at, count)
        return found

    first, later = power, power
    if row.kept is not None:
        first, later = power_and_keep, row.read_kept
    factor = arith.divf(row.splat(1.0), row.reduce(_SUM, first))
    return lambda at, count: arith.mulf(later(at, count), factor)


def _byte_softmax(op: ByteSoftmax, row: RowState) -> Read:
    """Emit a softmax of bytes by table, up to its sum; return a vector function.

    A sum of whole numbers of 24 bits is exact in two parts: of their upper halves, and
    of what these leave. It is rounded where the two are added.
    """
    take = share_lookup(op.step, row.walk.lanes)
    highest = row.reduce(_MAXIMUM, row.read_first)
    whole = row.splat(_UPPER_HALF)

    def share(at: Value, count: int) -> Value:
        below = arith.subf(highest, row.read(at, count))
        inside = vectors.select_first(below, count, 0.0)  # others read their entries
        return take(inside)

    def halves(at: Value, count: int) -> Values:
        found = share(at, count)
        if row.kept is not None:
            row.keep(found, at, count)
        upper = arith.subf(arith.addf(found, whole), whole)
        return [upper, arith.subf(found, upper)]

    parts = replace(row.walk, rows=2).reduce(_SUM, halves)
    total = arith.addf(*(vectors.reduce_lanes([x], _SUM.combine) for x in parts))
    later = share if row.kept is None else row.read_kept
    return lambda at, count: arith.divf(later(at, count), total)


def _log_softmax(row: RowState) -> Read:
    """Emit a row's log-softmax up to its sum; return a function for its vectors."""
    highest = row.reduce(_MAXIMUM, row.read_first)

    def shifted(at: Value, count: int) -> Value:
        return arith.subf(row.read(at, count), highest)

    def power(at: Value, count: int) -> Value:
        return exp_of_negative(shifted(at, count))

    logarithm = math.log(row.reduce(_SUM, power))
    return lambda at, count: arith.subf(shifted(at, count), logarithm)


def _normalize(op: Normalize, row: RowState) -> Formula:
    """Emit a row's mean and variance; return a function for normalised vectors."""
    length = row.splat(row.walk.length)

    def mean_of(element: Read) -> Value:
        return arith.divf(row.reduce(_SUM, element), length)

    mean = mean_of(row.read_first) if op.centered else None

    def shifted(x: Value) -> Value:
        return x if mean is None else arith.subf(x, mean)

    def square(at: Value, count: int) -> Value:
        x = shifted((row.read if op.centered else row.read_first)(at, count))
        return arith.mulf(x, x)

    variance = mean_of(square)
    deviation = math.sqrt(arith.addf(variance, row.splat(op.epsilon)))
    factor = arith.divf(row.splat(1.0), deviation)
    return Formula(
        lambda at, count: arith.mulf(shifted(row.read(at, count)), factor),
        (row.splat(0.0) if mean is None else mean, variance),
    )
