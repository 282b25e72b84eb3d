"""Faults in concatenations, transposes and updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aotc.kernels.cpu import (
    elementwise,
    epilogue,
    movement,
    nests,
    scan,
    transposing,
    updates,
    vectors,
)
from aotc.mlir import Value

from ..planting import Fault
from .ways import by, given


def _without_rest(length: int, lanes: int, write: Any) -> Sequence[Any]:
    """Return arguments with a length that leaves out the remainder."""
    return max(length - length % lanes, lanes), lanes, write


def _one_less(first: Value, last: Value) -> tuple[Value, Value]:
    """Return bounds with the last one too small by 1."""
    return first, vectors.add(last, -1)


FAULTS = [
    Fault(
        "elements after the last whole vector are not copied",
        "movement", "movement", movement, "write_run", given(_without_rest),
    ),
    Fault(
        "a part after the first begins one element early",
        "movement", "movement", movement._RowPart, "of",
        by(lambda part, *_: replace(part, column=max(part.column - 1, 0))),
    ),
    Fault(
        "bytes after the last whole vector are not written",
        "quantization", "quantization", elementwise, "visit_parts",
        given(_without_rest), frozenset({"elementwise"}),
    ),
    Fault(
        "the last row of a block is not written",
        "elementwise", "elementwise", elementwise, "block_bounds",
        lambda right: lambda number, size, end: _one_less(*right(number, size, end)),
        frozenset({"quantization"}),
    ),
    Fault(
        "the zero point of bytes is one too great",
        "quantization", "quantization", epilogue, "round_to_bytes",
        given(lambda x, found: (x, replace(found, zero=found.zero + 1))),
    ),
    Fault(
        "the last column of a square that is not whole is not written",
        "transpose", "transpose", transposing._TransposeKernel, "_square",
        given(lambda self, begin, width, rows: (self, begin, max(width - 1, 1), rows)),
    ),
    Fault(
        "what is after the last whole vector of the long axis is left out",
        "transpose", "transpose", transposing._TransposeKernel, "_along_long",
        lambda right: lambda self, write: right(
            self, lambda n, width: write(n, width) if width == self.lanes else None
        ),
    ),
    Fault(
        "vectors of a short axis are mixed in another order",
        "transpose", "transpose_of_few", vectors, "gather",
        given(lambda found, places: (found, [*places[:-1], places[0]])),
    ),
    Fault(
        "every step goes to the first element of sequences",
        "scan", "scan", scan._ScanWriter, "_element",
        given(lambda self, x, memory, place: (self, x, memory, scan.index(0))),
        touches=frozenset({"nests"}),
    ),
    Fault(
        "an op on vectors gives what its first operand is",
        "nests", "nests", nests, "apply_to_vectors",
        by(lambda found, op, operands: operands[0]),
        touches=frozenset({"scan"}),
    ),
    Fault(
        "elements of an update after the last whole vector are left out",
        "updates", "updated", epilogue.Epilogue, "write_elements",
        given(lambda self, first, count: (self, first, max(count - 1, 1))),
    ),
    Fault(
        "the second of two updates begins with its second block",
        "updates", "updated", updates, "block_count",
        by(lambda found, *_: max(found - 1, 1)),
    ),
]  # fmt: skip
