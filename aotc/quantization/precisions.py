"""The precisions that a layer can have, and the recipes: which of them are tried first.

A recipe is a ladder: each layer gets the first rung that it can have, and with
`--quality` the first by which the quality holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.core import dtypes

WIDE = "f32"


@dataclass(frozen=True)
class LayerPrecision:
    """A precision of a layer: how its weight and input are stored and multiplied.

    Args:
        name: of it.
        says: what it is, in words.
        bits: of an integer of the weight; 0 where it is no integer.
        group: how many elements along the summed axis share a scale; 0 where all do.
        inputs: `static` or `dynamic` where inputs are bytes of one scale, which is
            known or made in each call; `float` where they stay as they are.
        dtype: of weight and input, where both are cast.
        is_of_tables: whether it is for tables whose rows are read, and no products.
    """

    name: str
    says: str
    bits: int = 0
    group: int = 0
    inputs: str = "float"
    dtype: str = ""
    is_of_tables: bool = False

    @property
    def form(self) -> str:
        """Name of the weight's storage type, such as `i4g32`; precisions can
        share it.
        """
        groups = f"g{self.group}" if self.group else ""
        return f"i{self.bits}{groups}" if self.is_integer else self.dtype

    @property
    def is_integer(self) -> bool:
        """Return whether the weight is stored as integers and scales."""
        return self.bits > 0

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer of a weight; symmetric above 4 bits."""
        most = 2 ** (self.bits - 1) - 1
        return (-most if self.bits > 4 else -most - 1), most

    def stored_bytes(self, shape: Sequence[int], summed: Sequence[int]) -> int:
        """Return the bytes of a stored weight and its scales."""
        count = math.prod(shape)
        if not self.is_integer:
            return count * dtypes.to_numpy(self.dtype or WIDE).itemsize
        rows = math.prod(shape[axis] for axis in summed)
        columns = count // max(rows, 1)
        scales = 2 * count // self.group if self.group else 4 * columns
        return count * self.bits // 8 + scales


PRECISIONS = {
    each.name: each
    for each in (
        LayerPrecision(
            "int4-g32",
            "weights of 4 bits, a scale for each 32; inputs stay floats",
            bits=4,
            group=32,
        ),
        LayerPrecision(
            "int8-weights",
            "weights of 8 bits, a scale for each feature; inputs stay floats",
            bits=8,
        ),
        LayerPrecision(
            "int8",
            "weights of 8 bits, a scale for each feature; inputs are bytes of a scale "
            "that calibration has found",
            bits=8,
            inputs="static",
        ),
        LayerPrecision(
            "int8-dynamic",
            "weights of 8 bits, a scale for each feature; inputs are bytes of a scale "
            "that each call finds",
            bits=8,
            inputs="dynamic",
        ),
        LayerPrecision(
            "int8-rows",
            "tables of 8 bits, a scale for each row",
            bits=8,
            is_of_tables=True,
        ),
        LayerPrecision("bf16", "weights and inputs in bf16, sums in f32", dtype="bf16"),
        LayerPrecision("f16", "weights and inputs in f16, sums in f32", dtype="f16"),
        LayerPrecision(WIDE, "as it is"),
    )
}

RECIPES = {
    "int8": ("int8", "int8-rows", WIDE),
    "int8-dynamic": ("int8-dynamic", "int8-rows", WIDE),
    "int8-weights": ("int8-weights", WIDE),
    "int4-g32": ("int4-g32", "int8-weights", WIDE),
    "bf16": ("bf16", WIDE),
    "f16": ("f16", WIDE),
    "mixed": ("int4-g32", "int8", "int8-rows", "bf16", WIDE),
}


def ladder(recipe: str) -> tuple[LayerPrecision, ...]:
    """Return the precisions of a recipe, the narrowest first."""
    return tuple(PRECISIONS[name] for name in RECIPES[recipe])


def trained_precision(
    recipe: str, refusal: Callable[[LayerPrecision], str | None], *, table: bool = False
) -> LayerPrecision | None:
    """Return the precision of a layer in quantisation-aware training; None if it has
    none.

    Args:
        recipe: the name of one, whose integers are tried in order.
        refusal: why the layer cannot have a precision, or None.
        table: whether it reads rows of a table.
    """
    for kind in ladder(recipe):
        fits = kind.is_integer and (table or not kind.is_of_tables)
        if fits and refusal(kind) is None:
            return kind
    return None
