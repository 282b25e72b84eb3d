"""Ops of StableHLO and CHLO: one table per family, one line per op.

A function gets the op (`Op`: its attributes, regions and types) and its operands, and
returns the result, or several in a tuple or list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc.importers.stablehlo.ops import (
    calls,
    control,
    elementwise,
    fourier,
    gather,
    matrices,
    normalization,
    products,
    random,
    reductions,
    scatter,
    shapes,
    sorting,
    windows,
)

FAMILIES = (
    elementwise,
    shapes,
    products,
    reductions,
    windows,
    gather,
    scatter,
    sorting,
    control,
    matrices,
    fourier,
    normalization,
    random,
    calls,
)

OPS: dict[str, Callable[..., Any]] = {
    name: function for family in FAMILIES for name, function in family.OPS.items()
}
