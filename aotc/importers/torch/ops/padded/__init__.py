"""ATen ops on values whose sizes depend on values, where these need rules of their own.

The functions take the arguments of the ops of the other families, of which some are
`Padded`, and sizes that values decide. Any other op is computed by its own function, in
which each op of the graph is padded by its `pad` rule; see
`aotc.importers.common.padded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc.importers.common.padded.axes import expand
from aotc.importers.common.padded.values import Value, in_dtype
from aotc.importers.torch.ops.padded import positions, reductions, shapes, size_ops
from aotc.importers.torch.ops.padded.positions import SOURCES

__all__ = ["PADDED", "SOURCES", "written_into_first"]

Rule = Callable[..., Any]

PADDED: dict[str, Rule] = {
    **reductions.RULES,
    **shapes.RULES,
    **positions.RULES,
    **SOURCES,
    **size_ops.RULES,
}


def written_into_first(rule: Callable[..., Value]) -> Callable[..., Value]:
    """Wrap a rule to cast and broadcast its result to the first argument."""

    def call(x: Value, *rest: object, **named: object) -> Value:
        found = in_dtype(rule(x, *rest, **named), x.dtype)
        return found if found.shape == x.shape else expand(found, x.shape)

    return call
