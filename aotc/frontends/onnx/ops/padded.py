"""Operators on values whose sizes depend on values: one rule for each that has one.

The functions take what those of the other families take; arrays may be `Padded`, and
known sizes may be ones that values decide. An operator that is not here is refused for
such inputs; see `aotc.frontends.padded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from aotc import dtypes, nn
from aotc import numpy as np
from aotc.dialects.types import element_count
from aotc.frontends.array import Array
from aotc.frontends.onnx.calling import Imports
from aotc.frontends.onnx.elements import element
from aotc.frontends.onnx.ops import (
    activations,
    narrow,
    normalization,
    shaping,
    wiring,
)
from aotc.frontends.onnx.ops import (
    elementwise as by_element,
)
from aotc.frontends.onnx.ops import (
    indexing as plain,
)
from aotc.frontends.onnx.ops import (
    reduction as plain_reductions,
)
from aotc.frontends.onnx.values import Known, Sizes, integers, number, numbers, sized
from aotc.frontends.padded import axes, cutting, indexing, products, reductions, sources
from aotc.frontends.padded.elementwise import elementwise, row_by_row
from aotc.frontends.padded.sizes import bound_of, count_of, is_data_dependent
from aotc.frontends.padded.values import (
    Padded,
    Value,
    from_first,
    in_dtype,
    refuse,
)
from aotc.numpy.elementwise import root_of_squares
from aotc.special import logsumexp

# ---- shapes -------------------------------------------------------------------------


def shape(
    x: Value, *, start: int = 0, end: int | None = None
) -> Array | Sizes | Padded:
    """The sizes of x."""
    return sized(list(x.shape[start:end]))


def size(x: Value) -> Array | Sizes | Padded:
    """The number of elements of x."""
    return sized(element_count(x.shape))


def reshape(
    x: Value,
    sizes: Known | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    allowzero: int = 0,
) -> Value:
    """`x` in another shape: -1 is what remains, 0 the size that x has there."""
    wanted = tuple(shape or ()) if sizes is None else integers(sizes)
    if not allowzero:
        wanted = tuple(
            x.shape[i] if isinstance(n, int) and n == 0 else n
            for i, n in enumerate(wanted)
        )
    return axes.reshaped(x, wanted)


def flatten(x: Value, *, axis: int = 1) -> Value:
    """`x` as a matrix, whose rows are the axes before `axis`."""
    cut = axis + len(x.shape) if axis < 0 else axis
    rows, columns = element_count(x.shape[:cut]), element_count(x.shape[cut:])
    return axes.reshaped(x, (rows, columns))


def squeeze(
    x: Value, listed: Known | None = None, *, axes: tuple[int, ...] | None = None
) -> Value:
    """`x` without axes of size 1."""
    given = axes if listed is None else numbers(listed)
    return _squeezed(x, None if given is None else tuple(given))


_squeezed = axes.squeezed


def unsqueeze(
    x: Value, listed: Known | None = None, *, axes: tuple[int, ...] = ()
) -> Value:
    """`x` with new axes of size 1, at their places in the result."""
    return _unsqueezed(x, tuple(axes if listed is None else numbers(listed)))


_unsqueezed = axes.unsqueezed


def transpose(x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    """The axes in another order."""
    return axes.transposed(x, perm)


def expand(x: Value, shape: Known) -> Value:
    """`x` broadcast with a shape, in both directions."""
    wanted = integers(shape)
    rank = max(len(x.shape), len(wanted))
    own = (*[1] * (rank - len(x.shape)), *x.shape)
    other = (*[1] * (rank - len(wanted)), *wanted)
    pairs = zip(own, other, strict=True)
    return axes.expanded(x, [a if b == 1 else b for a, b in pairs])


def concat(*xs: Value, axis: int = 1) -> Value:
    """The inputs one after the other."""
    return axes.concatenated(xs, axis)


def slice_(
    x: Value,
    first: Known | None = None,
    last: Known | None = None,
    along: Known | None = None,
    by: Known | None = None,
    *,
    starts: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    axes: tuple[int, ...] | None = None,
) -> Value:
    """Every so many elements of some axes, from one position to another."""
    begin = starts if first is None else integers(first)
    stop = ends if last is None else integers(last)
    which = axes if along is None else numbers(along)
    where = range(len(begin)) if which is None else which
    steps = [1] * len(begin) if by is None else numbers(by)
    for axis, start, end, step in zip(where, begin, stop, steps, strict=True):
        span = shaping.span(start, end, step, x.shape[axis])
        x = cutting.sliced(x, axis, span.start, span.stop, step)
    return x


def constant_of_shape(shape: Known, *, value: Array | None = None) -> Value:
    """One number in every element."""
    return axes.filled_to(
        lambda sizes: wiring.constant_of_shape(
            numpy.asarray(sizes, object), value=value
        ),
        integers(shape),
    )


def range_(start: Known, limit: Known, delta: Known) -> Value:
    """`start`, `start + 1`, … before the limit."""
    first, last, step = (shaping.integers_or_floats(x) for x in (start, limit, delta))
    if step != 1:
        refuse("a range with a step whose end depends on values", "multiply the range")
    length = cutting.length_between(first, last)
    line = np.arange(bound_of(length), dtype="i64")
    return from_first(np.add(line, count_of(first)), (length,))


# ---- reductions ---------------------------------------------------------------------


def _reduces(rule: Callable[[Padded, Any, bool], Value]) -> Imports:
    def reduced(
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

    return reduced


def _over(
    function: Callable[..., Any], neutral: Callable[[str], Any]
) -> Callable[[Padded, Any, bool], Value]:
    def rule(x: Padded, along: Any, keepdims: bool) -> Value:
        found = reductions.reduced(function, x, along, keepdims, neutral(x.dtype))
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

    def reduced(data: Array, along: Any, keepdims: bool) -> Array:
        own = by_truth if data.dtype == "bool" else function
        return own(data, along, keepdims=keepdims)

    return _over(reduced, neutral)


def _positions(function: Callable[..., Array], neutral: Callable[[str], Any]) -> Any:
    def found(
        x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        if not isinstance(x, Padded) or select_last_index:
            refuse("the last of equal elements along padding", "take the first one")
        reductions.require_elements(x, axis)

        def positions(data: Array, along: Any, keepdims: bool) -> Array:
            return np.astype(function(data, axis, keepdims=keepdims), "i64")

        return reductions.reduced(  # type: ignore[no-any-return]
            positions, x, axis, bool(keepdims), neutral(x.dtype)
        )

    return found


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
        return reductions.scanned(function, x, along, neutral)

    return running


def _softmax(function: Callable[..., Array]) -> Imports:
    def shared_out(x: Value, *, axis: int | None = None, opset: int) -> Value:
        if opset < 13 or not isinstance(x, Padded):
            refuse(
                "a softmax over several axes at once", "export with opset 13 or more"
            )
        return reductions.shared_out(function, x, -1 if axis is None else axis)

    return shared_out


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


# ---- positions ----------------------------------------------------------------------


def nonzero(x: Value) -> Value:
    """The positions of the elements that are not 0: a row for each axis."""
    return axes.stacked(sources.true_positions(x), 0)


def compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The elements, or slices, for which the condition holds."""
    (places,) = sources.true_positions(condition)
    if axis is None:
        x, axis = axes.reshaped(x, (-1,)), 0
    return indexing.taken(x, axis, places)


