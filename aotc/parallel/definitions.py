"""Collectives in NumPy: the part of each device, from the arrays of all.

Sums are taken in the order of the devices, one after the other, and kept in f32 where
elements are narrower: the bits do not depend on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.parallel.engine import Array, Arrays

_FUNCTIONS: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def reduction(arrays: Arrays, kind: str) -> Array:
    """Return the elementwise sum, max or min of arrays, reduced in their order.

    Args:
        arrays: of one shape and dtype.
        kind: `sum`, `max` or `min`.
    """
    function, dtype = _FUNCTIONS[kind], arrays[0].dtype
    is_narrow = kind == "sum" and dtype.itemsize == 2 and dtype.kind not in "iu"
    total = np.array(arrays[0], np.float32 if is_narrow else dtype)
    with np.errstate(all="ignore"):
        for array in arrays[1:]:
            function(total, array.astype(total.dtype, copy=False), out=total)
        return total.astype(dtype, copy=False)


def _block(x: Array, axis: int, count: int, number: int) -> Array:
    """Return slice `number` of `count` equal ones along an axis, as a view."""
    size = x.shape[axis] // count
    where = [slice(None)] * x.ndim
    where[axis] = slice(number * size, (number + 1) * size)
    return x[tuple(where)]


def _all_reduce(request: JsonObject, arrays: Arrays, number: int) -> Array:
    """Return the reduction of all devices' arrays."""
    return reduction(arrays, request["kind"])


def _all_gather(request: JsonObject, arrays: Arrays, number: int) -> Array:
    """Return all devices' arrays, concatenated along an axis."""
    return np.concatenate(arrays, request["axis"])


def _reduce_scatter(request: JsonObject, arrays: Arrays, number: int) -> Array:
    """Return one device's block of the sum of all arrays."""
    count = len(arrays)
    return reduction([_block(x, request["axis"], count, number) for x in arrays], "sum")


def _all_to_all(request: JsonObject, arrays: Arrays, number: int) -> Array:
    """Return one device's blocks of all arrays, concatenated."""
    count, axis = len(arrays), request["split_axis"]
    blocks = [_block(x, axis, count, number) for x in arrays]
    return np.concatenate(blocks, request["concat_axis"])


def _permute(request: JsonObject, arrays: Arrays, number: int) -> Array:
    """Return the array of the device that sends to this one; zeros if none does."""
    sources = dict(zip(request["targets"], request["sources"], strict=True))
    if number not in sources:
        return np.zeros_like(arrays[number])
    return arrays[sources[number]]


_DEFINITIONS: dict[str, Callable[[JsonObject, Arrays, int], Array]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "permute": _permute,
}
_SAME_ON_ALL = ("all_reduce", "all_gather")


def results(asked: JsonObject, arrays: Arrays, numbers: range) -> list[Array]:
    """Compute the result of a collective for some devices, from all devices' arrays.

    Args:
        asked: `op`, which collective it is, and its attributes.
        arrays: of all devices, in their order.
        numbers: of the devices that it is computed for.
    """
    define = _DEFINITIONS[asked["op"]]
    if asked["op"] in _SAME_ON_ALL:
        return [define(asked, arrays, numbers[0])] * len(numbers)
    return [np.array(define(asked, arrays, number)) for number in numbers]
