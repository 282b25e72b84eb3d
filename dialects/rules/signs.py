"""Integers known not to be negative, as most indices are.

Importers write the index that frameworks allow to count from the end as
`select(i < 0, i + n, i)`. Where `i` is a position, that is `i`.
"""

from functools import lru_cache

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import DenseElements
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size, Tensor, bounds
from aotc.mlir import Value, ir

_DEPTH = 16  # of ops that are looked at


def is_nonnegative(value: Value, depth: int = _DEPTH) -> bool:
    """Return whether all integers of a value are provably >= 0; False for floats."""
    dtype = Tensor.of(value).dtype
    if dtype == "bool" or dtype in dt.UNSIGNED:
        return True
    if isinstance(value.owner, ir.Block) or dt.is_float(dtype) or depth == 0:
        return False
    op = value.owner.opview
    if not isinstance(op, GraphOp):
        return False

    def is_known(operand: Value) -> bool:
        return is_nonnegative(operand, depth - 1)

    return bool(type(op).is_nonnegative(op, is_known))


@lru_cache(maxsize=2**12)
def has_no_negative(elements: ir.Attribute) -> bool:
    """Return whether no element of a constant is below 0."""
    array = DenseElements.decode(elements)
    return bool(array.min(initial=0) >= 0)


def never_wraps(largest: Size, dtype: str) -> bool:
    """Return whether `dtype` holds a size without wrapping around."""
    _, most = bounds(largest)
    return dtype == "i64" or bool(most <= np.iinfo(dt.to_numpy(dtype)).max)
