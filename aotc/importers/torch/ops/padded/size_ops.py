"""Arithmetic on sizes that values decide, and assertions on them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Size, element_count
from aotc.importers.common.padded.sizes import (
    bound_of,
    count_of,
    equate,
    is_at_most,
    is_data_dependent,
    is_equal,
    larger,
    smaller,
)
from aotc.importers.common.padded.values import Equality, data_of
from aotc.importers.torch.ops import size_ops
from aotc.tracing.array import Array


def _comparison(
    known: Callable[[Size, Size], bool], computed: Callable[..., Array]
) -> Callable[[Size | Array, Size | Array], bool | Array]:
    """Return a comparison of sizes: decided by their bounds, or emitted."""

    def rule(a: Size | Array, b: Size | Array) -> bool | Array:
        if not (isinstance(a, Array) or isinstance(b, Array)) and known(a, b):
            return True
        return computed(_number(a), _number(b))

    return rule


def _number(x: Size | Array) -> Array:
    """Return a size or scalar as a scalar array."""
    return x if isinstance(x, Array) else count_of(x)


def _is_less(a: Size, b: Size) -> bool:
    """Return whether bounds prove one size less than another."""
    return is_at_most(a + 1, b)


def _equality(a: Size | Array, b: Size | Array) -> bool | Array | Equality:
    """Return whether sizes are equal; an `Equality` to assert if bounds leave
    it open.
    """
    if isinstance(a, Array) or isinstance(b, Array):
        return np.equal(_number(a), _number(b))
    return is_equal(a, b) or Equality(a, b)


def assert_condition(
    condition: object, message: str = "an assertion", *rest: object
) -> None:
    """Check a condition at run time; an `Equality` makes the sizes equal from
    here on.
    """
    if not isinstance(condition, Equality):
        size_ops.assert_condition(condition, message, *rest)
        return
    one, other = condition.left, condition.right
    both = is_data_dependent(one) and is_data_dependent(other)
    if both and bound_of(one) == bound_of(other):
        equate(one, other)
    else:
        debug.check(np.equal(count_of(one), count_of(other)), message)


def in_range(size: Size, min: int | None = None, max: int | None = None) -> None:
    """Check at run time that a size lies between two numbers."""
    if min is not None:
        assert_condition(
            _comparison(lambda a, b: is_at_most(b, a), np.greater_equal)(size, min)
        )
    if max is not None:
        assert_condition(_comparison(is_at_most, np.less_equal)(size, max))


def _on_truths(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of bools to take conditions that may be an `Equality`."""

    def rule(*conditions: object) -> Array:
        return function(*map(_truth_of, conditions))

    return rule


def _truth_of(condition: object) -> object:
    """Return a condition as a bool or array; an `Equality` is emitted."""
    if isinstance(condition, Equality):
        return np.equal(count_of(condition.left), count_of(condition.right))
    return condition


def _select(condition: object, x: Size | Array, y: Size | Array) -> Size | Array:
    """Return x or y by a condition; a selected array if that is only known at
    run time.
    """
    truth = _truth_of(condition)
    if isinstance(truth, Array):
        return np.where(truth, _number(x), _number(y))
    return x if truth else y


RULES: dict[str, Callable[..., Any]] = {
    **size_ops.ASSERTIONS,
    **{
        name: assert_condition
        for name, rule in size_ops.ASSERTIONS.items()
        if rule is size_ops.assert_condition
    },
    **{
        name: in_range
        for name, rule in size_ops.ASSERTIONS.items()
        if rule is size_ops.in_range
    },
    "aten.sym_size": size_ops.size,
    "aten.sym_numel": lambda x: element_count(x.shape),
    "aten.sym_storage_offset": lambda x: 0,
    "aten.item": lambda x: np.reshape(data_of(x), ()),
    "_operator.add": operator.add,
    "_operator.sub": operator.sub,
    "_operator.mul": operator.mul,
    "_operator.floordiv": operator.floordiv,
    "_operator.mod": operator.mod,
    "_operator.truediv": lambda *xs: size_ops.quotient(*data_of(xs)),
    "_operator.getitem": operator.getitem,
    "_operator.eq": _equality,
    "_operator.ne": _comparison(lambda a, b: False, np.not_equal),
    "_operator.lt": _comparison(_is_less, np.less),
    "_operator.le": _comparison(is_at_most, np.less_equal),
    "_operator.gt": _comparison(lambda a, b: _is_less(b, a), np.greater),
    "_operator.ge": _comparison(lambda a, b: is_at_most(b, a), np.greater_equal),
    "_operator.and_": _on_truths(np.logical_and),
    "_operator.or_": _on_truths(np.logical_or),
    "torch.sym_not": _on_truths(np.logical_not),
    "torch.sym_min": smaller,
    "torch.sym_max": larger,
    "torch.sym_ite": _select,
    "torch.sym_float": lambda x: np.astype(count_of(x), "f32"),
}
