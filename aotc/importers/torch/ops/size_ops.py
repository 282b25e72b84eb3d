"""Arithmetic on sizes, and what only asserts something about them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Dim, Size, element_count, maximum, minimum
from aotc.errors import InputError
from aotc.importers.common.known_sizes import is_different, is_equal, rounding
from aotc.importers.torch.promotion import as_dtype
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail


def size(x: Array, axis: int) -> Size:
    """The size of an axis."""
    return x.shape[axis]


def stride(x: Array, axis: int) -> Size:
    """The distance of neighbours along an axis in memory, row by row."""
    return element_count(x.shape[axis % x.ndim + 1 :])


def quotient(a: Any, b: Any) -> Any:
    """`a / b` as a number, or as an f32 scalar for sizes that vary."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a / b
    return np.divide(as_dtype(a, "f32"), as_dtype(b, "f32"))


def power(a: Any, b: Any) -> Any:
    """`a ** b`; of a size that varies, for a small whole b."""
    return math.prod([a] * b) if isinstance(a, Dim) and isinstance(b, int) else a**b


def number(x: Any) -> Any:
    """A size as a float."""
    return as_dtype(x, "f32") if isinstance(x, Dim) else float(x)


def _comparison(
    known: Callable[[Any, Any], bool], computed: Callable[..., Array]
) -> Callable[[Any, Any], Any]:
    """A comparison: decided by the contracts, else when the model runs."""

    def call(a: Any, b: Any) -> Any:
        if isinstance(a, Array) or isinstance(b, Array):
            return computed(a, b)
        try:
            return known(a, b)
        except InputError:
            return computed(lift(a, "i64"), lift(b, "i64"))

    return call


def choose(condition: Any, x: Any, y: Any) -> Any:
    """`x` if a condition holds, else `y`; an array where only the call decides."""
    if not isinstance(condition, Array):
        return x if condition else y
    whole = all(isinstance(each, int | Dim) for each in (x, y))
    dtype = "i64" if whole else None
    return np.where(condition, lift(x, dtype), lift(y, dtype))


def square_root(x: Any) -> Any:
    """The root of a number or of a size."""
    return math.sqrt(x) if isinstance(x, (int, float)) else np.sqrt(number(x))


def nothing(*_: Any, **__: Any) -> None:
    """An assertion of dtypes and layouts, which are fixed when a model is traced."""


def assert_condition(
    condition: Any, message: str = "an assertion of the model", *_: Any
) -> None:
    """Refuse a call unless a condition holds.

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


def in_range(size: Any, min: int | None = None, max: int | None = None) -> None:
    """Refuse a call unless a number is between two others.

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
    """A number that a tensor holds, as an array without axes."""
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


def assert_in_order(token: Any, op: Any, *args: Any, **named: Any) -> list[Any]:
    """An assertion in the order of those that have effects."""
    name = str(op)
    assertion = ASSERTIONS.get(name) or ASSERTIONS[name.rpartition(".")[0]]
    assertion(*args, **named)
    return [token, None]


OPS: dict[str, Callable[..., Any]] = {
    **ASSERTIONS,
    "higher_order.with_effects": assert_in_order,
    "aten.sym_size": size,
    "aten.sym_numel": lambda x: element_count(x.shape),
    "aten.sym_stride": stride,
    "aten.sym_storage_offset": lambda x: 0,
    "aten._local_scalar_dense": item,
    "aten.item": item,
    "_operator.add": operator.add,
    "_operator.sub": operator.sub,
    "_operator.mul": operator.mul,
    "_operator.floordiv": operator.floordiv,
    "_operator.mod": operator.mod,
    "_operator.neg": operator.neg,
    "_operator.truediv": quotient,
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
    "math.ceil": rounding(math.ceil),
    "math.floor": rounding(math.floor),
    "math.trunc": rounding(math.trunc),
    "torch.sym_max": maximum,
    "torch.sym_min": minimum,
    "torch.sym_ite": choose,
    "torch.sym_float": number,
    "torch.sym_int": rounding(math.trunc),
    "torch.sym_not": np.logical_not,
    "torch._sym_sqrt": square_root,
}
