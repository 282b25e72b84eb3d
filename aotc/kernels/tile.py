"""How a contraction is cut up: what is kept in registers, in caches, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import Machine


@dataclass(frozen=True)
class Tile:
    """The schedule of one contraction.

    Args:
        lanes: elements of a vector.
        vectors: that the columns of a panel make; the right operand is packed by it.
        rows: at most, of one tile of accumulators.
        block: tiles of rows, or lines of an image, that one workgroup computes.
    """

    lanes: int
    vectors: int
    rows: int
    block: int

    @property
    def columns(self) -> int:
        """Of a panel."""
        return self.lanes * self.vectors

    def panels(self, features: int) -> int:
        """How many panels hold so many features; the last one may be in part empty."""
        return -(-features // self.columns)

    def to_plain(self) -> dict[str, int]:
        """As the IR holds it."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, int]) -> Tile:
        """The inverse of `to_plain`."""
        return cls(**plain)


def split_evenly(count: int, most: int) -> list[int]:
    """`count` in parts of at most `most`, which differ by one at most."""
    parts = -(-count // most)
    least, more = divmod(count, parts)
    return [least + 1] * more + [least] * (parts - more)


_MOST_ROWS, _MOST_VECTORS = 14, 4
_PAGE, _WAYS = 4096, 8  # of the first cache: bytes of a way, and how many there are
_WORK = 4_000_000  # float operations of a workgroup, at least: tens of microseconds


def choose_tile(geometry: Geometry, machine: Machine) -> Tile:
    """The tile for a contraction on a machine.

    The panel is as wide as leaves the fewest columns empty, wider ones first: each
    vector of the packed operand that is read serves `rows` multiply-adds.
    """
    vectors = _choose_vectors(geometry.features, machine)
    rows = _choose_rows(geometry, vectors, machine)
    block = _choose_block(geometry, rows, vectors * machine.lanes)
    return Tile(machine.lanes, vectors, rows, block)


def block_count(geometry: Geometry, tile: Tile) -> int:
    """How many workgroups share the rows of a panel."""
    return -(-_tile_count(geometry, tile.rows) // tile.block)


def _choose_vectors(features: int, machine: Machine) -> int:
    needed = -(-features // machine.lanes)
    if needed <= _MOST_VECTORS:
        return needed
    candidates = range(_MOST_VECTORS, 1, -1)
    return min(candidates, key=lambda n: (-(-needed // n) * n - needed, -n))


def _choose_rows(geometry: Geometry, vectors: int, machine: Machine) -> int:
    """As many as there are registers for: the sums, and what makes them.

    Of the panel's vectors and the rows' elements, the fewer are held, and one of the
    others. Rows that begin a multiple of a page from each other share lines of the
    first cache, of which there are eight: more of them would displace one another.
    """
    most = max(
        rows
        for rows in range(1, _MOST_ROWS + 1)
        if rows * vectors + min(rows, vectors) + 1 <= machine.registers
    )
    if 4 * geometry.strides[1] * geometry.channels % _PAGE == 0:
        most = min(most, _WAYS)
    width = geometry.rows if geometry.is_product else geometry.result[1]
    return max(split_evenly(width, most))


def _choose_block(geometry: Geometry, rows: int, columns: int) -> int:
    """Enough work for a workgroup, and workgroups for many threads."""
    one = 2 * geometry.depth * columns
    one *= rows if geometry.is_product else geometry.result[1]
    tiles = _tile_count(geometry, rows)
    return max(1, min(tiles, -(-_WORK // one)))


def _tile_count(geometry: Geometry, rows: int) -> int:
    """Of what workgroups get a number: tiles of rows, or lines."""
    if geometry.is_product:
        return len(split_evenly(geometry.rows, rows))
    return geometry.lines
