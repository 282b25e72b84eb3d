"""The tiles of images that a workgroup of a Winograd convolution computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import index
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.planning.winograd import WinogradTile
from aotc.mlir import Value, arith


@dataclass(frozen=True)
class ImageTile:
    """The position of an image tile: in its block, its image, and by line.

    Args:
        number: of it, in its block.
        image: that it is of.
        line: its number along the lines of tiles.
        position: the same along a line.
    """

    number: Value
    image: Value
    line: Value
    position: Value


def for_tiles(
    first: Value,
    geometry: ConvolutionGeometry,
    tile: WinogradTile,
    write: Callable[[ImageTile], None],
) -> None:
    """Emit a loop over the image tiles of a block, from number `first` on.

    Args:
        first: the number of its first tile.
        geometry: of the convolution.
        tile: how it is cut up.
        write: is given the position of each tile.
    """
    lines, positions = (-(-n // tile.outputs) for n in geometry.result)

    def write_tile(number: Value) -> None:
        rest = arith.addi(first, number)
        position = arith.remui(rest, index(positions))
        rest = arith.divui(rest, index(positions))
        line = arith.remui(rest, index(lines))
        image = arith.divui(rest, index(lines))
        write(ImageTile(number, image, line, position))

    loops.repeat_for(0, tile.block, 1, write_tile)
