"""NumPy's functions on `Array`s: the language that models are written in.

Names, argument orders and results are NumPy's. The differences, all of them on purpose:

- Arrays of different dtypes do not mix; convert one with `astype`. Python numbers take
  the dtype of the array that they meet, or f32, i32 or bool among themselves.
- Integer results of `argmax`, `arange` and the like are i32, and sums keep their dtype.
- Indices out of bounds are clipped to the nearest element.
- Sizes may be symbolic; what only a value could decide is an error at once.

Broadcasting is explicit below this module: it inserts the ops that repeat elements.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from aotc import dtypes
from aotc.dialects.types import Shape, Size, Tensor, element_count, format_shape
from aotc.errors import InputError
from aotc.frontends.tracing import Array, emit, lift, user_line

pi = math.pi
e = math.e
inf = math.inf
nan = math.nan
newaxis = None

ArrayLike = Any


def _fail(code: str, message: str, hint: str | None = None) -> NoReturn:
    raise InputError(code, message, where=user_line(), hint=hint)


# ---- making arrays ------------------------------------------------------------------


def asarray(x: ArrayLike, dtype: Any = None) -> Array:
    """`x` as an array; nested lists may hold arrays."""
    if isinstance(x, (list, tuple)) and [p for p in x if isinstance(p, Array)]:
        array = stack([asarray(part) for part in x])
    else:
        array = lift(x)
        if isinstance(x, (list, tuple)):
            array = _python_default(array)
    return array if dtype is None else astype(array, dtype)


array = asarray


def _python_default(x: Array) -> Array:
    """Lists of Python numbers become f32 and i32, as single numbers do."""
    return astype(x, {"f64": "f32", "i64": "i32"}.get(x.dtype, x.dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """`fill_value` in every element of a new array."""
    wanted = None if dtype is None else dtypes.canonical(dtype)
    value = lift(fill_value, like=wanted)
    value = value if wanted is None else astype(value, wanted)
    return broadcast_to(value, _shape(shape))


def zeros(shape: Any, dtype: Any = "f32") -> Array:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "f32") -> Array:
    """Ones."""
    return full(shape, 1, dtype)


def full_like(x: ArrayLike, fill_value: Any, dtype: Any = None) -> Array:
    """`fill_value` in every element of an array like `x`."""
    x = lift(x)
    return full(x.shape, fill_value, dtype or x.dtype)


def zeros_like(x: ArrayLike, dtype: Any = None) -> Array:
    """Zeros in the shape and dtype of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: ArrayLike, dtype: Any = None) -> Array:
    """Ones in the shape and dtype of `x`."""
    return full_like(x, 1, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """`start, start + step, …` below `stop`; the count may be symbolic with step 1."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = not [part for part in (start, stop, step) if isinstance(part, float)]
        dtype = "i32" if whole else "f32"
    if start == 0 and step == 1 and not isinstance(stop, float):
        return emit("iota", shape=(stop,), axis=0, dtype=dtypes.canonical(dtype))
    values = np.arange(start, stop, step)
    return lift(values.astype(dtypes.to_numpy(dtypes.canonical(dtype))))


def eye(n: int, m: int | None = None, dtype: Any = "f32") -> Array:
    """Ones on the diagonal of an n × m matrix."""
    return lift(np.eye(n, m, dtype=dtypes.to_numpy(dtypes.canonical(dtype))))


def linspace(start: float, stop: float, num: int = 50, dtype: Any = "f32") -> Array:
    """`num` evenly spaced numbers from `start` to `stop`, both included."""
    values = np.linspace(start, stop, num)
    return lift(values.astype(dtypes.to_numpy(dtypes.canonical(dtype))))


def astype(x: ArrayLike, dtype: Any) -> Array:
    """`x` converted: towards zero and saturating from float to integer."""
    x, name = lift(x), dtypes.canonical(dtype)
    return x if x.dtype == name else emit("cast", x, dtype=name)


# ---- broadcasting -------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all of `shapes` broadcast to, by NumPy's rules."""
    rank = builtins.max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[Size] = []
    for sizes in zip(*padded, strict=True):
        distinct: list[Size] = []
        for size in sizes:
            if size != 1 and size not in distinct:
                distinct.append(size)
        if len(distinct) > 1:
            _fail(
                "shape-mismatch",
                f"cannot broadcast shapes {' and '.join(map(format_shape, shapes))}: "
                f"sizes {distinct[0]} and {distinct[1]} are not provably equal",
            )
        result.append(distinct[0] if distinct else 1)
    return tuple(result)


def broadcast_to(x: ArrayLike, shape: Any) -> Array:
    """`x` repeated to `shape`."""
    x, shape = lift(x), _shape(shape)
    if x.shape == shape:
        return x
    if x.ndim > len(shape):
        _fail(
            "shape-mismatch",
            f"cannot broadcast {format_shape(x.shape)} to {format_shape(shape)}",
        )
    axes = tuple(range(len(shape) - x.ndim, len(shape)))
    return emit("broadcast", x, shape=shape, axes=axes)


def broadcast_arrays(*xs: ArrayLike) -> list[Array]:
    """The arrays, all repeated to their common shape."""
    arrays = [lift(x) for x in xs]
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def _shape(shape: Any) -> Shape:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _common(*xs: ArrayLike) -> list[Array]:
    """The operands as arrays of one dtype and shape; Python numbers adapt."""
    arrays = [lift(x) for x in xs if not isinstance(x, (bool, int, float))]
    like = arrays[0].dtype if arrays else _weakest(xs)
    lifted = [lift(x, like=like) for x in xs]
    found = list(dict.fromkeys(x.dtype for x in lifted))
    if len(found) > 1:
        types = " and ".join(str(x.type) for x in lifted)
        _fail(
            "dtype-mismatch",
            f"arrays of different dtypes do not mix: {types}",
            f"convert one of them, for instance with .astype('{found[0]}')",
        )
    return broadcast_arrays(*lifted)


def _weakest(numbers: Sequence[Any]) -> str:
    """The dtype of an operation on Python numbers alone."""
    kinds = {type(n) for n in numbers}
    if kinds & {bool, int} == kinds:
        return "bool" if kinds == {bool} else "i32"
    return "f32"


# ---- elementwise --------------------------------------------------------------------


def _float(x: ArrayLike) -> Array:
    """The operand of a function that has float results only."""
    x = lift(x)
    if dtypes.is_float(x.dtype):
        return x
    return astype(x, "f32")


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y; logical or on bool."""
    x, y = _common(x, y)
    return emit("bitwise_or" if x.dtype == "bool" else "add", x, y)


def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y."""
    return emit("subtract", *_common(x, y))


def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """x * y; logical and on bool."""
    x, y = _common(x, y)
    return emit("bitwise_and" if x.dtype == "bool" else "multiply", x, y)


def divide(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, always a float."""
    x, y = _common(x, y)
    return emit("divide", _float(x), _float(y))


true_divide = divide


def floor_divide(x: ArrayLike, y: ArrayLike) -> Array:
    """The largest whole number not above x / y. Integer division by zero gives -1."""
    x, y = _common(x, y)
    if dtypes.is_float(x.dtype):
        return floor(emit("divide", x, y))
    quotient = emit("divide", x, y)
    if x.dtype in dtypes.UNSIGNED:
        return quotient
    inexact = not_equal(multiply(quotient, y), x)
    opposite = not_equal(less(x, 0), less(y, 0))
    lower = logical_and(logical_and(inexact, opposite), not_equal(y, 0))
    return subtract(quotient, astype(lower, x.dtype))


def remainder(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y * floor(x / y), with the sign of y."""
    x, y = _common(x, y)
    if dtypes.is_float(x.dtype):
        return _float_remainder(x, y)
    return subtract(x, multiply(y, floor_divide(x, y)))


def _float_remainder(x: Array, y: Array) -> Array:
    return subtract(x, multiply(y, floor(emit("divide", x, y))))


mod = remainder


def power(x: ArrayLike, y: ArrayLike) -> Array:
    """x ** y; whole Python exponents become multiplications."""
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        special = _simple_power(lift(x), y)
        if special is not None:
            return special
    x, y = _common(x, y)
    return emit("power", x, y)


def _simple_power(x: Array, exponent: float) -> Array | None:
    if exponent == 0.5 and dtypes.is_float(x.dtype):
        return sqrt(x)
    if exponent != int(exponent) or not -16 <= exponent <= 16:
        return None
    if exponent < 0:
        positive = _simple_power(x, -exponent)
        return None if positive is None else divide(1, positive)
    result, factor, rest = None, x, int(exponent)
    while rest:
        if rest & 1:
            result = factor if result is None else multiply(result, factor)
        factor = multiply(factor, factor) if rest > 1 else factor
        rest >>= 1
    return ones_like(x) if result is None else result


def maximum(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of x and y; NaN if either is."""
    return emit("maximum", *_common(x, y))


def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of x and y; NaN if either is."""
    return emit("minimum", *_common(x, y))


def negative(x: ArrayLike) -> Array:
    """-x."""
    x = lift(x)
    return subtract(0, x) if x.dtype in dtypes.UNSIGNED else emit("negate", x)


def positive(x: ArrayLike) -> Array:
    """+x."""
    return lift(x)


def abs(x: ArrayLike) -> Array:  # noqa: A001 - NumPy's name
    """|x|."""
    x = lift(x)
    return x if x.dtype in ("bool", *dtypes.UNSIGNED) else emit("abs", x)


absolute = fabs = abs


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1."""
    return emit("sign", lift(x))


def exp(x: ArrayLike) -> Array:
    """e ** x."""
    return emit("exp", _float(x))


def expm1(x: ArrayLike) -> Array:
    """e ** x - 1."""
    return emit("expm1", _float(x))


def log(x: ArrayLike) -> Array:
    """The natural logarithm."""
    return emit("log", _float(x))


def log1p(x: ArrayLike) -> Array:
    """ln(1 + x)."""
    return emit("log1p", _float(x))


def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2."""
    return multiply(log(x), 1 / math.log(2))


def log10(x: ArrayLike) -> Array:
    """The logarithm to base 10."""
    return multiply(log(x), 1 / math.log(10))


def sqrt(x: ArrayLike) -> Array:
    """The square root."""
    return emit("sqrt", _float(x))


def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x), in one operation."""
    return emit("rsqrt", _float(x))


def square(x: ArrayLike) -> Array:
    """x * x."""
    return multiply(x, x)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""
    return divide(1, x)


def sin(x: ArrayLike) -> Array:
    """The sine of x radians."""
    return emit("sin", _float(x))


def cos(x: ArrayLike) -> Array:
    """The cosine of x radians."""
    return emit("cos", _float(x))


def tan(x: ArrayLike) -> Array:
    """sin x / cos x."""
    return divide(sin(x), cos(x))


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return emit("tanh", _float(x))


def erf(x: ArrayLike) -> Array:
    """The Gauss error function (SciPy's; NumPy has none)."""
    return emit("erf", _float(x))


def floor(x: ArrayLike) -> Array:
    """The largest whole number not above x."""
    x = lift(x)
    return emit("floor", x) if dtypes.is_float(x.dtype) else x


def ceil(x: ArrayLike) -> Array:
    """The smallest whole number not below x."""
    return negative(floor(negative(x)))


def trunc(x: ArrayLike) -> Array:
    """x without its fraction."""
    return multiply(sign(x), floor(abs(x)))


def clip(x: ArrayLike, a_min: Any = None, a_max: Any = None) -> Array:
    """x between `a_min` and `a_max`."""
    if a_min is None and a_max is None:
        return lift(x)
    if a_max is None:
        return maximum(x, a_min)
    if a_min is None:
        return minimum(x, a_max)
    x, low, high = _common(x, a_min, a_max)
    return emit("clamp", x, low, high)


# ---- comparison and logic -----------------------------------------------------------


def _compare(x: ArrayLike, y: ArrayLike, direction: str) -> Array:
    return emit("compare", *_common(x, y), direction=direction)


def equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y."""
    return _compare(x, y, "eq")


def not_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y."""
    return _compare(x, y, "ne")


def less(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y."""
    return _compare(x, y, "lt")


def less_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y."""
    return _compare(x, y, "le")


def greater(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y."""
    return _compare(x, y, "gt")


def greater_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y."""
    return _compare(x, y, "ge")


def isnan(x: ArrayLike) -> Array:
    """Whether x is NaN."""
    x = lift(x)
    return not_equal(x, x)


def isinf(x: ArrayLike) -> Array:
    """Whether x is plus or minus infinity."""
    return equal(abs(_float(x)), inf)


def isfinite(x: ArrayLike) -> Array:
    """Whether x is neither NaN nor infinite."""
    return less(abs(_float(x)), inf)


def _truth(x: ArrayLike) -> Array:
    x = lift(x)
    return x if x.dtype == "bool" else not_equal(x, 0)


def logical_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether both hold."""
    return bitwise_and(_truth(x), _truth(y))


def logical_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether either holds."""
    return bitwise_or(_truth(x), _truth(y))


def logical_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether exactly one holds."""
    return bitwise_xor(_truth(x), _truth(y))


def logical_not(x: ArrayLike) -> Array:
    """Whether x does not hold."""
    return emit("bitwise_not", _truth(x))


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """x & y."""
    return emit("bitwise_and", *_common(x, y))


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """x | y."""
    return emit("bitwise_or", *_common(x, y))


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """x ^ y."""
    return emit("bitwise_xor", *_common(x, y))


def invert(x: ArrayLike) -> Array:
    """~x."""
    return emit("bitwise_not", lift(x))


bitwise_not = invert


def left_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """x << y."""
    return emit("shift_left", *_common(x, y))


def right_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """x >> y, with the sign of x for signed integers."""
    return emit("shift_right", *_common(x, y))


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """`x` where the condition holds, `y` elsewhere."""
    x, y = _common(x, y)
    condition, x, y = broadcast_arrays(_truth(condition), x, y)
    return emit("select", condition, x, y)


# ---- reductions ---------------------------------------------------------------------


def _axes(x: Array, axis: Any) -> tuple[int, ...]:
    """Normalised, rising axes; all for None."""
    if axis is None:
        return tuple(range(x.ndim))
    wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
    normal = sorted(_axis(x, a) for a in wanted)
    if len(set(normal)) != len(normal):
        _fail("bad-axis", f"an axis is named twice in {tuple(wanted)}")
    return tuple(normal)


def _axis(x: Array, axis: int, extra: int = 0) -> int:
    rank = x.ndim + extra
    if not -rank <= axis < rank:
        _fail("bad-axis", f"axis {axis} is out of range for {x.type}")
    return axis % rank


def _kept(result: Array, x: Array, axes: Sequence[int], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return reshape(result, [1 if i in axes else n for i, n in enumerate(x.shape)])


def _reduce(name: str, x: ArrayLike, axis: Any, keepdims: bool) -> Array:
    x = lift(x)
    axes = _axes(x, axis)
    return _kept(emit(name, x, axes=axes), x, axes, keepdims)


def sum(  # noqa: A001 - NumPy's name
    x: ArrayLike, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Array:
    """The sum over `axis`, in the dtype of x; bool is counted in i32."""
    x = astype(x, dtype or ("i32" if lift(x).dtype == "bool" else lift(x).dtype))
    return _reduce("reduce_sum", x, axis, keepdims)


def prod(x: ArrayLike, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over `axis`."""
    x = astype(x, dtype or ("i32" if lift(x).dtype == "bool" else lift(x).dtype))
    return _reduce("reduce_prod", x, axis, keepdims)


def max(x: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """The largest element over `axis`; NaN if any is."""
    return _reduce("reduce_max", x, axis, keepdims)


def min(x: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """The smallest element over `axis`; NaN if any is."""
    return _reduce("reduce_min", x, axis, keepdims)


amax, amin = max, min


def mean(x: ArrayLike, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The mean over `axis`, always a float; sizes may be symbolic."""
    x = _float(x) if dtype is None else astype(x, dtype)
    axes = _axes(x, axis)
    total = emit("reduce_sum", x, axes=axes)
    count = element_count(tuple(x.shape[a] for a in axes))
    return _kept(divide(total, _count(count, x.dtype)), x, axes, keepdims)


def _count(count: Size, dtype: str) -> Any:
    if isinstance(count, int):
        return lift(np.array(count, dtypes.to_numpy(dtype)))
    return emit("dimension", size=(count,), dtype=dtype)


def var(x: ArrayLike, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Array:
    """The mean of squared distances from the mean, with `ddof` fewer in the count."""
    x = _float(x)
    axes = _axes(x, axis)
    centered = subtract(x, mean(x, axes, keepdims=True))
    total = emit("reduce_sum", square(centered), axes=axes)
    count = element_count(tuple(x.shape[a] for a in axes))
    return _kept(divide(total, _count(count - ddof, x.dtype)), x, axes, keepdims)


def std(x: ArrayLike, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Array:
    """The square root of `var`."""
    return sqrt(var(x, axis, ddof, keepdims))


def any(x: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """Whether any element holds."""
    return _reduce("reduce_max", astype(_truth(x), "i8"), axis, keepdims) != 0


def all(x: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A001
    """Whether all elements hold."""
    return _reduce("reduce_min", astype(_truth(x), "i8"), axis, keepdims) != 0


def argmax(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (i32) of the first largest element."""
    x = lift(x)
    if axis is None:
        return _kept(emit("argmax", ravel(x), axis=0), x, range(x.ndim), keepdims)
    axis = _axis(x, axis)
    return _kept(emit("argmax", x, axis=axis), x, (axis,), keepdims)


def argmin(x: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (i32) of the first smallest element."""
    x = lift(x)
    flipped = negative(x) if dtypes.is_float(x.dtype) else invert(x)
    return argmax(flipped, axis, keepdims)


# ---- products -----------------------------------------------------------------------


def dot_general(
    x: ArrayLike,
    y: ArrayLike,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Array:
    """Sum of products over the axes `contract` for each index of the axes `batch`.

    Result axes: batch, the rest of x, the rest of y.
    """
    x, y = _one_dtype(x, y)
    return emit(
        "dot_general",
        x,
        y,
        lhs_batch=tuple(batch[0]),
        rhs_batch=tuple(batch[1]),
        lhs_contract=tuple(contract[0]),
        rhs_contract=tuple(contract[1]),
    )


def _one_dtype(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    x, y = lift(x), lift(y)
    if x.dtype != y.dtype:
        _fail(
            "dtype-mismatch",
            f"arrays of different dtypes do not mix: {x.type} and {y.type}",
            f"convert one of them, for instance with .astype('{x.dtype}')",
        )
    return x, y


def matmul(x: ArrayLike, y: ArrayLike) -> Array:
    """The matrix product over the last axis of x and the second-last of y."""
    x, y = _one_dtype(x, y)
    if not x.ndim or not y.ndim:
        _fail("shape-mismatch", f"matmul needs at least one axis; got {x.type}, {y.type}")
    inner = max_axis(y)
    if x.shape[-1] != y.shape[inner]:
        _fail(
            "shape-mismatch",
            f"matmul of {x.type} and {y.type}: the sizes {x.shape[-1]} and "
            f"{y.shape[inner]} of the summed axes differ",
        )
    if x.ndim <= 2 and y.ndim <= 2 or y.ndim <= 2:
        return dot_general(x, y, ((x.ndim - 1,), (inner,)))
    return _batched_matmul(x, y)


def max_axis(y: Array) -> int:
    """The axis of the right operand that matmul sums over."""
    return y.ndim - 2 if y.ndim > 1 else 0


def _batched_matmul(x: Array, y: Array) -> Array:
    vector = x.ndim == 1
    x = reshape(x, (1, x.shape[0])) if vector else x
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = broadcast_to(x, batch + x.shape[-2:])
    y = broadcast_to(y, batch + y.shape[-2:])
    axes = tuple(range(len(batch)))
    rank = len(batch)
    result = dot_general(x, y, ((rank + 1,), (rank,)), (axes, axes))
    return squeeze(result, rank) if vector else result


def dot(x: ArrayLike, y: ArrayLike) -> Array:
    """NumPy's dot: over the last axis of x and the second-last of y, without batches."""
    x, y = _one_dtype(x, y)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    return dot_general(x, y, ((x.ndim - 1,), (max_axis(y),)))


def tensordot(x: ArrayLike, y: ArrayLike, axes: Any = 2) -> Array:
    """Sum of products over `axes`: a count, or a pair of axis lists."""
    x, y = _one_dtype(x, y)
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    left, right = (a if isinstance(a, (list, tuple, range)) else (a,) for a in axes)
    return dot_general(
        x, y, ([_axis(x, a) for a in left], [_axis(y, a) for a in right])
    )


def outer(x: ArrayLike, y: ArrayLike) -> Array:
    """All products of an element of x with one of y."""
    return multiply(reshape(x, (-1, 1)), reshape(y, (1, -1)))


# ---- shapes -------------------------------------------------------------------------


def reshape(x: ArrayLike, *shape: Any) -> Array:
    """`x` in another shape, row-major; one size may be -1."""
    x = lift(x)
    wanted = _shape(shape[0]) if len(shape) == 1 else tuple(shape)
    return emit("reshape", x, shape=_resolved(x, wanted))


def _resolved(x: Array, shape: Shape) -> Shape:
    unknown = [i for i, n in enumerate(shape) if isinstance(n, int) and n == -1]
    if not unknown:
        return shape
    known = element_count(tuple(n for i, n in enumerate(shape) if i not in unknown))
    total = element_count(x.shape)
    rest: Size = 0 if known == 0 else total // known
    if len(unknown) > 1 or rest * known != total:
        _fail(
            "shape-mismatch",
            f"cannot reshape {format_shape(x.shape)} to {format_shape(shape)}: "
            f"{total} elements do not provably divide by {known}",
        )
    return tuple(rest if i in unknown else n for i, n in enumerate(shape))


def ravel(x: ArrayLike) -> Array:
    """`x` as one axis."""
    return reshape(x, (-1,))


def transpose(x: ArrayLike, axes: Any = None) -> Array:
    """`x` with its axes permuted; reversed without `axes`."""
    x = lift(x)
    order = range(x.ndim)[::-1] if axes is None else [_axis(x, a) for a in axes]
    return emit("transpose", x, permutation=tuple(order))


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """`x` with two axes exchanged."""
    x = lift(x)
    order = list(range(x.ndim))
    first, second = _axis(x, axis1), _axis(x, axis2)
    order[first], order[second] = second, first
    return transpose(x, order)


def moveaxis(x: ArrayLike, source: int, destination: int) -> Array:
    """`x` with one axis moved to another place."""
    x = lift(x)
    order = [a for a in range(x.ndim) if a != _axis(x, source)]
    order.insert(_axis(x, destination), _axis(x, source))
    return transpose(x, order)


def expand_dims(x: ArrayLike, axis: int) -> Array:
    """`x` with a new axis of size 1."""
    x = lift(x)
    axis = _axis(x, axis, extra=1)
    return reshape(x, x.shape[:axis] + (1,) + x.shape[axis:])


def squeeze(x: ArrayLike, axis: Any = None) -> Array:
    """`x` without axes of size 1."""
    x = lift(x)
    ones_there = tuple(i for i, n in enumerate(x.shape) if isinstance(n, int) and n == 1)
    axes = ones_there if axis is None else _axes(x, axis)
    wrong = [a for a in axes if a not in ones_there]
    if wrong:
        _fail("shape-mismatch", f"axis {wrong[0]} of {x.type} does not have size 1")
    return reshape(x, [n for i, n in enumerate(x.shape) if i not in axes])


def concatenate(xs: Sequence[ArrayLike], axis: int = 0) -> Array:
    """The arrays one after the other along `axis`."""
    arrays = [lift(x) for x in xs]
    if not arrays:
        _fail("shape-mismatch", "concatenate needs at least one array")
    for other in arrays[1:]:
        _one_dtype(arrays[0], other)
    whole, axis = arrays[0], _axis(arrays[0], axis)
    for part in arrays[1:]:
        whole = emit("concatenate", whole, part, axis=axis)
    return whole


def stack(xs: Sequence[ArrayLike], axis: int = 0) -> Array:
    """The arrays along a new axis."""
    return concatenate([expand_dims(x, axis) for x in xs], axis)


def split(x: ArrayLike, sections: int, axis: int = 0) -> list[Array]:
    """`x` in `sections` equal parts."""
    x = lift(x)
    axis = _axis(x, axis)
    size = x.shape[axis]
    if not isinstance(size, int) or size % sections:
        _fail("shape-mismatch", f"axis {axis} of {x.type} does not divide by {sections}")
    step = size // sections
    cuts = [slice(i * step, (i + 1) * step) for i in range(sections)]
    return [getitem(x, (slice(None),) * axis + (cut,)) for cut in cuts]


def pad(x: ArrayLike, pad_width: Any, constant_values: float = 0) -> Array:
    """`x` with constant elements around; `pad_width` is (before, after) per axis."""
    x = lift(x)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    return emit(
        "pad",
        x,
        low=tuple(low for low, _ in widths),
        high=tuple(high for _, high in widths),
        interior=(0,) * x.ndim,
        value=float(constant_values),
    )


def flip(x: ArrayLike, axis: Any = None) -> Array:
    """`x` backwards along `axis`."""
    x = lift(x)
    return emit("reverse", x, axes=_axes(x, axis))


def repeat(x: ArrayLike, repeats: int, axis: int) -> Array:
    """Every element along `axis`, `repeats` times in a row."""
    x = lift(x)
    axis = _axis(x, axis)
    wide = expand_dims(x, axis + 1)
    shape = x.shape[: axis + 1] + (repeats,) + x.shape[axis + 1 :]
    flat = x.shape[:axis] + (x.shape[axis] * repeats,) + x.shape[axis + 1 :]
    return reshape(broadcast_to(wide, shape), flat)


# ---- indexing -----------------------------------------------------------------------


def take(x: ArrayLike, indices: ArrayLike, axis: int | None = None) -> Array:
    """`x` at `indices` along `axis`; indices out of bounds are clipped."""
    x = lift(x)
    if axis is None:
        x, axis = ravel(x), 0
    where_ = lift(indices)
    if where_.dtype not in dtypes.INTEGERS:
        _fail("dtype-mismatch", f"expected integer indices; got {where_.type}")
    return emit("gather", x, where_, axis=_axis(x, axis))


def dynamic_slice(x: ArrayLike, starts: ArrayLike, sizes: Sequence[int]) -> Array:
    """`sizes` elements of x from `starts`, which the model computes; moved to fit."""
    return emit("dynamic_slice", lift(x), asarray(starts), sizes=tuple(sizes))


def dynamic_update_slice(x: ArrayLike, update: ArrayLike, starts: ArrayLike) -> Array:
    """`x` with `update` written from `starts`, which the model computes; moved to fit."""
    x, update = _one_dtype(x, update)
    return emit("dynamic_update_slice", x, update, asarray(starts))


def getitem(x: ArrayLike, key: Any) -> Array:
    """x[key] for ints, slices, `...`, None, and one array of integers."""
    x = lift(x)
    keys = _expanded(x, key if isinstance(key, tuple) else (key,))
    axis, new_axes = 0, []
    removed: list[int] = []
    for position, part in enumerate(keys):
        if part is None:
            new_axes.append(position)
            continue
        if isinstance(part, slice):
            x = _slice_axis(x, axis, part)
        elif isinstance(part, (int, np.integer)):
            x = _slice_axis(x, axis, _one_element(x, axis, int(part)))
            removed.append(axis)
        else:
            return _take_at(x, keys, position, axis, removed, new_axes, part)
        axis += 1
    return _reshaped_by(x, removed, new_axes, keys)


def _take_at(
    x: Array,
    keys: list[Any],
    position: int,
    axis: int,
    removed: list[int],
    new_axes: list[int],
    part: Any,
) -> Array:
    """The rest of getitem from the first array index on; only one is supported."""
    rest = keys[position + 1 :]
    if removed or new_axes or not _only_slices(rest):
        _fail(
            "bad-index",
            "an array index cannot be combined with other indices than slices",
            "index in two steps",
        )
    indices = lift(part)
    if indices.dtype == "bool":
        _fail(
            "bad-index",
            "a mask selects a number of elements that only values decide",
            "use aotc.numpy.where",
        )
    negative_ones = less(indices, 0)
    size = x.shape[axis]
    shifted = add(indices, size) if isinstance(size, int) else indices
    result = take(x, where(negative_ones, shifted, indices), axis)
    tail = (slice(None),) * (axis + indices.ndim) + tuple(rest)
    return getitem(result, tail) if rest else result


def _only_slices(keys: list[Any]) -> bool:
    return not [key for key in keys if not isinstance(key, slice)]


def _expanded(x: Array, keys: tuple[Any, ...]) -> list[Any]:
    """One key per axis and new axis; `...` filled in."""
    used = len([k for k in keys if k is not None and k is not Ellipsis])
    if used > x.ndim:
        _fail("bad-index", f"{used} indices for the {x.ndim} axes of {x.type}")
    missing = [slice(None)] * (x.ndim - used)
    for position, key in enumerate(keys):
        if key is Ellipsis:
            return [*keys[:position], *missing, *keys[position + 1 :]]
    return [*keys, *missing]


def _one_element(x: Array, axis: int, index: int) -> slice:
    size = x.shape[axis]
    if isinstance(size, int):
        if not -size <= index < size:
            _fail("bad-index", f"index {index} is out of bounds for axis {axis} of {x.type}")
        index %= size
    elif index < 0:
        start = size + index
        return slice(start, start + 1)
    return slice(index, index + 1)


def _slice_axis(x: Array, axis: int, part: slice) -> Array:
    if part == slice(None):
        return x
    size = x.shape[axis]
    if not isinstance(size, int):
        return _slice_symbolic(x, axis, part, size)
    start, stop, step = part.indices(size)
    if step < 0:
        count = len(range(start, stop, step))
        last = start + (count - 1) * step
        forward = slice(last, start + 1, -step) if count else slice(0, 0)
        return flip(_slice_axis(x, axis, forward), axis)
    return _sliced(x, axis, start, len(range(start, stop, step)), step)


def _slice_symbolic(x: Array, axis: int, part: slice, size: Any) -> Array:
    """Slices of a symbolic axis: a fixed start, a stop from either end, steps of 1."""
    start = part.start or 0
    stop = size if part.stop is None else part.stop
    if isinstance(stop, int) and stop < 0:
        stop = size + stop
    if part.step not in (None, 1) or not isinstance(start, int) or start < 0:
        _fail(
            "symbolic-size",
            f"axis {axis} of {x.type} has a size known only when the model runs; it can "
            "be sliced from a fixed start in steps of 1 only",
        )
    return _sliced(x, axis, start, stop - start, 1)


def _sliced(x: Array, axis: int, start: int, count: Size, step: int) -> Array:
    first, sizes, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    first[axis], sizes[axis], strides[axis] = start, count, step
    return emit("slice", x, start=tuple(first), sizes=tuple(sizes), strides=tuple(strides))


def _reshaped_by(
    x: Array, removed: list[int], new_axes: list[int], keys: list[Any]
) -> Array:
    if not removed and not new_axes:
        return x
    shape: list[Size] = []
    axis = 0
    for key in keys:
        if key is None:
            shape.append(1)
            continue
        if axis not in removed:
            shape.append(x.shape[axis])
        axis += 1
    return reshape(x, tuple(shape))


def shape(x: ArrayLike) -> Shape:
    """The sizes of x."""
    return lift(x).shape


def ndim(x: ArrayLike) -> int:
    """The number of axes of x."""
    return lift(x).ndim


def result_type(x: ArrayLike) -> Tensor:
    """Shape and dtype of x."""
    return lift(x).type
