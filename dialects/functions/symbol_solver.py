"""Solve the sizes of inputs for the symbols that they mention."""

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.dialects.sizes import affine
from aotc.dialects.types import Size, SymbolicDim, Tensor, size_of
from aotc.mlir import ir


@dataclass(frozen=True)
class Binding:
    """A symbol's value in a call: `(size of an input's axis - rest) / factor`.

    Args:
        symbol: its number.
        input: the number of the input.
        axis: the axis of that input.
        factor: what the symbol is multiplied with in that size.
        rest: what is added to it; mentions only symbols that are bound before.
    """

    symbol: int
    input: int
    axis: int
    factor: int
    rest: Size


def solve_symbols(inputs: Sequence[Tensor]) -> list[Binding]:
    """Return how symbols follow from input sizes, in an order to solve them in.

    A size decides a symbol that it is linear in, such as n in `n * 2 + m`, if it knows
    all others. A size that is the symbol alone comes first.
    """
    open_sizes = [
        (number, axis, size)
        for number, kind in enumerate(inputs)
        for axis, size in enumerate(kind.shape)
        if isinstance(size, SymbolicDim)
    ]
    open_sizes.sort(key=lambda place: len(affine.as_sum(place[2].expr)[0]))
    found: dict[int, Binding] = {}
    progress = True
    while progress:
        progress = False
        for number, axis, size in open_sizes:
            solved = _solution(size, set(found))
            if solved is not None:
                symbol, factor, rest = solved
                found[symbol] = Binding(symbol, number, axis, factor, rest)
                progress = True
    return list(found.values())


def _solution(size: SymbolicDim, known: set[int]) -> tuple[int, int, Size] | None:
    """Return (symbol, factor, rest) with `size` = `factor * symbol + rest`, or None."""
    unknown = affine.symbols_in(size.expr) - known
    if len(unknown) != 1:
        return None
    symbol = ir.AffineSymbolExpr.get(unknown.pop())
    factor = affine.as_sum(size.expr)[0].get(symbol, 0)
    rest = size_of(size.expr + symbol * -factor)
    mentioned = affine.symbols_in(rest.expr) if isinstance(rest, SymbolicDim) else set()
    solvable = factor and symbol.position not in mentioned
    return (symbol.position, factor, rest) if solvable else None
