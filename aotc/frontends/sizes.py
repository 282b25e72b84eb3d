"""What contracts prove about symbolic sizes: the least and greatest they can be.

A size is an affine expression over symbols. Interval arithmetic over the symbols'
contracts bounds it; what correlates (`n - n`) was simplified away before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.types import Dim, Size
from aotc.frontends.program import Contract
from aotc.frontends.tracing import current_trace
from aotc.mlir import ir

Bounds = tuple[float, float]


def bounds(size: Size) -> Bounds:
    """The least and greatest value of `size` in the function being traced."""
    if not isinstance(size, Dim):
        return size, size
    trace = current_trace()
    return _bounds(size.expr, trace.contracts if trace else ())


def describe_contracts() -> str:
    """`batch >= 1, length in [1, 512]`: what is promised in the current function."""
    trace = current_trace()
    return ", ".join(_describe(c) for c in trace.contracts) if trace else ""


def _describe(contract: Contract) -> str:
    if contract.max is None:
        return f"{contract.name} >= {contract.min}"
    return f"{contract.name} in [{contract.min}, {contract.max}]"


def _bounds(expr: Any, contracts: Sequence[Contract]) -> Bounds:
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value, expr.value
    if isinstance(expr, ir.AffineSymbolExpr):
        return _contract_bounds(contracts, expr.position)
    left, right = _bounds(expr.lhs, contracts), _bounds(expr.rhs, contracts)
    return next(rule for kind, rule in _RULES if isinstance(expr, kind))(left, right)


def _contract_bounds(contracts: Sequence[Contract], position: int) -> Bounds:
    if position >= len(contracts):
        return 0, math.inf
    contract = contracts[position]
    step = contract.multiple_of
    least = -(-contract.min // step) * step
    return least, math.inf if contract.max is None else contract.max // step * step


def _add(left: Bounds, right: Bounds) -> Bounds:
    return left[0] + right[0], left[1] + right[1]


def _multiply(left: Bounds, right: Bounds) -> Bounds:
    products = [_product(a, b) for a in left for b in right]
    return min(products), max(products)


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b  # not NaN for 0 * inf


def _floor_divide(left: Bounds, right: Bounds) -> Bounds:
    divisor = right[0]  # affine: a positive constant
    low, high = (n if math.isinf(n) else n // divisor for n in left)
    return low, high


def _ceil_divide(left: Bounds, right: Bounds) -> Bounds:
    divisor = right[0]
    low, high = (n if math.isinf(n) else -(-n // divisor) for n in left)
    return low, high


def _modulo(left: Bounds, right: Bounds) -> Bounds:
    return 0, right[1] - 1


_RULES: list[tuple[Any, Callable[[Bounds, Bounds], Bounds]]] = [
    (ir.AffineAddExpr, _add),
    (ir.AffineMulExpr, _multiply),
    (ir.AffineFloorDivExpr, _floor_divide),
    (ir.AffineCeilDivExpr, _ceil_divide),
    (ir.AffineModExpr, _modulo),
]
