"""Joined products of one left operand, which one kernel computes.

Their right operands are packed as one: the panels of one product after those of the
other, or, if one epilogue reads several of them, the same columns of all side by side
in each panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.machine import Machine
from aotc.kernels.planning.tile import ContractionTile, terms_at_a_time
from aotc.mlir import Operation, Value

ANCHORS = (DotGeneral, ConvGeneral)


@dataclass(frozen=True)
class Joined:
    """Products of one left operand that one kernel computes; often only one.

    Args:
        anchors: the ops.
        geometries: what each of them sums up.
        tile: how all of them are cut up.
    """

    anchors: tuple[GraphOp, ...]
    geometries: tuple[ConvolutionGeometry, ...]
    tile: ContractionTile

    @classmethod
    def of(cls, anchor: GraphOp, tile: ContractionTile) -> Joined:
        """Return all products in the region of an anchor op."""
        ops: Sequence[Operation] = list(anchor.operation.block.operations)
        anchors = tuple(op for op in ops if isinstance(op, ANCHORS))
        return cls(anchors, tuple(map(known_geometry, anchors)), tile)

    @property
    def whole(self) -> ConvolutionGeometry:
        """The geometry of one product with the features of all."""
        return whole_geometry(self.geometries)

    @property
    def first_panels(self) -> list[int]:
        """The number of each product's first panel, and last the number of panels."""
        found = [0]
        for geometry in self.geometries:
            found.append(found[-1] + self.tile.panels_of(geometry))
        return found

    @property
    def panels(self) -> int:
        """The number of panels of all products together."""
        one, *_ = self.geometries
        if self.tile.interleaved > 1:
            return self.tile.panels_of(one)
        return self.first_panels[-1]


def whole_geometry(geometries: Sequence[ConvolutionGeometry]) -> ConvolutionGeometry:
    """Return the geometry of one product with the features of several."""
    one, *_ = geometries
    return replace(one, features=sum(each.features for each in geometries))


def depends(value: Value, anchor: GraphOp) -> bool:
    """Return whether a value of a region depends on an anchor's result."""
    return anchor.results[0] in backward_slice([value])


def why_not_joined(
    anchors: Sequence[GraphOp], tile: ContractionTile, machine: Machine
) -> str:
    """Return why a tile does not fit several products at once; "" if it does.

    Their schedule is that of a product that they are not, and may be another's.
    """
    sizes = tile.vectors, tile.rows, tile.block, tile.products
    are_apart = tile.interleaved == 1
    are_beside = tile.interleaved == len(anchors) and not tile.vectors % len(anchors)
    fits = tile.lanes == machine.lanes and tile.packed == 1 and tile.ahead in (0, 1)
    fits = fits and all(
        tile.dequantizes
        or tile.terms == terms_at_a_time(known_geometry(anchor), machine)
        for anchor in anchors
    )
    if fits and min(sizes) >= 1 and (are_apart or are_beside):
        return ""
    return f"{len(anchors)} products cannot be joined as {tile.to_plain()}"
