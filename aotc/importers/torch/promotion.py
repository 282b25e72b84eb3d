"""Promotion of PyTorch's dtypes: by category first, then by rank.

Bool, integers, floats: the highest category wins. Within it arrays with axes decide,
then scalars (arrays without axes), then Python numbers, which have the default dtypes
i64 and f32. See "Type promotion" in PyTorch's documentation of tensor attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import SymbolicDim
from aotc.tracing.array import Array
from aotc.tracing.conversion import astype, lift

Operand = Array | SymbolicDim | bool | int | float
Result = TypeVar("Result")


def _category(dtype: str) -> int:
    """Return the promotion category of a dtype: 0 bool, 1 integer, 2 float."""
    if dtype == "bool":
        return 0
    return 2 if dtypes.is_float(dtype) else 1


def common_dtype(one: str, other: str) -> str:
    """Return the dtype that PyTorch promotes two dtypes to."""
    if _category(one) != _category(other):
        return max(one, other, key=_category)
    if {one, other} == {"f16", "bf16"}:
        return "f32"
    if dtypes.is_float(one):
        return max(one, other, key=dtypes.bits)
    pair = (dtypes.to_numpy(one), dtypes.to_numpy(other))
    return dtypes.canonical_dtype(np.promote_types(*pair))


def _number_dtype(number: Operand) -> str:
    """Return PyTorch's default dtype for a Python number or size."""
    if isinstance(number, bool):
        return "bool"
    return "i64" if isinstance(number, int | SymbolicDim) else "f32"


def result_dtype(*operands: Operand) -> str:
    """Return the dtype of PyTorch's result for arrays and Python numbers."""
    arrays = [x for x in operands if isinstance(x, Array)]
    levels = (
        [x.dtype for x in arrays if x.ndim],
        [x.dtype for x in arrays if not x.ndim],
        [_number_dtype(x) for x in operands if not isinstance(x, Array)],
    )
    result: str | None = None
    for level in levels:
        found = _common_dtype_of_all(level)
        if result is None or (found and _category(found) > _category(result)):
            result = found
    assert result is not None, "an operation has operands"
    return result


def _common_dtype_of_all(names: Iterable[str]) -> str | None:
    """Return the dtype that PyTorch promotes all of these to; None for none."""
    result: str | None = None
    for name in names:
        result = name if result is None else common_dtype(result, name)
    return result


def as_dtype(x: Operand, dtype: str) -> Array:
    """Return an array or Python number in a dtype; integers wrap around."""
    if isinstance(x, Array):
        return astype(x, dtype)
    if isinstance(x, int) and dtype in dtypes.INTEGERS:
        low = np.asarray(x & (1 << dtypes.bits(dtype)) - 1, "u8")
        x = int(low.astype(dtypes.to_numpy(dtype)))
    return astype(lift(x, dtype), dtype)


def promote(*operands: Operand) -> list[Array]:
    """Return the operands converted to their common dtype by PyTorch's rules."""
    dtype = result_dtype(*operands)
    return [as_dtype(x, dtype) for x in operands]


def promote_floats(*operands: Operand) -> list[Array]:
    """Return the operands converted to their common float dtype; integers to f32."""
    dtype = result_dtype(*operands)
    dtype = dtype if dtypes.is_float(dtype) else "f32"
    return [as_dtype(x, dtype) for x in operands]


def promoting(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function of arrays of one dtype to promote mixed operands."""

    def call(*operands: Operand) -> Result:
        return function(*promote(*operands))

    return call


def promoting_floats(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function of floats to promote mixed operands, integers to f32."""

    def call(*operands: Operand) -> Result:
        return function(*promote_floats(*operands))

    return call
