"""Arithmetic on sizes, and ops that only assert something about them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Size, SymbolicDim, element_count, maximum, minimum
from aotc.errors import InputError
from aotc.importers.common.known_sizes import is_different, is_equal
from aotc.importers.common.scaling import SymbolicFloat, rounding
from aotc.importers.torch.promotion import as_dtype
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail

# a number that ops compare, or compute with: that of a size is no array yet
Compared: TypeAlias = Size | float | Array
Number: TypeAlias = Compared | SymbolicFloat


def size(x: Array, axis: int) -> Size:
    """Return the size of an axis."""
    return x.shape[axis]


def stride(x: Array, axis: int) -> Size:
    """Return the row-major stride of an axis."""
    return element_count(x.shape[axis % x.ndim + 1 :])


def quotient(a: Number, b: Number) -> Number:
    """Return `a / b`: a number, a symbolic float, or an f32 scalar for two sizes."""
    if isinstance(a, Array) or isinstance(b, Array):
        return np.divide(*(as_dtype(as_array(each), "f32") for each in (a, b)))
    return _in_floats(operator.truediv, number(a), number(b))


def _arithmetic(operation: Callable[..., Number]) -> Callable[[Number, Number], Number]:
    """Wrap an operator to take sizes, numbers, symbolic floats and arrays."""

    def call(a: Number, b: Number) -> Number:
        if isinstance(a, Array) or isinstance(b, Array):
            return operation(as_array(a), as_array(b))
        if any(isinstance(each, float | SymbolicFloat) for each in (a, b)):
            return _in_floats(operation, number(a), number(b))
        return operation(a, b)

    return call


def _in_floats(operation: Callable[..., Number], a: Number, b: Number) -> Number:
    """Return an operator's result on symbolic floats; as an array if not
    expressible.
    """
    try:
        return operation(a, b)
    except TypeError:  # of two sizes, or of a size on the right
        return operation(as_array(a), as_array(b))


def as_array(x: object) -> Any:
    """Return a symbolic float as an f32 array; other values as they are."""
    return x.array("f32") if isinstance(x, SymbolicFloat) else x


def tree_as_arrays(part: Any) -> Any:
    """Return a tree of arguments with symbolic floats as f32 arrays."""
    if type(part) in (list, tuple):
        return type(part)(map(tree_as_arrays, part))
    if type(part) is dict:
        return {name: tree_as_arrays(each) for name, each in part.items()}
    return as_array(part)


def power(a: Any, b: Any) -> Any:
    """Return `a ** b`; of a symbolic size as a product, for an integer b."""
    return (
        math.prod([a] * b)
        if isinstance(a, SymbolicDim) and isinstance(b, int)
        else a**b
    )


def number(x: Size | float | SymbolicFloat) -> SymbolicFloat | float:
    """Return a size or a number as a float of 64 bits, as Python's are."""
    if isinstance(x, SymbolicDim):
        return SymbolicFloat(x, numpy.float64)
    return x if isinstance(x, SymbolicFloat) else float(x)


def _comparison(
    known: Callable[..., bool], computed: Callable[..., Array]
) -> Callable[[Compared, Compared], bool | Array]:
    """Return a comparison of sizes: decided by contracts, or emitted."""

    def call(a: Compared, b: Compared) -> bool | Array:
        if isinstance(a, Array) or isinstance(b, Array):
            return computed(a, b)
        try:
            return known(a, b)
        except InputError:
            return computed(lift(a, "i64"), lift(b, "i64"))

    return call


def choose(condition: object, x: object, y: object) -> object:
    """Return x or y by a condition; a selected array if that is only known at
    run time.
    """
    if not isinstance(condition, Array):
        return x if condition else y
    whole = all(isinstance(each, int | SymbolicDim) for each in (x, y))
    dtype = "i64" if whole else None
    return np.where(condition, lift(x, dtype), lift(y, dtype))


def square_root(x: Number) -> float | Array:
    """Return the square root of a number or size."""
    if isinstance(x, (int, float)):
        return math.sqrt(x)
    return np.sqrt(x if isinstance(x, Array) else as_array(number(x)))


def nothing(*_: object, **__: object) -> None:
    """Do nothing: for assertions on dtypes and layouts, which tracing has fixed."""


