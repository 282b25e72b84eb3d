"""ATen ops on values whose sizes depend on values: one rule for each that has one.

The functions take the arguments of the ops of the other families, of which some are
`Padded`, and sizes that values decide. An op that is not here is refused for such
arguments; see `aotc.importers.common.padded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc.importers.common.padded.axes import expand
from aotc.importers.common.padded.elementwise import elementwise
from aotc.importers.common.padded.values import Value, in_dtype
from aotc.importers.torch.ops import activations, composites, creation
from aotc.importers.torch.ops import elementwise as by_element
from aotc.importers.torch.ops.padded import (
    layers,
    positions,
    reductions,
    shapes,
    size_ops,
)
from aotc.importers.torch.ops.padded.positions import SOURCES

__all__ = ["PADDED", "SOURCES", "written_into_first"]

Rule = Callable[..., Any]

_NOT_BY_ELEMENT = {"aten.glu"}

ELEMENTWISE: dict[str, Rule] = {
    name: elementwise(function)
    for name, function in {
        **by_element.OPS,
        **activations.OPS,
        **{
            name: composites.OPS[name]
            for name in (
                "aten.dropout",
                "aten.to.device",
                "aten.to.dtype_layout",
                "aten.to.other",
                "aten.type_as",
                "aten.__and__",
                "aten.__or__",
                "aten.__xor__",
                "aten.__lshift__",
                "aten.__rshift__",
                "aten.min.other",
                "aten.max.other",
                "aten.masked_fill",
            )
        },
        **{
            name: creation.OPS[name]
            for name in (
                "aten.full_like",
                "aten.zeros_like",
                "aten.ones_like",
                "aten.empty_like",
                "aten.fill.Scalar",
                "aten.fill.Tensor",
                "aten.scalar_tensor",
            )
        },
    }.items()
    if name not in _NOT_BY_ELEMENT
}

PADDED: dict[str, Rule] = {
    **ELEMENTWISE,
    **reductions.RULES,
    **shapes.SHAPES,
    **shapes.CREATION,
    **positions.RULES,
    **SOURCES,
    **layers.RULES,
    **size_ops.RULES,
}


def written_into_first(rule: Rule) -> Rule:
    """The result of a rule in the dtype of its first argument, whose shape it keeps."""

    def call(x: Value, *rest: Any, **named: Any) -> Value:
        found = in_dtype(rule(x, *rest, **named), x.dtype)
        return found if found.shape == x.shape else expand(found, x.shape)

    return call
