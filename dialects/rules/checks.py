"""Checks of `infer` rules: one message for each kind of misfit."""

from collections.abc import Sequence

from aotc.dialects.types import Tensor, format_shape
from aotc.errors import InputError


def require_dtype(tensor: Tensor, allowed: Sequence[str]) -> None:
    """Raise InputError for an operand whose dtype the op does not take."""
    if tensor.dtype not in allowed:
        raise InputError(
            "dtype-mismatch",
            f"expected an operand of dtype {', '.join(allowed)}; got {tensor}",
        )


def require_equal(*tensors: Tensor) -> None:
    """Raise InputError for operands that differ in shape or dtype."""
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype:
            raise InputError(
                "dtype-mismatch",
                f"expected operands of one dtype; got {first} and {other}",
                hint="convert one of them with .astype(...)",
            )
        if other.shape != first.shape:
            raise InputError(
                "shape-mismatch",
                f"expected operands of one shape; got {format_shape(first.shape)} "
                f"and {format_shape(other.shape)}",
            )


def require_distinct(x: Tensor, axes: Sequence[int]) -> None:
    """Raise InputError for axes that are out of range or repeated."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.rank for a in axes):
        raise InputError(
            "bad-axis", f"expected distinct axes of {x}; got {tuple(axes)}"
        )


def require_axes(x: Tensor, axes: Sequence[int]) -> None:
    """Raise InputError for axes that are out of range, repeated or not rising."""
    if sorted(set(axes)) != list(axes) or any(not 0 <= a < x.rank for a in axes):
        raise InputError(
            "bad-axis", f"expected distinct rising axes of {x}; got {tuple(axes)}"
        )
