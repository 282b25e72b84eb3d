"""Sums over terms of rows by floats that a kernel makes of a weight's integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.contraction.integers import Read
from aotc.kernels.cpu.vectors import Values, add, scale
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Value, arith

_UNROLLED = 8  # terms that the code of a step has, or a run of them
_UNDER_WAY = 8  # sums that multiply-adds wait for, at least


@dataclass(frozen=True)
class TermSums:
    """An emitter of sums of rows times floats made from a weight's integers.

    Args:
        tile: how the product is cut up.
        left: the memory of the rows.
        row: elements from a row to the next.
        terms: of each sum.
    """

    tile: ContractionTile
    left: Value
    row: int
    terms: int

    def of(
        self,
        sizes: tuple[int, int],
        left: Value,
        read: Callable[[Value, int], Read],
    ) -> Values:
        """Emit sums of rows times what `read` gives; return vectors, row by row.

        Args:
            sizes: rows, and vectors of the panel.
            left: where the terms of the first row begin.
            read: given the number of a step, and how many terms each has, what gives
                the floats of a term and a vector of columns.
        """
        rows, count = sizes
        size, lanes = rows * count, self.tile.lanes
        terms = max(gcd(self.terms, _UNROLLED), self.tile.terms)
        sets = min(terms, -(-_UNDER_WAY // size))

        def add_terms(number: Value, sums: Values) -> Values:
            found, at = list(sums), add(left, scale(number, terms))
            factors = read(number, terms)
            for term in range(terms):
                own = slice(term % sets * size, (term % sets + 1) * size)

                def element(row: int, term: int = term) -> Value:
                    x = vectors.load_element(self.left, add(at, row * self.row + term))
                    return vectors.repeat(x, lanes)

                def floats(vector: int, term: int = term) -> Value:
                    return factors(term, vector)

                found[own] = vectors.outer_product(element, floats, sizes, found[own])
            return found

        zeros = [vectors.splat(0.0, lanes)] * (sets * size)
        sums = loops.loop(0, self.terms // terms, 1, zeros, add_terms)
        while len(sums) > size:
            half = (len(sums) // size + 1) // 2 * size
            rest = [*map(arith.addf, sums, sums[half:])]
            sums = rest + sums[len(rest) : half]
        return sums
