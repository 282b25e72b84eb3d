"""Operators that cut or count, of which some sizes depend on values."""

from __future__ import annotations

from aotc import numpy as np
from aotc.importers.common.padded import cutting
from aotc.importers.common.padded.sizes import bound_of, count_of
from aotc.importers.common.padded.values import (
    Value,
    from_first,
    refuse,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import shapes
from aotc.importers.onnx.values import Known, only_number


def range_(start: Known, limit: Known, delta: Known) -> Value:
    """Return the vector `start, start + 1, …` below the limit; data-dependent
    length.
    """
    first, last, step = (only_number(x) for x in (start, limit, delta))
    if step != 1:
        refuse("a range with a step whose end depends on values", "multiply the range")
    length = cutting.length_between(first, last)
    line = np.arange(bound_of(length), dtype="i64")
    return from_first(np.add(line, count_of(first)), (length,))


TABLE: dict[str, Imports] = {
    "Range": range_,
    "Slice": shapes.slice_,
}
