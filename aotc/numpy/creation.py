"""Functions of `aotc.numpy` that make arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    bounds,
    ceil_divide,
    format_shape,
)
from aotc.numpy.broadcasting import ShapeLike, as_shape, broadcast_arrays, broadcast_to
from aotc.numpy.elementwise import add, floor_divide, multiply, remainder
from aotc.numpy.joining import stack
from aotc.numpy.positions import integers, true_positions
from aotc.numpy.shaping import ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import in_compiler_sizes
from aotc.tracing.conversion import ArrayLike, astype, is_weak, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "arange", "asarray", "copy", "empty", "empty_like", "fromfunction", "full",
    "full_like", "geomspace", "indices", "ix_", "linspace", "logspace", "meshgrid",
    "ones", "ones_like", "ravel_multi_index", "unravel_index", "vander", "zeros",
    "zeros_like",
]  # fmt: skip

# of an array whose positions are i32
_MOST_NUMBERS = 2**31 - 1


def asarray(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Convert `a` to an array; nested lists may hold arrays."""
    wanted = None if dtype is None else dtypes.canonical_dtype(dtype)
    if isinstance(a, (list, tuple)) and any(_is_array(part) for part in a):
        made = _stack_parts(a)
    else:
        made = lift(a, wanted)
    return made if wanted is None else astype(made, wanted)


def copy(a: ArrayLike) -> Array:
    """`a` as an array; arrays never change, so nothing is copied."""
    return asarray(a)


def _stack_parts(parts: Sequence[ArrayLike]) -> Array:
    """Stack a list that holds arrays; plain numbers take their dtype."""
    return stack([part if is_weak(part) else asarray(part) for part in parts])


def _is_array(part: object) -> bool:
    """Return whether a nested list holds an array or symbolic size."""
    if isinstance(part, (list, tuple)):
        return any(map(_is_array, part))
    return isinstance(part, (Array, SymbolicDim))


def full(
    shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = None
) -> Array:
    """`fill_value` in every element of a new array."""
    return broadcast_to(asarray(fill_value, dtype), as_shape(shape))


