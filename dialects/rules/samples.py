"""Samples: typical and extreme uses of an op, which the op × rule test runs."""

from dataclasses import dataclass, field
from typing import Any

from aotc.dialects.types import Tensor


@dataclass(frozen=True)
class OpSample:
    """A use of an op: operand types (or arrays) and attributes.

    `low` and `high` bound the random operand values, in case the op is only defined or
    smooth in a region; a symbol in a shape is given by name and drawn from 1 to 5.
    """

    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    smooth: bool = True


def f32(*shape: int | str) -> Tensor:
    """Return an operand of type f32."""
    return _operand(shape, "f32")


def i32(*shape: int | str) -> Tensor:
    """Return an operand of type i32."""
    return _operand(shape, "i32")


def boolean(*shape: int | str) -> Tensor:
    """Return an operand of type bool."""
    return _operand(shape, "bool")


def _operand(shape: Any, dtype: str) -> Tensor:
    return Tensor(shape, dtype)
