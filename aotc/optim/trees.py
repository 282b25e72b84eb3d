"""Pytrees of parameters, gradients and moments: functions of their leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names, tree_map
from aotc.numpy.creation import full
from aotc.tracing.array import Array
from aotc.tracing.conversion import astype, lift
from aotc.tracing.source_locations import fail

Tree = PyTree


def leafwise(function: Callable[..., Array], tree: Tree, *others: Tree) -> Tree:
    """Map a function over corresponding leaves of pytrees of one structure.

    The arrays of one leaf have one shape, and meet in the widest of their dtypes.

    Raises:
        InputError: the trees differ in form or shapes, or hold something else than
            floats.
    """
    columns, structure = _columns([tree, *others])
    rows = list(zip(*columns, strict=True))
    for position, row in enumerate(rows):
        _require_alike(row, structure, position)
    return structure.unflatten([function(*in_widest(row)) for row in rows])


def float_leaves(tree: Tree) -> list[Array]:
    """Return the leaves of a pytree as arrays; raise if one is no float."""
    return flatten(leafwise(lambda x: x, tree))[0]


def leafwise_unzip(
    function: Callable[..., Sequence[Array]], count: int, *trees: Tree
) -> list[Tree]:
    """Map a function with `count` results over leaves; return a tree for each
    result.
    """
    columns, structure = _columns(trees)
    rows = [function(*row) for row in zip(*columns, strict=True)]
    return [structure.unflatten([row[i] for row in rows]) for i in range(count)]


def _columns(trees: Sequence[Tree]) -> tuple[list[list[Array]], Structure]:
    """Return the leaves of each tree as arrays, and their structure; raise if it
    differs.
    """
    flat = [flatten(tree) for tree in trees]
    structure = flat[0][1]
    for _, found in flat:
        if found != structure:
            fail(
                "tree-mismatch",
                "expected parameters, gradients and moments of one form; got "
                f"{structure} and {found}",
                "begin with init(params) of these parameters",
            )
    return [[lift(leaf) for leaf in leaves] for leaves, _ in flat], structure


def _require_alike(
    arrays: Sequence[Array], structure: Structure, position: int
) -> None:
    """Raise unless the arrays of one leaf are floats of one shape."""
    if not all(dtypes.is_float(array.dtype) for array in arrays):
        found = next(array for array in arrays if not dtypes.is_float(array.dtype))
        fail(
            "not-differentiable",
            f"expected arrays of floats{_at(structure, position)}; got {found.type}",
            "keep what is not trained apart from the parameters",
        )
    if len({array.type.shape for array in arrays}) > 1:
        fail(
            "shape-mismatch",
            f"expected arrays of one shape{_at(structure, position)}; got "
            + " and ".join(dict.fromkeys(str(array.type) for array in arrays)),
        )


def _at(structure: Structure, position: int) -> str:
    """Return " at 'NAME'" for a leaf, for messages."""
    name = leaf_names(structure)[position]
    return f" at '{name}'" if name else ""


# ---- dtypes -------------------------------------------------------------------------


def in_widest(arrays: Sequence[Array]) -> list[Array]:
    """Convert float arrays to the narrowest dtype that holds the values of all."""
    found = {array.dtype for array in arrays}
    widest = max(found, key=dtypes.bits)
    if found == {"f16", "bf16"}:
        widest = "f32"
    return [astype(array, widest) for array in arrays]


def like(new: Tree, old: Tree) -> Tree:
    """Cast the arrays of a tree to the dtypes of another tree's."""
    return tree_map(lambda x, kept: astype(x, lift(kept).dtype), new, old)


def float_dtype(dtype: DTypeLike | None) -> str | None:
    """Return the canonical name of a float dtype; None stays None."""
    if dtype is None:
        return None
    name = dtypes.canonical_dtype(dtype)
    if not dtypes.is_float(name):
        fail("unknown-dtype", f"expected a float type for moments; got {name}")
    return name


# ---- new ones -----------------------------------------------------------------------


def full_like(tree: Tree, value: float, dtype: str | None = None) -> Tree:
    """Return a tree with arrays of one value, in the shapes of a tree of floats."""
    return leafwise(lambda x: full(x.shape, value, dtype or x.dtype), tree)


def zeros_like(tree: Tree, dtype: str | None = None) -> Tree:
    """Return a tree of zeros, in the shapes of a tree of floats."""
    return full_like(tree, 0.0, dtype)
