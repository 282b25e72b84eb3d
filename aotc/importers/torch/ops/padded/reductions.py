"""ATen ops that reduce or accumulate along axes, of which some are padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.common.padded import axes, reductions
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    data_of,
    fill_padding,
    in_dtype,
    refuse,
)
from aotc.importers.torch.ops import ordering
from aotc.importers.torch.ops.reductions import summable, variance_rule, with_mean
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float

Rule = Callable[..., Any]
Axes = int | Sequence[int] | None


def _sum_rule(function: Rule, neutral: Any) -> Rule:
    """A reduction that gives i64 for integers and truth values."""

    def rule(
        x: Padded, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
    ) -> Value:
        y = Padded(summable(x.data, dtype), x.shape)
        return reductions.reduce(function, y, dim, keepdim, neutral)  # type: ignore[no-any-return]

    return rule


def _mean(
    x: Padded, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
) -> Value:
    y = Padded(x.data if dtype is None else np.astype(x.data, dtype), x.shape)
    return reductions.mean(y, dim, keepdim)


def _extreme(function: Rule, neutral: Callable[[str], Any]) -> Rule:
    """The extreme elements; a call fails if there are none."""

    def rule(x: Padded, dim: Axes = None, keepdim: bool = False) -> Any:
        reductions.require_elements(x, dim)
        return reductions.reduce(function, x, dim, keepdim, neutral(x.dtype))

    return rule


def _position(function: Rule, neutral: Callable[[str], Any]) -> Rule:
    """Return a rule for the position of the extreme element, flat if no axis is
    given.
    """

    def rule(x: Padded, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            flat = axes.reshape(x, (-1,))
            assert isinstance(flat, Padded), "its size depends on the same values"
            found = rule(flat, 0, False)
            return np.reshape(found, (1,) * x.ndim) if keepdim else found
        reductions.require_elements(x, dim)
        y = Padded(fill_padding(x, neutral(x.dtype)), x.shape)

        def positions(data: Array, along: Any, keepdims: bool) -> Array:
            return np.astype(function(data, dim, keepdims=keepdims), "i64")

        return reductions.reduce(positions, y, dim, keepdim, neutral(x.dtype))

    return rule


def _with_position(values: Rule, positions: Rule) -> Rule:
    def rule(x: Padded, dim: int, keepdim: bool = False) -> list[Any]:
        return [values(x, dim, keepdim), positions(x, dim, keepdim)]

    return rule


def _truth(function: Rule, neutral: bool) -> Rule:
    def rule(x: Padded, dim: Axes = None, keepdim: bool = False) -> Any:
        y = Padded(np.astype(x.data, "bool"), x.shape)
        return reductions.reduce(function, y, dim, keepdim, neutral)

    return rule


_variance = variance_rule(reductions.variance)
_deviation = variance_rule(reductions.deviation)


def _log_sum_exp(x: Padded, dim: Axes, keepdim: bool = False) -> Any:
    y = Padded(as_float(x.data), x.shape)
    function = nn.logsumexp
    return reductions.reduce(function, y, dim, keepdim, -float("inf"))


def _count_nonzero(x: Padded, dim: Axes = None) -> Any:
    y = Padded(np.astype(np.not_equal(x.data, 0), "i64"), x.shape)
    return reductions.reduce(np.sum, y, dim, False, 0)


def _running(function: Rule, neutral: Any) -> Rule:
    def rule(x: Padded, dim: int, *, dtype: str | None = None) -> Value:
        y = Padded(summable(x.data, dtype), x.shape)
        return reductions.running_reduction(function, y, dim, neutral)

    return rule


def _softmax(function: Rule) -> Rule:
    def rule(x: Padded, dim: int, dtype: Any = None, *_: Any) -> Value:
        # the flag of `_softmax` says whether half precision becomes f32
        wanted = ("f32" if dtype else None) if isinstance(dtype, bool) else dtype
        y = Padded(as_float(data_of(in_dtype(x, wanted))), x.shape)
        return reductions.softmax(function, y, dim)

    return rule


def _sort(x: Padded, dim: int = -1, descending: bool = False) -> list[Value]:
    def function(data: Array) -> list[Array]:
        return ordering.sort(data, dim, descending)

    return reductions.in_order(function, x, dim, descending)


def _stable_sort(
    x: Padded, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> list[Value]:
    return _sort(x, dim, descending)


def _top_k(
    x: Padded, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Value]:
    if not isinstance(k, int):
        refuse("as many elements as a size says are taken", "give a number")

    def function(data: Array) -> list[Array]:
        return ordering.top_k(data, k, dim, largest)

    return reductions.most_extreme(function, x, k, dim, largest)


_largest = _extreme(np.max, reductions.lowest)
_smallest = _extreme(np.min, reductions.highest)
_argmax = _position(np.argmax, reductions.lowest)
_argmin = _position(np.argmin, reductions.highest)

RULES: dict[str, Rule] = {
    "aten.sum": _sum_rule(np.sum, 0),
    "aten.prod": _sum_rule(np.prod, 1),
    "aten.mean": _mean,
    "aten.amax": _largest,
    "aten.amin": _smallest,
    "aten.max.default": _largest,
    "aten.min.default": _smallest,
    "aten.max.dim": _with_position(_largest, _argmax),
    "aten.min.dim": _with_position(_smallest, _argmin),
    "aten.argmax": _argmax,
    "aten.argmin": _argmin,
    "aten.any": _truth(np.any, False),
    "aten.all": _truth(np.all, True),
    "aten._is_any_true": _truth(np.any, False),
    "aten._is_all_true": _truth(np.all, True),
    "aten.var": _variance,
    "aten.std": _deviation,
    "aten.var_mean": with_mean(_variance, reductions.mean),
    "aten.std_mean": with_mean(_deviation, reductions.mean),
    "aten.logsumexp": _log_sum_exp,
    "aten.count_nonzero": _count_nonzero,
    "aten.cumsum": _running(np.cumsum, 0),
    "aten.cumprod": _running(np.cumprod, 1),
    "aten.sort.default": _sort,
    "aten.sort.stable": _stable_sort,
    "aten.topk": _top_k,
    "aten.softmax.int": _softmax(nn.softmax),
    "aten._softmax": _softmax(nn.softmax),
    "aten.log_softmax.int": _softmax(nn.log_softmax),
    "aten._log_softmax": _softmax(nn.log_softmax),
}
