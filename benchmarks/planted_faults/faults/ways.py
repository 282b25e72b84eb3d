"""Ways to be wrong: what a right function is replaced with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.types import Tensor
from aotc.mlir import Value

Wrong = Callable[[Any], Any]


def does_nothing(right: Any) -> Any:
    """Return a function that does nothing."""
    return lambda *_: None


def by(change: Callable[..., Any]) -> Wrong:
    """Return a fault maker: the right function's result, changed by `change(result,
    *arguments)`.
    """

    def wrong(right: Any) -> Any:
        return lambda *given: change(right(*given), *given)

    return wrong


def given(change: Callable[..., Sequence[Any]]) -> Wrong:
    """Return a fault maker: the right function, called with changed arguments."""

    def wrong(right: Any) -> Any:
        return lambda *given: right(*change(*given))

    return wrong


def lowered_as(body: Callable[..., Value]) -> Wrong:
    """Return a fault maker: a lowering of an op by an elementwise body."""

    def lower(low: Any, op: Any, *operands: Value) -> Value:
        found: Value = low.pointwise(
            list(operands), Tensor.of(op.results[0]), lambda *x: body(*x)
        )
        return found

    return lambda right: lower
