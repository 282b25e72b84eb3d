"""Conversion of values to arrays by `lift`, and promotion of their dtypes.

Python numbers are weak: they take the dtype of the array they meet, and f32, i32 or
bool among themselves. So are those that are given to a function of `aotc.jit` at each
call (`as_number`), and what is computed of these alone. NumPy's scalars of its default
types (`np.sqrt(2.0)`, `np.prod(shape)`) and symbolic sizes count as Python numbers.
Arrays of different dtypes do not mix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeGuard

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.types import SymbolicDim
from aotc.errors import InputError
from aotc.tracing.array import Array, as_array
from aotc.tracing.call_sizes import SizeCondition
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


class SupportsArray(Protocol):
    """An object that NumPy makes an array of: its own arrays and scalars, tensors."""

    def __array__(self) -> np.ndarray: ...


if TYPE_CHECKING:
    # Everything that `lift` makes an array of. At run time calls are not held to it
    # (`aotc.tracing.calls`): `lift` refuses the rest itself, and says what it got.
    ArrayLike: TypeAlias = (
        Array
        | SymbolicDim
        | SizeCondition
        | SupportsArray
        | bool
        | int
        | float
        | Sequence[object]  # nested lists of numbers
    )
else:
    ArrayLike = Any

# kinds of weak numbers: Python's type, and the NumPy scalars that act like it
_WEAK: tuple[tuple[type, tuple[type, ...]], ...] = (
    (bool, (bool, np.bool_)),
    (int, (int, np.int64)),
    (float, (float, np.float64)),
)
_WEAK_ORDER = ("f64", "f32", "i64", "i32", "bool")  # the first of these wins
_NUMBERS = tuple(kind for _, types in _WEAK for kind in types)
_DIRECTIONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def lift(x: object, like: str | None = None) -> Array:
    """Return `x` as an Array; weak numbers take dtype `like`, or their own default.

    Raises:
        InputError: `x` is nothing that an array can be made of.
    """
    if isinstance(x, Array):
        return _weak_cast(x, _promoted_weak_dtype(x.dtype, like)) if x._is_weak else x
    if isinstance(x, SymbolicDim):
        return emit("dimension", size=(x,), dtype=_promoted_weak_dtype("i32", like))
    if isinstance(x, SizeCondition):
        return _lifted_condition(x, _promoted_weak_dtype("bool", like))
    if is_number(x):
        return Array(data=_number(x, like))
    if isinstance(x, (list, tuple)) and _is_nested_numbers(x):
        return _from_list(x, like)
    data = _numpy_array(x)
    try:
        dtypes.canonical_dtype(data.dtype)
    except InputError:
        hint = (
            f"take one of its parts: {', '.join(map(repr, x))}"
            if isinstance(x, dict)
            else None
        )
        fail(
            "not-an-array",
            f"expected an array or a number; got {type(x).__name__}",
            hint,
        )
    return Array(data=data)


def _lifted_condition(condition: SizeCondition, dtype: str) -> Array:
    """Emit the comparison of sizes that each call computes; return its result."""
    left, right = (lift(side) for side in (condition.left, condition.right))
    found = emit("compare", left, right, direction=_DIRECTIONS[condition.sign])
    return found if dtype == "bool" else emit("cast", found, dtype=dtype)


def _numpy_array(x: object) -> np.ndarray:
    """Return a value as a NumPy array; refuse lists of Arrays and ragged lists."""
    if isinstance(x, (list, tuple)) and any(isinstance(part, Array) for part in x):
        fail(
            "not-an-array",
            f"expected an array; got a {type(x).__name__} of arrays",
            "make one of it: aotc.numpy.asarray, stack or concatenate",
        )
    try:
        return np.asarray(x)
    except ValueError as error:  # rows of different lengths
        fail("not-an-array", f"{type(x).__name__} is no array: {error}")


def is_number(x: object) -> TypeGuard[float]:
    """Return whether `x` is a Python number, or a NumPy scalar that acts like one."""
    return isinstance(x, _NUMBERS)


def is_weak(x: object) -> bool:
    """Return whether `x` is a number that takes the dtype of the array it meets."""
    if isinstance(x, Array):  # nearly always
        return x._is_weak
    return is_number(x) or isinstance(x, SymbolicDim | SizeCondition)


def weak_dtype(x: object) -> str:
    """Return the default dtype of a weak number."""
    if isinstance(x, SymbolicDim):
        return "i32"
    if isinstance(x, SizeCondition):
        return "bool"
    if isinstance(x, Array):
        return x.dtype
    return dtypes.canonical_dtype(
        next(kind for kind, types in _WEAK if isinstance(x, types))
    )


def _promoted_weak_dtype(natural: str, like: str | None) -> str:
    """Return the dtype of a weak number of dtype `natural` beside an array of dtype
    `like`.
    """
    if like is None:
        return natural
    if dtypes.is_float(natural):
        return like if dtypes.is_float(like) else natural
    return natural if like == "bool" else like


def _weak_cast(x: Array, dtype: str) -> Array:
    """Cast a weak number of a call to another dtype; it stays weak.

    Raises:
        InputError: `dtype-mismatch`: it is an integer of which not all values fit.
    """
    if x.dtype == dtype:
        return x
    if x.dtype in dtypes.INTEGERS and dtype in dtypes.INTEGERS:
        given, wanted = (np.iinfo(dtypes.to_numpy(name)) for name in (x.dtype, dtype))
        if given.min < wanted.min or given.max > wanted.max:
            fail(
                "dtype-mismatch",
                f"a number that each call gives may be out of the range of {dtype}",
                f"give it as an array: numpy.{dtypes.numpy_name(dtype)}(number)",
            )
    return emit("cast", x, dtype=dtype)


def _number(x: float, like: str | None) -> np.ndarray:
    """Return a Python number as a NumPy scalar array; refuse integers out of range."""
    dtype = _promoted_weak_dtype(weak_dtype(x), like)
    if dtype in dtypes.INTEGERS:
        bounds = np.iinfo(dtypes.to_numpy(dtype))
        if not bounds.min <= x <= bounds.max:
            fail(
                "dtype-mismatch",
                f"the number {x} is out of the range of {dtype}",
                "give the dtype: aotc.numpy.asarray(number, 'i64')",
            )
    with np.errstate(over="ignore"):  # a float out of range is infinite
        return np.array(x).astype(dtypes.to_numpy(dtype))


def _is_nested_numbers(x: object) -> bool:
    """Return whether `x` is a Python number, or nested lists of them."""
    if isinstance(x, (list, tuple)):
        return all(map(_is_nested_numbers, x))
    return type(x) in (bool, int, float)


def _from_list(x: object, like: str | None) -> Array:
    """Return nested lists of Python numbers as an Array, in a weak number's dtype."""
    data = _numpy_array(x)
    # NumPy makes objects of integers that fit no dtype of its own
    natural = {"b": "bool", "f": "f32"}.get(data.dtype.kind, "i32")
    natural = natural if data.size else "f32"
    dtype = _promoted_weak_dtype(natural, like)
    if data.size and dtype in dtypes.INTEGERS:
        _number(int(data.min()), dtype)
        _number(int(data.max()), dtype)
    return Array(data=data.astype(dtypes.to_numpy(dtype)))


