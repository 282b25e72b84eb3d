"""Sums of some rows by some columns in one vector, as instructions for matrices have.

Such an instruction (`machine.Mma.rows`) multiplies several rows by as many times fewer
columns than a vector has lanes: [row][column] in each vector of sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.vectors import Values


@dataclass(frozen=True)
class Squares:
    """An emitter that regroups a tile's sums for matrix instructions, and back.

    Args:
        rows: of the tile; the last one is there twice if it has no other one.
        count: vectors of a row.
        together: rows of a square.
        lanes: of a vector.
    """

    rows: int
    count: int
    together: int
    lanes: int

    @property
    def _columns(self) -> int:
        """The number of columns in a vector of sums."""
        return self.lanes // self.together

    def of_rows(self, sums: Values) -> Values:
        """Emit sums regrouped from rows of vectors into squares [row][column]."""
        if self.together == 1:
            return sums
        found = []
        for first in range(0, self.rows, self.together):
            own = [min(first + n, self.rows - 1) for n in range(self.together)]
            for number in range(self.together * self.count):
                vector, part = divmod(number, self.together)
                rows = [sums[row * self.count + vector] for row in own]
                places = [
                    (n, part * self._columns + column)
                    for n in range(self.together)
                    for column in range(self._columns)
                ]
                found.append(vectors.gather(rows, places))
        return found

    def to_rows(self, squares: Values) -> Values:
        """Emit sums regrouped from squares into rows: the inverse of `of_rows`."""
        if self.together == 1:
            return squares
        width = self.together * self.count
        found = []
        for row in range(self.rows):
            group, inside = divmod(row, self.together)
            for vector in range(self.count):
                first = group * width + vector * self.together
                parts = squares[first : first + self.together]
                places = [
                    (n, inside * self._columns + column)
                    for n in range(self.together)
                    for column in range(self._columns)
                ]
                found.append(vectors.gather(parts, places))
        return found
