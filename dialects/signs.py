"""Which integers are known not to be negative, as most indices are.

Importers write the index that frameworks allow to count from the end as
`select(i < 0, i + n, i)`. Where `i` is a position, that is `i`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.attributes import Array
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size, Tensor, bounds
from aotc.mlir import Value, ir

_DEPTH = 16  # of ops that are looked at

Known = Callable[[Value], bool]


def is_nonnegative(value: Value, depth: int = _DEPTH) -> bool:
    """Whether all elements are known to be at least 0; False for floats."""
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

    if type(op).rearranges:
        return is_known(op.operands[0])
    rule = _RULES.get(type(op)._op_name)
    return rule is not None and rule(op, is_known)


def _is_constant_nonnegative(op: Any, _: Known) -> bool:
    return _has_no_negative(op.attributes["value"])


@lru_cache(maxsize=2**12)
def _has_no_negative(elements: ir.Attribute) -> bool:
    array = Array.decode(elements)
    return bool(array.min(initial=0) >= 0)


def never_wraps(largest: Size, dtype: str) -> bool:
    """Whether a size wraps around in no case to below 0."""
    _, most = bounds(largest)
    return dtype == "i64" or bool(most <= np.iinfo(dt.to_numpy(dtype)).max)


def _is_widened(op: Any, is_known: Known) -> bool:
    """Of a cast: it keeps the values of integers that are not negative."""
    source = Tensor.of(op.x).dtype
    is_kept = source == "bool" or dt.bits(source) < dt.bits(op.dtype)
    is_kept |= source == op.dtype
    return not dt.is_float(source) and is_kept and is_known(op.x)


_RULES: dict[str, Callable[[Any, Known], bool]] = {
    "constant": _is_constant_nonnegative,
    "iota": lambda op, _: never_wraps(op.shape[op.axis], op.dtype),
    "dimension": lambda op, _: never_wraps(op.size[0], op.dtype),
    "cast": _is_widened,
    "maximum": lambda op, is_known: is_known(op.lhs) or is_known(op.rhs),
    "minimum": lambda op, is_known: is_known(op.lhs) and is_known(op.rhs),
    "bitwise_and": lambda op, is_known: is_known(op.lhs) or is_known(op.rhs),
    "concatenate": lambda op, is_known: is_known(op.lhs) and is_known(op.rhs),
    "select": lambda op, is_known: is_known(op.on_true) and is_known(op.on_false),
    "gather": lambda op, is_known: is_known(op.x),  # or 0, out of bounds
}
