"""Reductions and scans along axes, of which some are padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.common.padded import reductions
from aotc.importers.common.padded.sizes import is_data_dependent
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    in_dtype,
    refuse,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import (
    reductions as plain_reductions,
)
from aotc.importers.onnx.values import Known, integers, number, numbers
from aotc.numpy.elementwise import root_of_squares
from aotc.special import logsumexp
from aotc.tracing.array import Array


def _reduces(rule: Callable[[Padded, Any, bool], Value]) -> Imports:
    def reduction(
        x: Value,
        listed: Known | None = None,
        *,
        axes: tuple[int, ...] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Value:
        given = axes if listed is None else numbers(listed)
        if not isinstance(x, Padded) or (not given and noop_with_empty_axes):
            refuse("a reduction over no axes", "leave it out")
        return rule(x, tuple(given) if given else None, bool(keepdims))

    return reduction


def _over(
    function: Callable[..., Any], neutral: Callable[[str], Any]
) -> Callable[[Padded, Any, bool], Value]:
    def rule(x: Padded, along: Any, keepdims: bool) -> Value:
        found = reductions.reduce(function, x, along, keepdims, neutral(x.dtype))
        assert isinstance(found, (Array, Padded)), "a reduction has one result"
        return found

    return rule


def _mean(x: Padded, along: Any, keepdims: bool) -> Value:
    if dtypes.is_float(x.dtype):
        return reductions.mean(x, along, keepdims)
    wide = reductions.mean(Padded(np.astype(x.data, "f64"), x.shape), along, keepdims)
    return in_dtype(wide, x.dtype)


def _extreme(function: Callable[..., Array], neutral: Callable[[str], Any]) -> Any:
    by_truth = np.any if function is np.max else np.all

    def extreme(data: Array, along: Any, keepdims: bool) -> Array:
        own = by_truth if data.dtype == "bool" else function
        return own(data, along, keepdims=keepdims)

    return _over(extreme, neutral)


def _positions(function: Callable[..., Array], neutral: Callable[[str], Any]) -> Any:
    def extreme_position(
        x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        if not isinstance(x, Padded) or select_last_index:
            refuse("the last of equal elements along padding", "take the first one")
        reductions.require_elements(x, axis)

        def positions(data: Array, along: Any, keepdims: bool) -> Array:
            return np.astype(function(data, axis, keepdims=keepdims), "i64")

        return reductions.reduce(  # type: ignore[no-any-return]
            positions, x, axis, bool(keepdims), neutral(x.dtype)
        )

    return extreme_position


def _running(key: str, neutral: int) -> Imports:
    plainly = plain_reductions.TABLE[key]

    def running(
        x: Value, axis: Known, *, exclusive: int = 0, reverse: int = 0
    ) -> Value:
        along = int(number(axis)) % len(x.shape)

        def function(data: Array, _: int) -> Array:
            found: Array = plainly(data, axis, exclusive=exclusive, reverse=reverse)
            return found

        assert isinstance(x, Padded), "the axis is known"
        return reductions.running_reduction(function, x, along, neutral)

    return running


def _softmax(function: Callable[..., Array]) -> Imports:
    def softmax(x: Value, *, axis: int | None = None, opset: int) -> Value:
        if opset < 13 or not isinstance(x, Padded):
            refuse(
                "a softmax over several axes at once", "export with opset 13 or more"
            )
        return reductions.softmax(function, x, -1 if axis is None else axis)

    return softmax


def top_k(
    x: Value, count: Known, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> list[Value]:
    """The k largest elements, and where they are."""
    wanted = integers(count)[0]
    if not isinstance(x, Padded) or is_data_dependent(wanted):
        refuse("as many elements as a size says are taken", "give a number")

    def function(data: Array) -> Any:
        return plain_reductions.top_k(data, count, axis=axis, largest=largest)

    return reductions.most_extreme(function, x, wanted.__index__(), axis, bool(largest))


def _log_sum(data: Array, along: Any, keepdims: bool) -> Array:
    return np.log(np.sum(data, along, keepdims=keepdims))


def _sum_square(data: Array, along: Any, keepdims: bool) -> Array:
    return np.sum(np.square(data), along, keepdims=keepdims)


def _l1(data: Array, along: Any, keepdims: bool) -> Array:
    return np.sum(np.absolute(data), along, keepdims=keepdims)


def _l2(data: Array, along: Any, keepdims: bool) -> Array:
    return root_of_squares(_sum_square(data, along, keepdims))


def _zero(dtype: str) -> int:
    return 0


TABLE: dict[str, Imports] = {
    "ReduceSum": _reduces(_over(np.sum, _zero)),
    "ReduceProd": _reduces(_over(np.prod, lambda dtype: 1)),
    "ReduceMean": _reduces(_mean),
    "ReduceMax": _reduces(_extreme(np.max, reductions.lowest)),
    "ReduceMin": _reduces(_extreme(np.min, reductions.highest)),
    "ReduceL1": _reduces(_over(_l1, _zero)),
    "ReduceL2": _reduces(_over(_l2, _zero)),
    "ReduceSumSquare": _reduces(_over(_sum_square, _zero)),
    "ReduceLogSum": _reduces(_over(_log_sum, _zero)),
    "ReduceLogSumExp": _reduces(_over(logsumexp, reductions.lowest)),
    "ArgMax": _positions(np.argmax, reductions.lowest),
    "ArgMin": _positions(np.argmin, reductions.highest),
    "CumSum": _running("CumSum", 0),
    "CumProd": _running("CumProd", 1),
    "Softmax": _softmax(nn.softmax),
    "LogSoftmax": _softmax(nn.log_softmax),
    "TopK": top_k,
}
