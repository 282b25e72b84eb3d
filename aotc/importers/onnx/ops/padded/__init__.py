"""Operators on values whose sizes depend on values, where these need their own rules.

The functions take what those of the other families take; arrays may be `Padded`, and
known sizes may be ones that values decide. Any other operator is computed by its own
function, in which each op of the graph is padded by its `pad` rule; see
`aotc.importers.common.padded`.
"""

from __future__ import annotations

from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.common.padded.values import Value, refuse
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.ops import narrow
from aotc.importers.onnx.ops.padded import positions, reductions, shapes


def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Return x cast to ONNX's element type number `to`; refuse narrow types."""
    if element(to).narrow:
        refuse(f"{element(to).name} of a size that depends on values", "cast it later")
    return _cast(x, to=to, saturate=saturate, round_mode=round_mode)  # type: ignore[no-any-return]


_cast = by_op_rules(narrow.cast)

PADDED: dict[str, Imports] = {
    **shapes.TABLE,
    **reductions.TABLE,
    **positions.TABLE,
    "Cast": cast,
}