def zeros(shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
    """Return zeros, in a shape of ints and symbolic sizes.

    Raises:
        InputError: `bad-shape` for a negative size, `unknown-dtype`.
    """
    return full(shape, 0, "f32" if dtype is None else dtype)


def empty(shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
    """Return zeros: nothing here has a value that is not decided."""
    return zeros(shape, dtype)


def ones(shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
    """Return ones, in a shape of ints and symbolic sizes; raises like `zeros`."""
    return full(shape, 1, "f32" if dtype is None else dtype)


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None
) -> Array:
    """`fill_value` in every element of an array like `a`."""
    like = lift(a)
    return full(like.shape, fill_value, like.dtype if dtype is None else dtype)


def zeros_like(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Return zeros in the shape and dtype of `a`."""
    return full_like(a, 0, dtype)


def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Return zeros in the shape and dtype of `prototype`."""
    return zeros_like(prototype, dtype)


def ones_like(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Return ones in the shape and dtype of `a`."""
    return full_like(a, 1, dtype)


def arange(
    start: float | SymbolicDim,
    stop: float | SymbolicDim | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """`start, start + step, …` below `stop`; whole bounds may be symbolic sizes."""
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop = in_compiler_sizes((start, stop))
    if step == 0 or any(
        not math.isfinite(part) for part in _float_bounds(start, stop, step)
    ):
        fail(
            "bad-range",
            f"expected finite bounds and a step but 0; got {start} to {stop} in steps "
            f"of {step}",
        )
    if reals := _float_bounds(start, stop, step):
        if not isinstance(start, SymbolicDim) and not isinstance(stop, SymbolicDim):
            return _numbers(_float_range(*map(float, (start, stop, step))), dtype)
        if not all(part.is_integer() for part in reals):
            fail("bad-range", f"expected whole steps for a size; got {start} to {stop}")
        start, stop, step = map(_as_int, (start, stop, step))
    count = _count(start, stop, step)
    natural = "f32" if reals else "i32"
    name = dtypes.canonical_dtype(natural if dtype is None else dtype)
    line = emit("iota", shape=(count,), axis=0, dtype=name)
    scaled = line if step == 1 else multiply(line, step)
    return scaled if start == 0 else add(scaled, start)


def _float_bounds(*parts: object) -> list[float]:
    """Return the floats among these bounds."""
    return [part for part in parts if isinstance(part, float)]


def _float_range(start: float, stop: float, step: float) -> Any:
    """Return NumPy's arange of floats; raise if it is too long."""
    if abs((stop - start) / step) > _MOST_NUMBERS:
        fail(
            "bad-range",
            f"expected at most {_MOST_NUMBERS} numbers; got {start} to {stop} in steps "
            f"of {step}",
        )
    return np.arange(start, stop, step)


def _as_int(part: object) -> Any:
    """Return a float as an int; others as they are."""
    return int(part) if isinstance(part, float) else part


def _count(start: Any, stop: Any, step: Any) -> Size:
    """Return the number of steps from `start` to below `stop`."""
    if not isinstance(start, SymbolicDim) and not isinstance(stop, SymbolicDim):
        return len(range(start, stop, step))
    distance: Size = stop - start if step > 0 else start - stop
    if bounds(distance)[0] < 0:
        fail(
            "symbolic-size",
            "expected bounds of a symbolic arange that provably lie in the direction "
            f"of its steps; got {start} to {stop} in steps of {step}",
        )
    return ceil_divide(distance, abs(step))


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last one."""
    whole = dtype is not None and dtypes.canonical_dtype(dtype) in dtypes.INTEGERS
    spaced = _floored_linspace if whole else np.linspace
    return _spaced_numbers(spaced, start, stop, num, dtype, endpoint=endpoint)


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """`base` to the power of evenly spaced numbers."""
    return _spaced_numbers(
        np.logspace, start, stop, num, dtype, endpoint=endpoint, base=base
    )


def geomspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """`num` numbers from `start` to `stop` with a constant ratio between neighbours."""
    if not start * stop > 0:
        fail("bad-range", f"expected ends of one sign but 0; got {start} and {stop}")
    return _spaced_numbers(np.geomspace, start, stop, num, dtype, endpoint=endpoint)


def _spaced_numbers(
    function: Callable[..., np.ndarray],
    start: float,
    stop: float,
    num: int,
    dtype: DTypeLike | None,
    **how: float,
) -> Array:
    """Call NumPy's function for evenly spaced numbers; return them in the dtype."""
    if num < 0:
        fail("bad-range", f"expected num to be an integer of 0 or more; got {num}")
    with np.errstate(all="ignore"):
        return _numbers(function(start, stop, num, **how), dtype)


def _floored_linspace(
    start: float, stop: float, num: int, endpoint: bool
) -> np.ndarray:
    """Return NumPy's linspace, rounded down for integers as NumPy rounds."""
    return np.floor(np.linspace(start, stop, num, endpoint))


def _numbers(values: np.ndarray, dtype: DTypeLike | None) -> Array:
    """Convert NumPy's f64 values to an array of the dtype; f32 by default."""
    name = dtypes.canonical_dtype("f32" if dtype is None else dtype)
    with np.errstate(all="ignore"):
        return Array(data=values.astype(dtypes.to_numpy(name)))


# ---- grids --------------------------------------------------------------------------


def meshgrid(*xi: ArrayLike, indexing: str = "xy", sparse: bool = False) -> list[Array]:
    """Return coordinate arrays of a grid: one per vector, varying along its own
    axis.
    """
    if indexing not in ("xy", "ij"):
        fail("bad-grid", f"expected indexing 'xy' or 'ij'; got {indexing!r}")
    vectors = [ravel(x) for x in xi]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    rank = len(vectors)
    open_grid = [
        reshape(x, [-1 if axis == place else 1 for axis in range(rank)])
        for x, place in zip(vectors, places, strict=True)
    ]
    return open_grid if sparse else broadcast_arrays(*open_grid)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return vectors of positions, each along its own axis, to index a grid of
    elements.

    A mask stands for the positions where it is true, and must be known.
    """
    vectors = [lift(x) for x in args]
    for x in vectors:
        if x.ndim != 1:
            fail("shape-mismatch", f"expected vectors of positions; got {x.type}")
    places = [true_positions(x, 0, x)[0] if x.dtype == "bool" else x for x in vectors]
    return tuple(meshgrid(*places, indexing="ij", sparse=True))


def indices(dimensions: Any, dtype: DTypeLike = "i32", sparse: bool = False) -> Any:
    """Return the index along each axis of a grid: stacked, or a tuple if `sparse`."""
    shape, name = as_shape(dimensions), dtypes.canonical_dtype(dtype)
    rank = len(shape)
    lines = []
    for axis, size in enumerate(shape):
        thin = tuple(size if i == axis else 1 for i in range(rank))
        wanted = thin if sparse else shape
        lines.append(emit("iota", shape=wanted, axis=axis, dtype=name))
    if sparse:
        return tuple(lines)
    return stack(lines) if lines else zeros((0,), dtype)


def fromfunction(
    function: Callable[..., object],
    shape: ShapeLike,
    *,
    dtype: DTypeLike = "f32",
    **kwargs: object,
) -> Any:
    """Call `function` with the index arrays along each axis of a shape."""
    sizes = as_shape(shape)
    return function(*(indices(sizes, dtype)[i] for i in range(len(sizes))), **kwargs)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803
    """The powers N - 1 … 0 of the vector `x`, as columns."""
    column = lift(x)
    if column.ndim != 1:
        fail("shape-mismatch", f"expected a vector; got {column.type}")
    count = column.shape[0] if N is None else N
    if not isinstance(count, int) or count < 0:
        fail("bad-shape", f"expected N to be a number of 0 or more; got {count!r}")
    powers = [ones_like(column)]
    for _ in range(count - 1):
        powers.append(multiply(powers[-1], column))
    if not count:
        return zeros((column.shape[0], 0), column.dtype)
    return stack(powers[:count] if increasing else powers[:count][::-1], 1)


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Return the index along each axis of an element's row-major flat index.

    Numbers that are known must be those of elements.
    """
    numbers, sizes = integers(indices), as_shape(shape)
    if any(bounds(size)[0] < 0 for size in sizes) or (numbers.ndim and not sizes):
        fail("bad-shape", f"expected sizes of 0 or more; got {format_shape(sizes)}")
    if all(isinstance(size, int) for size in sizes):
        _require_below(numbers, math.prod(sizes))
    return positions_of(numbers, sizes)


def positions_of(numbers: Array, sizes: Shape) -> tuple[Array, ...]:
    """Return the index along each axis of flat indices; the first may be too large."""
    rest, found = numbers, []
    for size in reversed(sizes[1:]):
        found.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return (rest, *reversed(found)) if sizes else ()


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Any) -> Array:
    """Return the row-major flat index of an element from its index along each axis.

    Positions must lie inside, which those that are known are held to.
    """
    sizes = as_shape(dims)
    if len(multi_index) != len(sizes) or not sizes:
        fail(
            "shape-mismatch",
            f"expected one position for each of {len(sizes)} axes; got "
            f"{len(multi_index)}",
        )
    for position, size in zip(multi_index, sizes, strict=True):
        _require_below(integers(position), size)
    number = lift(multi_index[0])
    for position, size in zip(multi_index[1:], sizes[1:], strict=True):
        number = add(multiply(number, size), position)
    return number


def _require_below(positions: Array, size: Any) -> None:
    """Raise if known indices are negative or not below a fixed `size`."""
    known = positions._data
    if known is None or not isinstance(size, int):
        return
    if ((known < 0) | (known >= size)).any():
        fail("bad-index", f"expected positions from 0 to {size - 1}; got {known}")
