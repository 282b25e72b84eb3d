"""Operators on symbolic sizes: from `Shape` until `Reshape` and others use them.

ONNX models compute shapes with tensors. Where these hold sizes that only a call
decides, the operators here compute with the sizes themselves, as NumPy arrays of
objects. An operator that is not here, or whose result the contracts do not decide, is
left to the running model.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import Size, SymbolicDim, maximum, minimum
from aotc.errors import InputError
from aotc.importers.common.known_sizes import (
    divide,
    elementwise,
    is_equal,
    modulo,
    select,
    whole,
)
from aotc.importers.common.padded import is_data_dependent
from aotc.importers.common.scaling import SymbolicFloat, rounding
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.graph import OnnxNode
from aotc.importers.onnx.values import Known, SizeTensor, Value, known_of, size_tensor
from aotc.tracing.conversion import ArrayLike

_LARGEST = 256  # elements of a tensor of sizes


class _LeftToModel(Exception):
    """Raised if an operator's result on sizes must be computed by the running model."""


def computed_sizes(
    node: OnnxNode, values: Sequence[Value | None], attributes: Mapping[str, object]
) -> list[Value] | None:
    """Return a node's results computed on symbolic sizes; None if that is not
    possible.
    """
    if node.key not in ON_SIZES or not any(isinstance(v, SizeTensor) for v in values):
        return None
    known = [None if value is None else _elements(value) for value in values]
    if any(k is None for k, v in zip(known, values, strict=True) if v is not None):
        return None
    if any(k is not None and k.size > _LARGEST for k in known):
        return None
    dtype = _dtype(node, values, attributes)
    function = ON_SIZES[node.key]
    if node.key in _IN_FLOATS and dtypes.is_float(dtype):
        function = _of_floats(_IN_FLOATS[node.key], dtype)
    given = [k if k is None else k.astype(object) for k in known]
    try:
        found = function(*given, **attributes)
    except (_LeftToModel, InputError, TypeError):
        return None
    results = found if isinstance(found, list) else [found]
    return [size_tensor(result, dtype) for result in results]


def _elements(value: Value) -> Known | None:
    """Return a value's elements where they are numbers or sizes; None otherwise."""
    return value.data if isinstance(value, SizeTensor) else known_of(value)


def _dtype(
    node: OnnxNode, values: Sequence[Value | None], attributes: Mapping[str, Any]
) -> str:
    """Return the dtype of a node's result on sizes."""
    if node.key in _COMPARISONS:
        return "bool"
    if node.key == "Cast":
        return element(attributes["to"]).dtype
    # of Where the first is the condition
    return next(v.dtype for v in reversed(values) if isinstance(v, SizeTensor))


# ---- arithmetic ---------------------------------------------------------------------


def _of_sizes(function: Callable[..., object], arity: int = 2) -> Callable[..., Known]:
    """Vectorise a function of sizes over tensors; floats must be whole."""
    return elementwise(lambda *sizes: function(*map(_as_size, sizes)), arity)


def _as_size(x: Any) -> Size:
    """Return a number or size as an integer; raise _LeftToModel for unrounded ones."""
    if isinstance(x, SymbolicFloat):
        raise _LeftToModel
    return whole(x)


def _of_floats(function: Callable[..., object], dtype: str) -> Callable[..., Known]:
    """Vectorise an arithmetic function over tensors of floats computed from sizes."""

    def call(a: Any, b: Any) -> Any:
        if function is not operator.truediv and _is_whole(a) and _is_whole(b):
            return function(whole(a), whole(b))
        return function(_as_float(a, dtype), _as_float(b, dtype))

    return elementwise(call)


def _is_whole(x: Known) -> bool:
    """Return whether an element is a size or a whole number."""
    return not isinstance(x, SymbolicFloat) and (
        isinstance(x, SymbolicDim) or float(x).is_integer()
    )


def _as_float(x: ArrayLike, dtype: str) -> Any:
    """Return a size or number as a (symbolic) float; raise _LeftToModel if that
    fails.
    """
    if dtype not in ("f32", "f64"):
        raise _LeftToModel
    kind = dtypes.to_numpy(dtype).type
    if isinstance(x, SymbolicDim):
        if is_data_dependent(x):
            raise _LeftToModel
        return SymbolicFloat(x, kind)
    return x if isinstance(x, SymbolicFloat) else kind(x)


def _variadic(function: Callable[[Size, Size], Size]) -> Callable[..., Known]:
    """Extend a function of two sizes to any number of tensors of sizes."""
    return lambda *xs: reduce(_of_sizes(function), xs)


def _round(function: Callable[..., int]) -> Callable[..., Known]:
    """Vectorise a rounding function over tensors of sizes and symbolic floats."""
    return elementwise(rounding(function), 1)


