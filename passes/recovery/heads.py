"""Heads of keys and values that several heads of queries share.

    %1 = graph.broadcast(%k)      batch, positions, key heads, repeats, depth
    %2 = graph.reshape(%1)                                                      →
    %y = graph.attention(%q, %2, …)               %y = graph.attention(%q, %k, …)

Exporters repeat them before the attention, which reads each as often as it has readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.movement.views import Strides, View, size_of
from aotc.dialects.ops.attention import Attention, may_share
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value
from aotc.passes.recovery.movement import scaled_view_of


def share_heads(b: Builder, op: Attention) -> Sequence[Value] | None:
    """Emit an attention on keys and values without repeated heads; return its results,
    or None.

    Args:
        b: writes it.
        op: the attention.

    Returns:
        Its results; None if keys or values have no repeats, or of other things than
        heads, or each another number of them.
    """
    found = [scaled_view_of(value) for value in (op.key, op.value)]
    views = [each.view for each in found]
    shared = shared_views(Tensor.of(op.query).shape[2], views)
    if shared is None or shared == views:
        return None
    given = [v.write(b, each.source) for v, each in zip(shared, found, strict=True)]
    return list(op.rebuild(op.query, *given, op.bias))


def shared_views(heads: Size, views: Sequence[View]) -> list[View] | None:
    """Return views of keys and values with each shared head once; None if they do not
    fit.

    Args:
        heads: of queries.
        views: with axes of batch, rows, heads and depth.

    Returns:
        None if each repeats another number of heads in a row, or other things, too.
    """
    repeats = [last_repeats(view.axes[2]) for view in views]
    if len({*map(size_of, repeats)}) > 1:
        return None
    found = []
    for view, last in zip(views, repeats, strict=True):
        batch, rows, own, depth = view.axes
        own = own[: len(own) - len(last)]
        found.append(view.with_axes([batch, rows, own, depth]))
        if found[-1].has_repeats or not may_share(heads, size_of(own)):
            return None
    return found


def last_repeats(strides: Strides) -> Strides:
    """Return the innermost stride of an axis if it is a broadcast; else none."""
    return strides[-1:] if strides and strides[-1].repeats else ()
