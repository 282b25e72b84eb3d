"""Faults in windows: depthwise convolutions and pooling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aotc.kernels.cpu import depthwise
from aotc.mlir import arith

from ..planting import Fault
from .ways import by


def _without_last(found: dict[int, Any], *_: Any) -> dict[int, Any]:
    """Return the windows without the last one."""
    return dict(list(found.items())[:-1]) if len(found) > 1 else found


def _only_whole_vectors(right: Any) -> Any:
    """Return a faulty writer that skips partial vectors."""

    def write(self: Any, rows: Any, groups: Any) -> None:
        if groups.count * self.geometry.group_features == self.sweep.lanes:
            right(self, rows, groups)

    return write


def _greatest_number(found: Any, *_: Any) -> Any:
    """Return a pooling whose maximum ignores NaN."""
    is_greatest = found.merge is arith.maximumf
    return replace(found, merge=arith.maxnumf) if is_greatest else found


FAULTS = [
    Fault(
        "the last pixel of a line of windows is left out",
        "depthwise", "depthwise", depthwise, "rows_by_pixel", by(_without_last),
        frozenset({"pooling", "chain"}),
    ),
    Fault(
        "channels after the last whole vector are not written",
        "depthwise", "depthwise", depthwise.WindowWriter, "_write_tile",
        _only_whole_vectors, frozenset({"pooling", "chain"}),
    ),
    Fault(
        "padding is 0, not the least number",
        "pooling", "pooling", depthwise, "reduction_of",
        by(lambda found, *_: replace(found, start=0.0) if found.start else found),
        frozenset({"depthwise", "chain"}),
    ),
    Fault(
        "the greatest of NaN and a number is the number",
        "pooling", "pooling_of_nan", depthwise, "reduction_of",
        by(_greatest_number),
    ),
]  # fmt: skip