def unique(
    x: Value, *, axis: int | None = None, sorted: int = 1
) -> tuple[Value, Value, Value, Value]:
    """The distinct elements, the first of each, which each is, and how many."""
    if axis is not None or not sorted:
        refuse(
            "distinct slices of an axis, or distinct elements in the order in which "
            "they come",
            "take the distinct elements of all in rising order",
        )
    values, first, inverse, counts = sources.distinct(x)
    return values, first, axes.reshaped(inverse, (-1,)), counts


def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """`x` at positions of one axis."""
    return indexing.taken(x, axis, indices)


def gather_elements(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """`x` at positions of one axis, each within its own place on the others."""

    def function(data: Array, places: Array) -> Array:
        return plain.gather_elements(data, places, axis=axis)

    return indexing.gathered(function, x, axis, indices)


def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """`x` at positions of several axes; the last axis of the indices lists them."""
    if batch_dims:
        refuse("positions within each element of a batch", "number them through")
    return indexing.indexed(x, _columns(indices))


def _columns(indices: Value) -> list[Value]:
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        refuse("positions of as many axes as values decide", "list the axes")
    return [cutting.selected(indices, -1, number) for number in range(depth)]


def scatter_elements(
    x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """`x` with updates at positions of one axis."""

    def function(data: Array, places: Array, values: Array) -> Array:
        return plain.scatter_elements(
            data, places, values, axis=axis, reduction=reduction
        )

    return indexing.scattered(function, x, axis, indices, updates)


def scatter_nd(
    x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    """`x` with updates at positions of several axes."""
    write = plain.write_of(reduction)
    return indexing.written(x, _columns(indices), updates, write)


# ---- products -----------------------------------------------------------------------


def gemm(
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803
) -> Value:
    """`alpha a b + beta c` of matrices that may be transposed first."""
    left = axes.transposed(a) if transA else a
    right = axes.transposed(b) if transB else b
    found = _times(products.multiplied(left, right), alpha)
    return found if c is None else _added(found, _times(c, beta))


def einsum(*xs: Value, equation: str) -> Value:
    """Einstein's sum convention."""

    def function(*arrays: Array) -> Array:
        return np.einsum(equation.replace(" ", ""), *arrays)

    return products.contracted(function, equation, xs)


_added = elementwise(np.add)


def _times(x: Value, factor: float) -> Value:
    if factor == 1:
        return x
    whole = factor if dtypes.is_float(x.dtype) else int(factor)
    return elementwise(np.multiply)(x, whole)  # type: ignore[no-any-return]


def _normalized_axes(x: Padded, *_: Any, axis: int = -1, **__: Any) -> range:
    return range(axis % x.ndim, x.ndim)


def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """`x` as values of ONNX's element type number `to`."""
    if element(to).narrow:
        refuse(f"{element(to).name} of a size that depends on values", "cast it later")
    return _cast(x, to=to, saturate=saturate, round_mode=round_mode)  # type: ignore[no-any-return]


_cast = elementwise(narrow.cast)

# ---- the table ----------------------------------------------------------------------

_ACROSS = {"Hardmax", "LogSoftmax", "Softmax"}  # activations along an axis


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


PADDED: dict[str, Imports] = {
    **{key: elementwise(function) for key, function in by_element.TABLE.items()},
    **{
        key: elementwise(function)
        for key, function in activations.TABLE.items()
        if key not in _ACROSS
    },
    "Identity": elementwise(wiring.identity),
    "Cast": cast,
    "Shape": shape,
    "Size": size,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Expand": expand,
    "Concat": concat,
    "Slice": slice_,
    "ConstantOfShape": constant_of_shape,
    "Range": range_,
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
    "NonZero": nonzero,
    "Compress": compress,
    "Unique": unique,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Einsum": einsum,
    "MatMul": products.multiplied,
    "Gemm": gemm,
    "LayerNormalization": row_by_row(
        normalization.layer_normalization, _normalized_axes
    ),
}
