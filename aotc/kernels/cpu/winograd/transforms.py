"""Multiplication of a few vectors by the constant matrices of Winograd's algorithm.

Points come in pairs, a and -a, whose rows or columns differ in signs only: what they
have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from aotc.kernels.cpu import vectors
from aotc.kernels.winograd.matrices import Matrix, Row
from aotc.mlir import Value, arith


def transform_tile(
    matrix: Matrix, tile: Sequence[Sequence[Value]]
) -> list[list[Value]]:
    """`matrix @ tile @ matrix'`, of vectors."""
    columns = [multiply(matrix, list(column)) for column in zip(*tile, strict=True)]
    return [multiply(matrix, list(row)) for row in zip(*columns, strict=True)]


def multiply(matrix: Matrix, given: Sequence[Value]) -> list[Value]:
    """`matrix @ given`, where the elements of `given` are vectors."""
    columns = list(zip(*matrix, strict=True))
    if len(columns) == len(matrix):
        return _multiply_pairs_of_rows(matrix, given)
    return _multiply_pairs_of_columns(columns, given)


def _multiply_pairs_of_rows(matrix: Matrix, given: Sequence[Value]) -> list[Value]:
    found: list[Value] = []
    rows = list(matrix)
    while rows:
        row = rows.pop(0)
        if not rows or not _differ_in_signs(row, rows[0]):
            found.append(_combine(row, given))
            continue
        same, opposite = _split_by_signs(row, rows.pop(0))
        sums, differences = _combine(same, given), _combine(opposite, given)
        found.append(arith.addf(sums, differences))
        found.append(arith.subf(sums, differences))
    return found


def _multiply_pairs_of_columns(
    columns: Sequence[Row], given: Sequence[Value]
) -> list[Value]:
    """Sums of two vectors where the columns agree, differences where they do not."""
    terms: list[tuple[Row, Value]] = []
    rest = list(zip(columns, given, strict=True))
    while rest:
        column, x = rest.pop(0)
        if not rest or not _differ_in_signs(column, rest[0][0]):
            terms.append((column, x))
            continue
        other, y = rest.pop(0)
        same, opposite = _split_by_signs(column, other)
        terms.append((same, arith.addf(x, y)))
        terms.append((opposite, arith.subf(x, y)))
    rows = zip(*(column for column, _ in terms), strict=True)
    return [_combine(row, [x for _, x in terms]) for row in rows]


def _differ_in_signs(row: Row, other: Row) -> bool:
    pairs = zip(row, other, strict=True)
    return row != other and all(abs(x) == abs(y) for x, y in pairs)


def _split_by_signs(row: Row, other: Row) -> tuple[Row, Row]:
    """The part of a row that is the same in another, and what has the other sign."""
    pairs = list(zip(row, other, strict=True))
    same = tuple(x if x == y else Fraction(0) for x, y in pairs)
    return same, tuple(x if x != y else Fraction(0) for x, y in pairs)


def _combine(row: Row, given: Sequence[Value]) -> Value:
    """The sum of vectors times numbers; those with a factor of 1 come first."""
    terms = [(factor, x) for factor, x in zip(row, given, strict=True) if factor]
    (factor, first), *rest = sorted(terms, key=lambda term: term[0] != 1)
    lanes = first.type.shape[0]
    total = first
    if factor != 1:
        total = arith.mulf(first, vectors.splat(float(factor), lanes))
    for factor, x in rest:
        if factor == 1:
            total = arith.addf(total, x)
        else:
            number = vectors.splat(float(factor), lanes)
            total = vectors.multiply_add(x, number, total)
    return total
