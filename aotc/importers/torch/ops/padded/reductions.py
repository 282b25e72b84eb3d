"""ATen ops that choose among elements along axes, of which some are padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc.importers.common.padded import reductions
from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.sizes import require_elements
from aotc.importers.common.padded.values import Value, refuse
from aotc.importers.torch.ops import ordering
from aotc.importers.torch.ops.reductions import OPS

Rule = Callable[..., Any]


def _top_k(
    x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Value]:
    """Return the k largest (or smallest) elements along an axis, and their indices."""
    if not isinstance(k, int):
        refuse("as many elements as a size says are taken", "give a number")
    with require_elements([x.shape[dim]], k):
        return by_op_rules(ordering.top_k)(x, k, dim, largest)  # type: ignore[no-any-return]


_OF_ELEMENTS = (
    "aten.amax",
    "aten.amin",
    "aten.max.default",
    "aten.min.default",
    "aten.max.dim",
    "aten.min.dim",
    "aten.argmax",
    "aten.argmin",
)

RULES: dict[str, Rule] = {
    **{name: reductions.of_elements(OPS[name]) for name in _OF_ELEMENTS},
    "aten.topk": _top_k,
}
