"""Positions of extremes, running totals and the largest elements, along padding."""

from __future__ import annotations

from aotc.importers.common.padded import reductions
from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.sizes import is_data_dependent, require_elements
from aotc.importers.common.padded.values import Padded, Value, refuse
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import reductions as plain_reductions
from aotc.importers.onnx.values import Known, integers, only_number
from aotc.tracing.array import Array


def _arg_extreme(key: str) -> Imports:
    """Return the import function of ArgMax or ArgMin (`key`) for padded values."""
    function = by_op_rules(plain_reductions.TABLE[key])

    def extreme_position(
        x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        with require_elements([x.shape[axis]]):
            return function(  # type: ignore[no-any-return]
                x, axis=axis, keepdims=keepdims, select_last_index=select_last_index
            )

    return extreme_position


def _cumulative(key: str, neutral: int) -> Imports:
    """Return the import function of the cumulative operator `key` for padded values."""
    plainly = plain_reductions.TABLE[key]

    def running(
        x: Value, axis: Known, *, exclusive: int = 0, reverse: int = 0
    ) -> Value:
        def function(data: Array, _: int) -> Array:
            found = plainly(data, axis, exclusive=exclusive, reverse=reverse)
            assert isinstance(found, Array)
            return found

        assert isinstance(x, Padded), "the axis is known"
        along = int(only_number(axis))
        return reductions.running_reduction(function, x, along, neutral)

    return running


def top_k(
    x: Value, count: Known, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> list[Value]:
    """Return the k largest (or smallest) elements along an axis, and their indices."""
    wanted = integers(count)[0]
    if is_data_dependent(wanted):
        refuse("as many elements as a size says are taken", "give a number")
    with require_elements([x.shape[axis]], wanted.__index__()):
        return by_op_rules(plain_reductions.top_k)(  # type: ignore[no-any-return]
            x, count, axis=axis, largest=largest
        )


TABLE: dict[str, Imports] = {
    "ArgMax": _arg_extreme("ArgMax"),
    "ArgMin": _arg_extreme("ArgMin"),
    "CumSum": _cumulative("CumSum", 0),
    "CumProd": _cumulative("CumProd", 1),
    "TopK": top_k,
}
