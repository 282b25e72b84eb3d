"""The base of ops that only move elements."""

from typing import Any

from aotc.core import dtypes as dt
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.rules.linearity import linear


class Movement(GraphOp, traits=[Pure]):
    """Base of ops that move or repeat the elements of one operand."""

    x: Operand[Any]
    y: Result[Any]
    rearranges = True
    dtypes = dt.NAMES

    jvp = linear
