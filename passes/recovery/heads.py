"""Heads of keys and values that several heads of queries share.

    %1 = graph.broadcast(%k)      batch, positions, key heads, repeats, depth
    %2 = graph.reshape(%1)                                                      →
    %y = graph.attention(%q, %2, …)               %y = graph.attention(%q, %k, …)

Exporters repeat them before the attention, which reads each as often as it has readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Shape, element_count
from aotc.mlir import Value
from aotc.passes.recovery.movement import Movement, Parts, movement_of, write_moved


@dataclass(frozen=True)
class Operand:
    """A query, key or value: the parts of batch, rows, heads and depth."""

    movement: Movement
    groups: Sequence[Parts]

    @property
    def repeats(self) -> Any:
        """How many heads in a row are the same."""
        return element_count(tuple(part.size for part in repeats_of(self.groups[2])))

    @property
    def has_repeats(self) -> bool:
        """Whether anything is repeated."""
        return any(part.axis is None for group in self.groups for part in group)

    def with_shared_heads(self) -> Operand:
        """Each head once."""
        batch, rows, heads, depth = self.groups
        heads = heads[: len(heads) - len(repeats_of(heads))]
        return replace(self, groups=[batch, rows, heads, depth])

    def write(self, b: Builder) -> Value:
        """The value, without its factor."""
        return write_moved(b, self.movement, self.groups, shape_of(self.groups))


def share_heads(b: Builder, op: Attention) -> Sequence[Value] | None:
    """What an attention gives, of keys and values that are not repeated.

    Args:
        b: writes it.
        op: the attention.

    Returns:
        Its results; None if keys or values have no repeats, or of other things than
        heads, or each another number of them.
    """
    found = [_operand(value) for value in (op.key, op.value)]
    key, value = found
    if key.repeats == 1 or key.repeats != value.repeats:
        return None
    shared = [each.with_shared_heads() for each in found]
    if any(each.has_repeats for each in shared):
        return None
    given = [each.write(b) for each in shared]
    attributes = Attention.attributes_of(op)
    return list(b.attention(op.query, *given, op.bias, **attributes))


def _operand(value: Value) -> Operand:
    """Keys or values as the op takes them."""
    movement = movement_of(value)
    return Operand(movement, [movement.group([axis]) for axis in range(4)])


def repeats_of(parts: Parts) -> Parts:
    """The last parts of an axis, as far as they are repeats."""
    count = 0
    while count < len(parts) and parts[-1 - count].axis is None:
        count += 1
    return parts[len(parts) - count :]


def shape_of(groups: Sequence[Parts]) -> Shape:
    """The sizes of axes, by the parts of each."""
    return tuple(element_count(tuple(part.size for part in each)) for each in groups)
