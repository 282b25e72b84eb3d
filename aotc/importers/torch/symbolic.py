"""Sizes that vary: torch's symbols → aotc's named `Dim`s with their ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from aotc.tracing.dims import Dim, DimTerm
from aotc.tracing.source_locations import fail

# torch's traces hold for sizes of 2 and more, and are used for 1 by convention
_SMALLEST_TRACED = 2

AreKept = Callable[[str], bool]  # of a size by its name


def never_kept(name: str) -> bool:
    """Return False: a size traced as 2 or more may be 1 in calls."""
    return False


def named_dims(
    program: ExportedProgram,
    tensors: Mapping[str, torch.Tensor],
    multiples: Mapping[tuple[str, int], int],
    are_kept: AreKept,
) -> dict[sympy.Symbol, Dim]:
    """Return a Dim, with name and range, for each symbol in the inputs' shapes.

    It has the name of the torch.export.Dim that the user gave; where a file does not
    keep that, the first input and axis that have the size.

    Args:
        program: the exported program.
        tensors: its inputs, fakes with the shapes, by their names.
        multiples: what sizes divide by, by the name of the input and the axis.
        are_kept: whether a size has no less than 2 if it was traced so.
    """
    found: dict[sympy.Symbol, Dim] = {}
    for name, tensor in tensors.items():
        for axis, size in enumerate(tensor.shape):
            for symbol in _symbols([size]):
                if symbol not in found:
                    title = _given_name(size.node.shape_env, symbol)
                    step = multiples.get((name, axis), 1)
                    title = title or f"{name}_{axis}"
                    least = _SMALLEST_TRACED if are_kept(title) else 1
                    found[symbol] = _dim(program, symbol, title, step, least)
    return found


def promises_of(dynamic_shapes: object) -> set[str]:
    """Return names of the torch.export.Dims with a minimum of 2.

    An exported program does not tell it from what torch.export takes for granted.
    """
    leaves = torch.utils._pytree.tree_leaves(dynamic_shapes)
    dims = [getattr(leaf, "root", leaf) for leaf in leaves]
    dims = [each for each in dims if isinstance(each, torch.export.Dim)]
    return {each.__name__ for each in dims if each.min == _SMALLEST_TRACED}


def _symbols(sizes: Iterable[int | torch.SymInt]) -> list[sympy.Symbol]:
    """Return torch's symbols in sizes, in order."""
    symbolic = [size for size in sizes if isinstance(size, torch.SymInt)]
    return [
        s for size in symbolic for s in sorted(size.node.expr.free_symbols, key=str)
    ]


def _given_name(shape_env: ShapeEnv, symbol: sympy.Symbol) -> str | None:
    """Return the name of the user's torch.export.Dim for a symbol; None if unknown."""
    names = shape_env.source_name_to_debug_name
    for source in shape_env.var_to_sources.get(symbol, ()):
        name = str(names.get(source.name, ""))
        if name.isidentifier():
            return name
    return None


def _dim(
    program: ExportedProgram, symbol: sympy.Symbol, name: str, step: int, least: int
) -> Dim:
    """Return a Dim with the range that the program states for a symbol."""
    known = program.range_constraints.get(symbol)
    low, high = (known.lower, known.upper) if known is not None else (0, sympy.oo)
    least = min(least, max(int(low), 1)) if low <= _SMALLEST_TRACED else int(low)
    return Dim(name, least, int(high) if high.is_Integer else None, step)


def term_of(
    size: int | torch.SymInt, dims: Mapping[sympy.Symbol, Dim]
) -> int | DimTerm:
    """Return an input's size as a number, a Dim, or an expression such as `2 *
    n + 1`.
    """
    if not isinstance(size, torch.SymInt):
        return int(size)
    return _term(size.node.expr, dims)


def _term(expression: sympy.Expr, dims: Mapping[sympy.Symbol, Dim]) -> int | DimTerm:
    """Return a sympy expression of sizes as a number or Dim expression."""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return dims[expression]
    parts = [_term(part, dims) for part in expression.args]
    total = parts[0]
    for part in parts[1:]:
        if expression.is_Add:
            total = total + part
        elif expression.is_Mul:
            total = total * part
        else:
            fail("bad-spec", f"expected sums and products as a size; got {expression}")
    return total
