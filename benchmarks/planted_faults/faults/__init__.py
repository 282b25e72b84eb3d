"""Faults as compilers have them, over all families of kernels and what IREE compiles.

Each replaces one function of the code generator by one that is wrong in a way that
compiles: a rest is left out, a neighbour is read, ties turn, a mask is one short.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..planting import Fault
from . import attention, lowering, moves, products, rows, windows

FAULTS: Sequence[Fault] = (
    *products.FAULTS,
    *windows.FAULTS,
    *attention.FAULTS,
    *rows.FAULTS,
    *moves.FAULTS,
    *lowering.FAULTS,
)