def assert_condition(
    condition: object, message: str = "an assertion of the model", *_: object
) -> None:
    """Check a condition at run time; refuse the model if it is false for all calls.

    Raises:
        InputError: it never holds.
    """
    text = _EXPRESSION.sub(r"\1", message)
    if isinstance(condition, Array):
        debug.check(np.astype(condition, "bool"), text)
    elif not condition:
        fail("assertion-failed", f"the model asserts what does not hold: {text}")


# what torch says for an assertion without a message
_EXPRESSION = re.compile(r"Runtime assertion failed for expression (.*) on node '.*'")


def in_range(size: Compared, min: int | None = None, max: int | None = None) -> None:
    """Check at run time that a number lies between two others.

    Raises:
        InputError: it never is.
    """
    if min is not None:
        assert_condition(
            _comparison(operator.ge, np.greater_equal)(size, min), f"at least {min}"
        )
    if max is not None:
        assert_condition(
            _comparison(operator.le, np.less_equal)(size, max), f"at most {max}"
        )


def item(x: Array) -> Array:
    """Return a tensor's only element as a scalar array."""
    return np.reshape(x, ())


ASSERTIONS: dict[str, Callable[..., Any]] = {
    "aten._assert_tensor_metadata": nothing,
    "aten._linalg_check_errors": nothing,  # aotc's factorizations give NaN instead
    **dict.fromkeys(
        (
            "aten._assert_scalar",
            "aten._assert_async",
            "aten._functional_assert_scalar",
            "aten._functional_assert_async",
        ),
        assert_condition,
    ),
    **dict.fromkeys(
        (
            "aten.sym_constrain_range",
            "aten.sym_constrain_range_for_size",
            "aten._functional_sym_constrain_range",
            "aten._functional_sym_constrain_range_for_size",
        ),
        in_range,
    ),
}


def assert_in_order(
    token: object, op: object, *args: object, **named: object
) -> list[object]:
    """Run an assertion that torch orders by a token; return the token and None."""
    name = str(op)
    assertion = ASSERTIONS.get(name) or ASSERTIONS[name.rpartition(".")[0]]
    assertion(*args, **named)
    return [token, None]


# What takes floats of sizes as they are; all else gets arrays in their place.
IN_FLOATS: dict[str, Callable[..., Any]] = {
    "_operator.add": _arithmetic(operator.add),
    "_operator.sub": _arithmetic(operator.sub),
    "_operator.mul": _arithmetic(operator.mul),
    "_operator.truediv": quotient,
    "math.ceil": rounding(math.ceil),
    "math.floor": rounding(math.floor),
    "math.trunc": rounding(math.trunc),
    "torch.sym_float": number,
    "torch.sym_int": rounding(math.trunc),
}

OPS: dict[str, Callable[..., Any]] = {
    **ASSERTIONS,
    **IN_FLOATS,
    "higher_order.with_effects": assert_in_order,
    "aten.sym_size": size,
    "aten.sym_numel": lambda x: element_count(x.shape),
    "aten.sym_stride": stride,
    "aten.sym_storage_offset": lambda x: 0,
    "aten._local_scalar_dense": item,
    "aten.item": item,
    "_operator.floordiv": operator.floordiv,
    "_operator.mod": operator.mod,
    "_operator.neg": operator.neg,
    "_operator.pow": power,
    "_operator.getitem": operator.getitem,
    "_operator.eq": _comparison(is_equal, np.equal),
    "_operator.ne": _comparison(is_different, np.not_equal),
    "_operator.lt": _comparison(operator.lt, np.less),
    "_operator.le": _comparison(operator.le, np.less_equal),
    "_operator.gt": _comparison(operator.gt, np.greater),
    "_operator.ge": _comparison(operator.ge, np.greater_equal),
    "_operator.lshift": lambda a, b: a * 2**b,
    "_operator.rshift": lambda a, b: a // 2**b,
    "_operator.and_": np.logical_and,
    "_operator.or_": np.logical_or,
    "torch.sym_max": maximum,
    "torch.sym_min": minimum,
    "torch.sym_ite": choose,
    "torch.sym_not": np.logical_not,
    "torch._sym_sqrt": square_root,
}