def _cast(x: Known, *, to: int, **_: object) -> Known:
    """Return sizes cast to ONNX's element type number `to`; raise _LeftToModel if
    unsupported.
    """
    dtype = element(to).dtype
    if dtype in ("i32", "i64"):
        return _round(math.trunc)(x)
    kinds = {each.kind for each in x.reshape(-1) if isinstance(each, SymbolicFloat)}
    if dtypes.is_float(dtype) and kinds <= {dtypes.to_numpy(dtype).type}:
        return x
    raise _LeftToModel


# ---- movement -----------------------------------------------------------------------


def _ints(x: Known) -> list[int]:
    """Return elements as Python integers; raise _LeftToModel if one is symbolic."""
    if any(isinstance(size, SymbolicDim) for size in x.reshape(-1)):
        raise _LeftToModel
    return [int(size) for size in x.reshape(-1)]


def _gather(x: Known, indices: Known, *, axis: int = 0) -> Known:
    """Return the Gather of a tensor of sizes."""
    at = np.asarray(_ints(indices), int).reshape(indices.shape)
    return np.asarray(np.take(x, at, axis), object)


def _concat(*xs: Known, axis: int) -> Known:
    """Return the Concat of tensors of sizes."""
    return np.concatenate(xs, axis)


def _slice(
    x: Known,
    starts: Known,
    ends: Known,
    axes: Known | None = None,
    steps: Known | None = None,
) -> Known:
    """Return the Slice of a tensor of sizes."""
    first, last = _ints(starts), _ints(ends)
    along = range(len(first)) if axes is None else _ints(axes)
    by = [1] * len(first) if steps is None else _ints(steps)
    key = [slice(None)] * x.ndim
    for axis, *span in zip(along, first, last, by, strict=True):
        start, end, step = span
        # further than the first element is up to it
        to_first = step < 0 and end < -x.shape[axis]
        key[axis] = slice(start, None if to_first else end, step)
    return x[tuple(key)]


def _slice_10(x: Known, *parts: object, **named: object) -> Known:
    """Return the Slice of a tensor of sizes, by inputs or (before opset 10)
    attributes.
    """
    given = [np.asarray(named[n], object) for n in ("starts", "ends") if n in named]
    axes = [np.asarray(named["axes"], object)] if "axes" in named else []
    return _slice(x, *given, *axes, *parts)


def _unsqueeze(
    x: Known, listed: Known | None = None, *, axes: Sequence[int] = ()
) -> Known:
    """Return the Unsqueeze of a tensor of sizes."""
    return np.expand_dims(x, tuple(axes if listed is None else _ints(listed)))


def _squeeze(
    x: Known, listed: Known | None = None, *, axes: Sequence[int] | None = None
) -> Known:
    """Return the Squeeze of a tensor of sizes."""
    places = axes if listed is None else _ints(listed)
    found: Known = np.squeeze(x, None if places is None else tuple(places))
    return found


def _reshape(x: Known, shape: Known, **_: object) -> Known:
    """Return the Reshape of a tensor of sizes."""
    wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(_ints(shape))]
    return x.reshape(wanted)


def _expand(x: Known, shape: Known) -> Known:
    """Return the Expand of a tensor of sizes."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(_ints(shape))))


def _split(
    x: Known, sizes: Known | None = None, *, axis: int = 0, **named: Any
) -> list[Known]:
    """Return the Split of a tensor of sizes, given the lengths of the parts."""
    if sizes is None and "split" not in named:
        raise _LeftToModel
    parts = list(named["split"]) if sizes is None else _ints(sizes)
    return np.split(x, np.cumsum(parts)[:-1], axis)


def _reduction(function: Callable[..., object]) -> Callable[..., Known]:
    """Return a reduction operator on vectors of sizes, made of a function of a list."""

    def reduce_sizes(
        x: Known, axes: object = None, *, keepdims: int = 1, **_: object
    ) -> Known:
        if x.ndim != 1:
            raise _LeftToModel
        found = np.empty((1,) if keepdims else (), object)
        found[...] = function([_as_size(each) for each in x])
        return found

    return reduce_sizes


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "Equal": _of_sizes(is_equal),
    "Less": _of_sizes(operator.lt),
    "LessOrEqual": _of_sizes(operator.le),
    "Greater": _of_sizes(operator.gt),
    "GreaterOrEqual": _of_sizes(operator.ge),
}

# of floats
_IN_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
}

ON_SIZES: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "Add": _of_sizes(operator.add),
    "Sub": _of_sizes(operator.sub),
    "Mul": _of_sizes(operator.mul),
    "Div": _of_sizes(divide),
    "Mod": _of_sizes(modulo),
    "Neg": _of_sizes(operator.neg, 1),
    "Min": _variadic(minimum),
    "Max": _variadic(maximum),
    "Identity": lambda x: x,
    "Floor": _round(math.floor),
    "Ceil": _round(math.ceil),
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice_10,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Expand": _expand,
    "Where": select,
    "Split": _split,
    "ReduceProd": _reduction(math.prod),
    "ReduceSum": _reduction(sum),
    "ReduceMax": _reduction(partial(reduce, maximum)),
    "ReduceMin": _reduction(partial(reduce, minimum)),
}
