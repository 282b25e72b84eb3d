"""Ways to be wrong: what a right function is replaced with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.types import Tensor
from aotc.mlir import Value

Wrong = Callable[[Any], Any]


def does_nothing(right: Any) -> Any:
    return lambda *_: None


def by(change: Callable[..., Any]) -> Wrong:
    """Return what the right function gives, changed: `change(result, *arguments)`."""

    def wrong(right: Any) -> Any:
        return lambda *given: change(right(*given), *given)

    return wrong


def given(change: Callable[..., Sequence[Any]]) -> Wrong:
    """Return what the right function gives for changed arguments."""

    def wrong(right: Any) -> Any:
        return lambda *given: right(*change(*given))

    return wrong


def lowered_as(body: Callable[..., Value]) -> Wrong:
    """Return a lowering of an op by a body on elements."""

    def lower(low: Any, op: Any, *operands: Value) -> Value:
        found: Value = low.pointwise(
            list(operands), Tensor.of(op.results[0]), lambda *x: body(*x)
        )
        return found

    return lambda right: lower
