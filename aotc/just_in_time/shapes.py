"""Choice of symbolic sizes: those that have changed from call to call.

Axes that were of equal sizes in all calls so far share a symbol, until a call in which
they are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.tracing.dims import Dim

Shapes = tuple[tuple[int, ...], ...]  # of all leaves of a call
Sizes = tuple[tuple[int | Dim, ...], ...]  # of specs


def symbolic_sizes(seen: Sequence[Shapes], names: Sequence[str]) -> Sizes | None:
    """Return sizes that accept all calls so far, with Dims for those that vary; else
    None.

    Args:
        seen: shapes of calls that differ in sizes alone.
        names: of the leaves, which symbols are called after.
    """
    columns = {
        (leaf, axis): tuple(shapes[leaf][axis] for shapes in seen)
        for leaf, shape in enumerate(seen[0])
        for axis in range(len(shape))
    }
    dims: dict[tuple[int, ...], Dim] = {}
    for (leaf, axis), sizes in columns.items():
        if len({*sizes}) > 1 and sizes not in dims:
            plain = "".join(
                c if c.isalnum() and c.isascii() else "_" for c in names[leaf]
            )
            dims[sizes] = Dim(f"{plain}_{axis}", min=_least(sizes))
    if not dims:
        return None
    return tuple(
        tuple(dims.get(columns[leaf, axis], size) for axis, size in enumerate(shape))
        for leaf, shape in enumerate(seen[0])
    )


def _least(sizes: Sequence[int]) -> int:
    """Return the smallest size that shares symbolic code: 2, or 1 or 0 where those
    occur.
    """
    return min(2, *sizes)


def bound_sizes(sizes: Sizes, shapes: Shapes) -> dict[str, int] | None:
    """Return each symbol's value in a call's shapes; None if the sizes do not fit
    them.
    """
    bound: dict[str, int] = {}
    for spec, shape in zip(sizes, shapes, strict=True):
        for size, given in zip(spec, shape, strict=True):
            if isinstance(size, int):
                if size != given:
                    return None
            elif given < size.min or bound.setdefault(size.name, given) != given:
                return None
    return bound


def fits(sizes: Sizes, shapes: Shapes) -> bool:
    """Return whether Specs accept a call of these shapes."""
    return bound_sizes(sizes, shapes) is not None


def with_known(sizes: Sizes, known: Mapping[str, int]) -> Sizes:
    """Return sizes with known values in the place of their symbols."""
    return tuple(
        tuple(n if isinstance(n, int) else known.get(n.name, n) for n in shape)
        for shape in sizes
    )
