"""Make f32 of narrow scales and offsets that no kernel reads.

    graph.dequantize(%q, %s : f16, …)  →  graph.dequantize(%q, graph.cast(%s), …)

Not all targets convert f16. Those of weights are converted when the model is built
(`fold-parameters`); so are, for a target that does not convert them, those of tables,
of which rows are read:

    graph.cast(graph.gather(%s : f16, %i))  →  graph.gather(graph.cast(%s), %i)

Ensures: what is dequantised outside of regions has scales and offsets of f32.
"""

from __future__ import annotations

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.limits import is_limited
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.selection import Cast
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.machine.target import Target
from aotc.mlir import Function, Value
from aotc.passes.base import Pass, Unit

_WIDE = "f32"


class WidenScales(Pass):
    """Convert narrow scales and offsets of `dequantize` ops outside regions to f32."""

    name = "widen-scales"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        bodies = unfused_functions(functions_of(unit.module))
        return any([_change(each, unit.target) for each in bodies])


def _change(function: Function, target: Target | None) -> bool:
    """Convert scales and offsets in a function to f32; return whether any were
    narrow.
    """
    changed = False
    for op in [*function.entry_block.operations]:
        if not isinstance(op, Dequantize):
            continue
        for place in (1, 2):
            part = op.operands[place]
            if Tensor.of(part).dtype != _WIDE:
                with before(op):
                    op.operation.operands[place] = _widened(part, target)
                _erase_unread(part)
                changed = True
    return changed


def _erase_unread(value: Value) -> None:
    """Erase a gather without uses, and gathers that only it read."""
    rows = made_by(value, Gather)
    if rows is not None and next(iter(value.uses), None) is None:
        narrow = rows.x
        rows.operation.erase()
        _erase_unread(narrow)


def _widened(value: Value, target: Target | None) -> Value:
    """Emit a narrow value in f32, cast before a gather of its rows if the target cannot
    after.
    """
    rows = made_by(value, Gather)
    if rows is None or _converts(target, Tensor.of(value).dtype):
        wide: Value = Builder().cast(value, dtype=_WIDE)
        return wide
    found: Value = rows.rebuild(_widened(rows.x, target), *rows.indices)
    return found


def _converts(target: Target | None, dtype: str) -> bool:
    """Return whether code for a target can convert a dtype to f32."""
    return target is None or not is_limited(Cast, f"{dtype}->{_WIDE}", target)