def astype(x: ArrayLike, dtype: DTypeLike) -> Array:
    """Return `x` cast to a dtype: floats to integers toward zero and saturating."""
    name = dtypes.canonical_dtype(dtype)
    array = lift(x)
    if array._is_weak:
        array = as_array(array)
    return array if array.dtype == name else emit("cast", array, dtype=name)


def as_float(x: ArrayLike) -> Array:
    """Return `x` as a float array; integers become f32."""
    array = lift(x)
    if dtypes.is_float(array.dtype):
        return array
    return _weak_cast(array, "f32") if array._is_weak else astype(array, "f32")


def to_accumulator(x: ArrayLike) -> Array:
    """Return `x` cast to the dtype of its sums: f32 for half precision.

    Counts, sums and squares soon leave the range of f16 (65504) and the digits of bf16
    (256), so what is made of them is rounded at the end only.
    """
    array = lift(x)
    return astype(array, accumulator(array.dtype))


def one_dtype(*xs: ArrayLike) -> list[Array]:
    """Return the operands as Arrays of one dtype; weak numbers adapt to the arrays."""
    arrays = [lift(x) for x in xs if not is_weak(x)]
    like = arrays[0].dtype if arrays else _weakest(xs)
    lifted = [lift(x, like) for x in xs]
    if len({x.dtype for x in lifted}) > 1:
        _fail_to_mix(xs, lifted)
    return lifted


def _weakest(numbers: Sequence[object]) -> str:
    """Return the result dtype of an operation on weak numbers alone."""
    found = {weak_dtype(number) for number in numbers}
    return next(dtype for dtype in _WEAK_ORDER if dtype in found)


def _fail_to_mix(xs: Sequence[ArrayLike], lifted: Sequence[Array]) -> NoReturn:
    """Raise the error for arrays of different dtypes, with advice on a cast."""
    weak = [x for x, given in zip(lifted, xs, strict=True) if is_weak(given)]
    wanted = weak[0].dtype if weak and weak[0].dtype != lifted[0].dtype else None
    wanted = wanted or max((x.dtype for x in lifted), key=_preference)
    fail(
        "dtype-mismatch",
        "arrays of different dtypes do not mix: "
        + " and ".join(dict.fromkeys(str(x.type) for x in lifted)),
        "convert one of them, for instance with "
        f".astype('{dtypes.numpy_name(wanted)}')",
    )


def _preference(dtype: str) -> tuple[bool, float]:
    """Return a sort key: floats before integers, then dtypes of all targets first."""
    width = dtypes.bits(dtype)
    return dtypes.is_float(dtype), -math.inf if width == 64 else width
