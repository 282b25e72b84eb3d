"""The least and greatest value of an affine expression, by the contracts of symbols.

Interval arithmetic, sharper in two places: a minimum or maximum is bounded by its two
sides, and quotients within a sum also by the fractions that they are rounded from.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from aotc.dialects.sizes.affine import (
    Atoms,
    Expr,
    above_zero_of,
    as_sum,
    extremum,
    is_number,
    simplify,
)
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import current_contracts, symbol_bounds
from aotc.mlir import ir

Number = int | float | Fraction
Bounds = tuple[Number, Number]


def bounds(expr: Expr) -> Bounds:
    """Return a lower and an upper bound of `expr` by the known contracts."""
    return _bounds_under(expr, current_contracts())


@lru_cache(maxsize=1 << 14)
def _bounds_under(expr: Expr, _: tuple[Contract, ...]) -> Bounds:
    """Return the bounds of `expr`, cached by the known contracts."""
    return _least(expr), -_least(simplify(expr * -1))


def _least(expr: Expr) -> Number:
    """Return a lower bound of an expression by the known contracts."""
    return _least_under(expr, current_contracts())


@lru_cache(maxsize=1 << 14)  # quotients within quotients are asked for again and again
def _least_under(expr: Expr, _: tuple[Contract, ...]) -> Number:
    """Return a lower bound of an expression, cached by the known contracts."""
    found = extremum(expr)
    if found is not None:
        kind, a, b = found
        return (max if kind == "max" else min)(_least(a), _least(b))
    atoms, number = as_sum(expr)
    return max(_least_sum(atoms, number), _ceil(_relaxed_least(atoms, number)))


def _ceil(value: Number) -> Number:
    """Return `math.ceil` of a number; infinities stay."""
    return value if isinstance(value, float) else math.ceil(value)


def _least_sum(atoms: Atoms, number: Number) -> Number:
    """Return a lower bound of a sum by interval arithmetic on its atoms."""
    total = number
    for atom, factor in atoms.items():
        low, high = _atom_bounds(atom)
        total += _product(factor, low if factor > 0 else high)
    return total


def _relaxed_least(atoms: Atoms, number: int) -> Number:
    """Return a lower bound of a sum with its quotients relaxed to fractions.

    So `n - n // 2` adds up.
    """
    relaxed: Atoms = {}
    total = Fraction(number)
    for atom, factor in atoms.items():
        if isinstance(atom, ir.AffineFloorDivExpr) and is_number(atom.rhs):
            by = int(atom.rhs.maybe_downcast().value)
            inner, offset = as_sum(atom.lhs)
            # e / by - (by - 1) / by <= e // by <= e / by
            total += Fraction(factor * (offset - (by - 1 if factor > 0 else 0)), by)
            parts = {a: Fraction(factor * f, by) for a, f in inner.items()}
        else:
            parts = {atom: Fraction(factor)}
        for part, share in parts.items():
            relaxed[part] = relaxed.get(part, 0) + share
    return _least_sum({a: f for a, f in relaxed.items() if f}, total)


def _atom_bounds(atom: Expr) -> Bounds:
    """Return the bounds of an expression that is no sum."""
    if isinstance(atom, ir.AffineSymbolExpr):
        return symbol_bounds(atom.position)
    positive = above_zero_of(atom)
    if positive is not None:
        low, high = bounds(positive)
        return max(low, 0), max(high, 0)
    assert isinstance(atom, ir.AffineBinaryExpr)
    left, right = bounds(simplify(atom.lhs)), bounds(simplify(atom.rhs))
    if not isinstance(atom, ir.AffineMulExpr):  # without a value where it divides by 0
        right = max(right[0], 1), max(right[1], 1)
    return next(rule for kind, rule in _BOUNDS if isinstance(atom, kind))(left, right)


def _multiply(left: Bounds, right: Bounds) -> Bounds:
    """Return the bounds of a product of two intervals."""
    products = [_product(a, b) for a in left for b in right]
    return min(products), max(products)


def _product(a: Number, b: Number) -> Number:
    """Return a product where 0 times infinity is 0."""
    return 0 if a == 0 or b == 0 else a * b  # not NaN for 0 * inf


def _floor_divide(left: Bounds, right: Bounds) -> Bounds:
    """Return the bounds of a floor division of two intervals."""
    quotients = [_quotient(a, b) for a in left for b in right]
    return min(quotients), max(quotients)


def _quotient(a: Number, b: Number) -> Number:
    """Return the floor of a / b, where `a` or `b > 0` may be infinite."""
    if math.isinf(a):
        return a
    return -1 if a < 0 and math.isinf(b) else 0 if math.isinf(b) else a // b


def _ceil_divide(left: Bounds, right: Bounds) -> Bounds:
    """Return the bounds of a ceiling division of two intervals."""
    low, high = _floor_divide((-left[1], -left[0]), right)
    return -high, -low


def _modulo(left: Bounds, right: Bounds) -> Bounds:
    """Return the bounds of the remainders of an interval."""
    most = right[1] - 1
    return 0, min(left[1], most) if left[0] >= 0 else most


_BOUNDS: list[tuple[Any, Callable[[Bounds, Bounds], Bounds]]] = [
    (ir.AffineMulExpr, _multiply),
    (ir.AffineFloorDivExpr, _floor_divide),
    (ir.AffineCeilDivExpr, _ceil_divide),
    (ir.AffineModExpr, _modulo),
]
