"""Mixed precision, op by op: whether one computes in the cheaper float dtype."""

from collections.abc import Sequence
from typing import Protocol

import ml_dtypes
import numpy as np

from aotc.core import dtypes
from aotc.dialects.graph import FOLLOWS, GIVEN, LOW, WHOLE, WIDE, WIDENS, GraphOp


class Mixed(Protocol):
    """A value in mixed precision: its dtype, and its kind, which decides on rounding.

    Its `kind` is how ops take it: LOW, what is computed of a product, is rounded, and
    so is GIVEN, an argument or what is made of some, where it meets that; WIDE is not,
    nor is WHOLE, which is made of whole numbers (positions, random bits, quantised
    weights) and of what is given; WIDENS, what a norm makes of LOW ones, is rounded
    where it meets LOW ones, and before what chooses among numbers, which rounds as well
    before as after; FOLLOWS, a constant, takes any dtype. Ops of no other kind than LOW
    compute in the cheaper dtype.
    """

    @property
    def dtype(self) -> str:
        """The dtype that the value has without mixed precision."""

    @property
    def kind(self) -> str:
        """The kind, which says how ops take the value: GIVEN, LOW, WIDE, WHOLE, …."""


def kind_of(
    op: GraphOp | type[GraphOp], operands: Sequence[Mixed], compute: str
) -> str:
    """Return the kind of an op in mixed precision: GIVEN, LOW, WIDE, …; see `Mixed`.

    Products of what is made of whole numbers keep f32: an angle that is a position by a
    frequency has more digits than half floats, and so have quantised weights.
    """
    kinds = {each.kind for each in operands if each.dtype == "f32"}
    if not kinds:  # made of integers, or of nothing; or widened by the model
        floats = any(dtypes.is_float(each.dtype) for each in operands)
        if operands:
            return WIDE if floats else WHOLE
        return WHOLE if op.precision == WIDE else FOLLOWS
    if compute not in op.dtypes or op.precision == WIDE:
        return WIDE
    if op.precision == LOW:
        return WIDE if WHOLE in kinds else LOW
    if kinds == {FOLLOWS}:
        return FOLLOWS
    if WIDE in kinds or (WHOLE in kinds and kinds & {LOW, WIDENS}):
        return WIDE
    found = next(each for each in (WHOLE, LOW, WIDENS, GIVEN) if each in kinds)
    if found == LOW and op.precision == WIDENS:
        return WIDENS
    return LOW if found == WIDENS and op.on_vectors and op.selects else found


def kind_of_constant(value: object, compute: str) -> str:
    """Return the kind of a constant in mixed precision; see `Mixed`.

    FOLLOWS for one number that `compute` comes near to, or if it holds all exactly;
    else WHOLE for whole numbers, WIDE for others. In f16 the -1e9 that hides a score
    would be -infinity, and an epsilon of 1e-12 be 0.
    """
    array = np.asarray(value)
    if dtypes.canonical_dtype(array.dtype) != "f32":
        return FOLLOWS
    if array.size <= 1:
        return FOLLOWS if _comes_near(array, compute) else WIDE
    with np.errstate(over="ignore"):
        rounded = array.astype(dtypes.to_numpy(compute))
    if np.array_equal(array, rounded):
        return FOLLOWS
    return WHOLE if np.array_equal(array, np.floor(array)) else WIDE


def kind_of_padding(kind: str, value: float, compute: str) -> str:
    """Return the kind of an op that pads by a number, given the kind of its operand.

    WIDE in the place of LOW for a number that is no finite one near it in `compute`.
    """
    number = np.asarray(value, np.float32)
    with np.errstate(over="ignore"):
        rounded = number.astype(dtypes.to_numpy(compute))
    is_kept = bool(np.isfinite(rounded)) and _comes_near(number, compute)
    return WIDE if kind == LOW and np.isfinite(number) and not is_kept else kind


def _comes_near(array: np.ndarray, compute: str) -> bool:
    """Return whether numbers rounded to `compute` lose no more than their last digits.

    Numbers below the normal ones have fewer: an epsilon of 1e-5 is near in f16.
    """
    unit = 4 * float(ml_dtypes.finfo(dtypes.to_numpy(compute)).eps)
    finite = array[np.isfinite(array)].astype(np.float64)
    rounded = nearest_finite(finite, compute).astype(np.float64)
    return bool((np.abs(rounded - finite) <= unit * np.abs(finite)).all())


def nearest_finite(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array rounded to a float dtype, where finite numbers stay finite.

    The least number of f32, which hides scores, is beyond what bf16 holds.
    """
    most = float(ml_dtypes.finfo(dtypes.to_numpy(dtype)).max)
    within = np.where(np.isfinite(array), np.clip(array, -most, most), array)
    return within.astype(dtypes.to_numpy(dtype))
