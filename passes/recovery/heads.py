"""Heads of keys and values that several heads of queries share.

    %1 = graph.broadcast(%k)      batch, positions, key heads, repeats, depth
    %2 = graph.reshape(%1)                                                      →
    %y = graph.attention(%q, %2, …)               %y = graph.attention(%q, %k, …)

Exporters repeat them before the attention, which reads each as often as it has readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.ops.attention import Attention, may_share
from aotc.dialects.types import Size, Tensor
from aotc.dialects.views import Strides, View, size_of
from aotc.mlir import Value
from aotc.passes.recovery.movement import movement_of


def share_heads(b: Builder, op: Attention) -> Sequence[Value] | None:
    """What an attention gives, of keys and values that are not repeated.

    Args:
        b: writes it.
        op: the attention.

    Returns:
        Its results; None if keys or values have no repeats, or of other things than
        heads, or each another number of them.
    """
    found = [movement_of(value) for value in (op.key, op.value)]
    key, value = (head_repeats(each.view) for each in found)
    if key == 1 or key != value:
        return None
    shared = [with_shared_heads(each.view) for each in found]
    if any(view.has_repeats for view in shared):
        return None
    heads = Tensor.of(op.query).shape[2]
    if not all(may_share(heads, size_of(view.axes[2])) for view in shared):
        return None
    given = [v.write(b, each.source) for v, each in zip(shared, found, strict=True)]
    return list(op.rebuild(op.query, *given, op.bias))


def head_repeats(view: View) -> Size:
    """Return how many heads in a row are the same.

    Args:
        view: with axes of batch, rows, heads and depth.
    """
    return size_of(last_repeats(view.axes[2]))


def with_shared_heads(view: View) -> View:
    """Return a view with axes of batch, rows, heads and depth with each head once."""
    batch, rows, heads, depth = view.axes
    own = heads[: len(heads) - len(last_repeats(heads))]
    return view.with_axes([batch, rows, own, depth])


def last_repeats(strides: Strides) -> Strides:
    """Return the innermost strides of an axis, as far as they are repeats."""
    return strides[-1:] if strides and strides[-1].repeats else ()
