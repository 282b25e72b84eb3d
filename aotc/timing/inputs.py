"""Arrays to call an entry with, as its contract in the manifest has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc.artifacts.manifest import EntryPoint, Leaf, Manifest, Symbol
from aotc.artifacts.shapes import SizeExpression, Undefined, deciding_sizes
from aotc.core import dtypes
from aotc.errors import InputError

Array = np.ndarray


def sizes_for(
    manifest: Manifest,
    point: EntryPoint,
    wanted: Mapping[str, int],
    given: Mapping[str, Array],
) -> dict[str, int]:
    """Return a value for every symbolic size of an entry's inputs.

    It is the one that is wanted, else that of a given array, else the one that most
    calls have, if the model says so, else the least that the contract allows and that
    there is code for.

    Args:
        manifest: of the bundle.
        point: the entry.
        wanted: values by name.
        given: arrays for some inputs, by name.

    Raises:
        InputError: `unknown-size`, or `bad-size` if the contract or the given arrays do
            not allow it.
    """
    names = symbols_of(point.inputs)
    said = _sizes_of_arrays(point.inputs, given)
    for name, size in wanted.items():
        if name not in names:
            expected = f"expected one of its symbolic sizes, {', '.join(names)}"
            raise InputError(
                "unknown-size",
                f"{point.name}: {expected if names else 'it has no symbolic sizes'}; "
                f"got {name!r}",
            )
        _require_allowed(point, name, size, manifest.symbols[name])
        if said.get(name, size) != size:
            raise InputError(
                "bad-size",
                f"{point.name}: expected {name} to be {said[name]}, as in the given "
                f"inputs; got {size}",
            )
    usual = {name: _usual_size(manifest, point, name) for name in names}
    return {name: wanted.get(name, said.get(name, usual[name])) for name in names}


def _usual_size(manifest: Manifest, point: EntryPoint, name: str) -> int:
    """Return the value of a size that most calls have, or the least with
    compiled code.
    """
    optimum = manifest.symbols[name].optimum
    if optimum is not None and point.has_code_of(name, optimum):
        return optimum
    if manifest.symbols[name].policy not in ("dynamic", "pad", "bucket"):
        return min(code.sizes[name] for code in point.codes)
    return _least_allowed(manifest.symbols[name])


def symbols_of(leaves: Sequence[Leaf]) -> list[str]:
    """Return the symbols in the shapes of leaves, without duplicates, in order."""
    dims = [
        SizeExpression.parse(d)
        for leaf in leaves
        for d in leaf.shape
        if isinstance(d, str)
    ]
    return list(dict.fromkeys(name for dim in dims for name in sorted(dim.symbols)))


def _least_allowed(symbol: Symbol) -> int:
    """Return the least size above zero that a symbol's contract allows."""
    return -(-max(symbol.min, 1) // symbol.multiple_of) * symbol.multiple_of


def _require_allowed(point: EntryPoint, name: str, size: int, symbol: Symbol) -> None:
    """Refuse a size outside of the range that its symbol was declared with."""
    # Before arrays of that size are made, which the machine may not have room for.
    is_above = symbol.max is not None and size > symbol.max
    if size >= symbol.min and not is_above and size % symbol.multiple_of == 0:
        return
    most = "" if symbol.max is None else f", at most {symbol.max}"
    parts = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
    raise InputError(
        "bad-size",
        f"{point.name}: expected {name} at least {symbol.min}{most}{parts}; got {size}",
        hint="the range was declared when the model was built",
    )


def _sizes_of_arrays(
    leaves: Sequence[Leaf], arrays: Mapping[str, Array]
) -> dict[str, int]:
    """Return the symbols that array shapes determine; wrong shapes fail in the call.

    Args:
        leaves: of all inputs.
        arrays: arrays for some of them, by name.
    """
    pairs = [
        (SizeExpression.parse(dim), size)
        for leaf in leaves
        if leaf.name in arrays
        for dim, size in zip(leaf.shape, arrays[leaf.name].shape, strict=False)
        if isinstance(dim, str)
    ]
    found: dict[str, int] = {}
    for index, name in deciding_sizes([dim for dim, _ in pairs]):
        dim, size = pairs[index]
        value = dim.solve(name, size, found)
        if value is not None:
            found[name] = value
    return found


def arrays_for(
    point: EntryPoint,
    sizes: Mapping[str, int],
    given: Mapping[str, Array],
    seed: int,
) -> dict[str, Array]:
    """Return an array for each input by name: the given one, or seeded random numbers.

    Floats are normally distributed. Integers and bools are 0 or 1, because the manifest
    does not say what they mean, and these are positions in whatever they index.

    Args:
        point: the entry.
        sizes: as `sizes_for` gives them.
        given: arrays for some inputs.
        seed: of the random numbers.

    Raises:
        InputError: `bad-size`: a shape is impossible for these sizes.
    """
    rng = np.random.default_rng(seed)
    return {
        leaf.name: given[leaf.name]
        if leaf.name in given
        else _random_array(rng, leaf, _shape(point, leaf, sizes))
        for leaf in point.inputs
    }


def _shape(point: EntryPoint, leaf: Leaf, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return an input's shape with values in the place of symbols.

    Raises:
        InputError: `bad-size`.
    """
    try:
        shape = tuple(
            SizeExpression.parse(dim).value(sizes) if isinstance(dim, str) else dim
            for dim in leaf.shape
        )
    except Undefined as error:
        wrong = str(error)
    else:
        if min(shape, default=0) >= 0:
            return shape
        wrong = f"its shape would be {list(shape)}"
    said = ", ".join(f"{name}={size}" for name, size in sizes.items())
    raise InputError(
        "bad-size",
        f"{point.name}: expected sizes that the input {leaf.name!r}, {leaf}, can have; "
        f"got {said}: {wrong}",
        hint=f"choose others: --sizes {said}",
    )


def _random_array(
    rng: np.random.Generator, leaf: Leaf, shape: tuple[int, ...]
) -> Array:
    """Return normally distributed floats; for integers and bools, 0 or 1."""
    kind = dtypes.to_numpy(leaf.dtype)
    if not dtypes.is_float(leaf.dtype):
        return rng.integers(0, 2, shape, "u1").astype(kind)
    return rng.standard_normal(shape, "f4").astype(kind)
