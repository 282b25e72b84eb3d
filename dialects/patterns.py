"""What `simplify` rules ask about the operands of an op."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aotc.dialects.attributes import Array
from aotc.mlir import Value, ir

if TYPE_CHECKING:
    from aotc.dialects.builder import Builder
    from aotc.dialects.ops.binary import Binary


def made_by(value: Value, name: str) -> Any:
    """The op that computes `value` if it is a `graph.<name>`, else None.

    It is of the class of that name, which only the caller knows.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != f"graph.{name}":
        return None
    return owner.opview


def splat_of(value: Value) -> float | None:
    """The number that every element of `value` is known to be, if there is one."""
    owner = value.owner
    name = "" if isinstance(owner, ir.Block) else owner.name
    if name == "graph.broadcast":
        return splat_of(owner.operands[0])
    if name != "graph.constant":
        return None
    return _splat_number(owner.attributes["value"])


@lru_cache(maxsize=2**14)  # few constants, which every pass asks about
def _splat_number(elements: ir.Attribute) -> float | None:
    array = Array.decode(elements)
    if array.size == 0 or array.dtype == bool:
        return None
    first = array.flat[0]
    return float(first) if (array == first).all() else None


def repeated_scalar(b: "Builder", value: Value) -> Value | None:
    """A scalar that every element of `value` is known to be, if there is one."""
    while (inner := made_by(value, "broadcast")) is not None:
        value = inner.x
    if not ir.RankedTensorType(value.type).shape:
        return value
    constant = made_by(value, "constant")
    if constant is None or splat_of(value) is None:
        return None
    return b.constant(value=constant.value.reshape(-1)[0])


def truth_of(value: Value) -> bool | None:
    """What every element of a bool `value` is known to be, if there is one."""
    while (inner := made_by(value, "broadcast")) is not None:
        value = inner.x
    constant = made_by(value, "constant")
    return None if constant is None else _truth(constant.attributes["value"])


@lru_cache(maxsize=2**12)
def _truth(elements: ir.Attribute) -> bool | None:
    array = Array.decode(elements)
    if array.dtype != bool or array.size == 0:
        return None
    return bool(array.flat[0]) if array.all() or not array.any() else None


def neutral(op: "Binary", value: float, *, both: bool) -> Value | None:
    """The other operand, when one is the neutral element."""
    if splat_of(op.rhs) == value:
        return op.lhs
    if both and splat_of(op.lhs) == value:
        return op.rhs
    return None
