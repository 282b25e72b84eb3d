"""Facts that decide which precisions a layer can have: its op, shape and summed
axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aotc.quantization.precisions import LayerPrecision

PRODUCT, CONVOLUTION, TABLE = "dot_general", "conv_general", "gather"


@dataclass(frozen=True)
class LayerForm:
    """The facts on a layer that decide its precisions, for traced and imported
    programs.

    Args:
        op: the name of one of the three.
        shape: of the weight, whose axes are the layer's.
        summed: the axes that are summed up, or share a scale.
        is_batched: whether it is a product for each index of a batch of weights.
        is_padded: whether an image is padded by zeros.
    """

    op: str
    shape: tuple[int, ...]
    summed: tuple[int, ...]
    is_batched: bool = False
    is_padded: bool = False

    @property
    def is_table(self) -> bool:
        """Return whether the layer is an embedding lookup, not a product."""
        return self.op == TABLE

    @property
    def terms(self) -> int:
        """Number of terms that one element of the result sums up."""
        return math.prod(self.shape[axis] for axis in self.summed)

    def refusal(self, precision: LayerPrecision) -> str | None:
        """Return why a layer of this form cannot have a precision; None if it can."""
        if self.is_table and precision.inputs != "float":
            return "it reads rows of a table, and multiplies nothing"
        if precision.group:
            if self.op == CONVOLUTION:
                return "groups of weights are those of products, not of convolutions"
            if len(self.summed) != 1:
                return f"it sums over {len(self.summed)} axes, groups lie along one"
            size = self.shape[self.summed[0]]
            if size % precision.group:
                return f"it sums {size} terms, and a group has {precision.group}"
        if precision.inputs != "float":
            if self.is_batched:
                return "it is a product for each index of a batch of weights"
            if not self.summed:
                return "it sums nothing up"
            if 2 * self.terms * 255 * 128 >= 2**31:
                return f"a sum of {self.terms} products of bytes may exceed i32"
        return None
