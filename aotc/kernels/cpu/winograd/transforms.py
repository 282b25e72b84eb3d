"""Multiplication of a few vectors by the constant matrices of Winograd's algorithm.

Vectors are of f32, or of integers, where the matrices are of such, too. Points come in
pairs, a and -a, whose rows or columns differ in signs only: what they have in common is
computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from aotc.dialects.lowering.scalars import constant
from aotc.kernels.cpu import vectors
from aotc.kernels.winograd.matrices import Matrix, Row
from aotc.mlir import Value, arith, ir


def transform_tile(
    matrix: Matrix, tile: Sequence[Sequence[Value]]
) -> list[list[Value]]:
    """Emit `matrix @ tile @ matrix'`, where the elements of `tile` are vectors."""
    columns = [multiply(matrix, list(column)) for column in zip(*tile, strict=True)]
    return [multiply(matrix, list(row)) for row in zip(*columns, strict=True)]


def multiply(matrix: Matrix, xs: Sequence[Value]) -> list[Value]:
    """Emit `matrix @ xs`, where the elements of `xs` are vectors."""
    columns = list(zip(*matrix, strict=True))
    if len(columns) == len(matrix):
        return _multiply_pairs_of_rows(matrix, xs)
    return _multiply_pairs_of_columns(columns, xs)


def _multiply_pairs_of_rows(matrix: Matrix, xs: Sequence[Value]) -> list[Value]:
    """Emit `matrix @ xs`, sharing work of rows that differ in signs only."""
    found: list[Value] = []
    rows = list(matrix)
    while rows:
        row = rows.pop(0)
        if not rows or not _differ_in_signs(row, rows[0]):
            found.append(_combine(row, xs))
            continue
        same, opposite = _split_by_signs(row, rows.pop(0))
        sums, differences = _combine(same, xs), _combine(opposite, xs)
        found.append(_add(sums, differences))
        found.append(_subtract(sums, differences))
    return found


def _multiply_pairs_of_columns(
    columns: Sequence[Row], xs: Sequence[Value]
) -> list[Value]:
    """Emit the product with a matrix by columns, pairing those alike but for signs."""
    terms: list[tuple[Row, Value]] = []
    rest = list(zip(columns, xs, strict=True))
    while rest:
        column, x = rest.pop(0)
        if not rest or not _differ_in_signs(column, rest[0][0]):
            terms.append((column, x))
            continue
        other, y = rest.pop(0)
        same, opposite = _split_by_signs(column, other)
        terms.append((same, _add(x, y)))
        terms.append((opposite, _subtract(x, y)))
    rows = zip(*(column for column, _ in terms), strict=True)
    return [_combine(row, [x for _, x in terms]) for row in rows]


def _differ_in_signs(row: Row, other: Row) -> bool:
    """Return whether two rows are different, and equal but for signs."""
    pairs = zip(row, other, strict=True)
    return row != other and all(abs(x) == abs(y) for x, y in pairs)


def _split_by_signs(row: Row, other: Row) -> tuple[Row, Row]:
    """Split a row into entries equal to another row's, and those of opposite sign."""
    pairs = list(zip(row, other, strict=True))
    same = tuple(x if x == y else Fraction(0) for x, y in pairs)
    return same, tuple(x if x != y else Fraction(0) for x, y in pairs)


def _combine(row: Row, xs: Sequence[Value]) -> Value:
    """Emit the sum of vectors times constant factors."""
    terms = [(factor, x) for factor, x in zip(row, xs, strict=True) if factor]
    (factor, first), *rest = sorted(terms, key=lambda term: term[0] != 1)
    total = first
    if factor != 1:
        multiply_by = arith.mulf if _is_float(first) else arith.muli
        total = multiply_by(first, constant(first.type, float(factor)))
    for factor, x in rest:
        if factor == 1:
            total = _add(total, x)
        elif not _is_float(x) and factor == -1:
            total = arith.subi(total, x)
        else:
            number = constant(x.type, float(factor))
            total = _multiply_add(x, number, total)
    return total


def _is_float(x: Value) -> bool:
    """Return whether a vector is of floats."""
    return not isinstance(x.type.element_type, ir.IntegerType)


def _add(x: Value, y: Value) -> Value:
    """Emit the sum of two vectors of floats or integers."""
    return arith.addf(x, y) if _is_float(x) else arith.addi(x, y)


def _subtract(x: Value, y: Value) -> Value:
    """Emit the difference of two vectors of floats or integers."""
    return arith.subf(x, y) if _is_float(x) else arith.subi(x, y)


def _multiply_add(x: Value, y: Value, total: Value) -> Value:
    """Emit `x * y + total`, of floats or integers."""
    if _is_float(x):
        return vectors.multiply_add(x, y, total)
    return arith.addi(arith.muli(x, y), total)
