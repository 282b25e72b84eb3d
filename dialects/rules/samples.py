"""Samples: typical and extreme uses of an op, which the op × rule test runs."""

from dataclasses import dataclass, field
from typing import Any

from aotc.dialects.types import Tensor


@dataclass(frozen=True)
class OpSample:
    """A use of an op for tests: operand types (or arrays) and attributes.

    `low` and `high` bound the random operand values, in case the op is only defined or
    smooth in a region; a symbol in a shape is given by name and drawn from 1 to 5.
    """

    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    smooth: bool = True


def f32(*shape: int | str) -> Tensor:
    """Return the type of an f32 operand of a sample."""
    return _operand(shape, "f32")


def i32(*shape: int | str) -> Tensor:
    """Return the type of an i32 operand of a sample."""
    return _operand(shape, "i32")


def boolean(*shape: int | str) -> Tensor:
    """Return the type of a bool operand of a sample."""
    return _operand(shape, "bool")


def _operand(shape: Any, dtype: str) -> Tensor:
    """Return the type of an operand of a sample."""
    return Tensor(shape, dtype)
