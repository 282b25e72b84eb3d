"""Mixed precision, op by op: whether one computes in the cheaper float dtype."""

from collections.abc import Sequence
from typing import Protocol

from aotc import dtypes
from aotc.dialects.graph import FOLLOWS, LOW, WIDE, GraphOp


class Mixed(Protocol):
    """A value of a function in mixed precision.

    Its `kind` is how ops take it. LOW: may be rounded; WIDE: not; FOLLOWS: a constant,
    takes any dtype.
    """

    @property
    def dtype(self) -> str:
        """In the function as it is written."""

    @property
    def kind(self) -> str:
        """One of LOW, WIDE and FOLLOWS."""


def kind_of(
    op: GraphOp | type[GraphOp], operands: Sequence[Mixed], compute: str
) -> str:
    """How an op takes its operands, and others its results."""
    kinds = {each.kind for each in operands if each.dtype == "f32"}
    if not kinds:  # made of integers, or of nothing; or widened by the model
        floats = any(dtypes.is_float(each.dtype) for each in operands)
        return WIDE if floats else LOW if operands else FOLLOWS
    if compute not in op.dtypes or op.precision == WIDE:
        return WIDE
    if op.precision == LOW:
        return LOW
    if kinds == {FOLLOWS}:
        return FOLLOWS
    return WIDE if WIDE in kinds else LOW
