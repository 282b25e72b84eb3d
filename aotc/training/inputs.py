"""Arrays for the inputs of an entry: from a file, or as Python has them.

Data are named like the inputs. An input in a container has a dotted name, such as
`batch.x`; nested mappings and lists give the same names, so that `{"batch": {"x": x}}`
and `{"batch.x": x}` mean one thing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.core import dtypes
from aotc.core.array_files import open_arrays
from aotc.errors import InputError
from aotc.training import wording
from aotc.training.entries import Array

# a file of arrays, arrays by name, the array of the only input, or batches
Data = str | os.PathLike[str] | Mapping[str, object] | Array | Iterable[object]


def are_whole_arrays(data: Data) -> bool:
    """Return whether data are whole arrays, or a file of them, and not batches."""
    kinds = (str, os.PathLike, Mapping)
    return isinstance(data, kinds) or hasattr(data, "__array__")


def place_of(data: Data) -> str | None:
    """Return the path of data that are a file, for errors; None for data in memory."""
    return os.fspath(data) if isinstance(data, str | os.PathLike) else None


def arrays_for(data: Data, leaves: Sequence[Leaf]) -> dict[str, Array]:
    """Return an array for each input by name, all with the same number of rows.

    Args:
        data: the path of an .npz or .safetensors file, a mapping of arrays, or one
            array if there is one input. What no input is named after is left alone.
        leaves: the inputs.

    Raises:
        InputError: there are no such arrays, or they are not what the inputs take.
        SetupError: the machine does not let them be read.
    """
    where = place_of(data)
    if isinstance(data, str | os.PathLike):
        arrays = _read(Path(data), leaves)
    else:
        found = values_for(data, leaves)
        arrays = {leaf.name: _array(found[leaf.name], leaf) for leaf in leaves}
    for leaf in leaves:
        _check(arrays[leaf.name], leaf, where)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(
            "unequal-arrays",
            f"expected arrays with the same number of rows, got {said}",
            where=where,
        )
    return arrays


def values_for(data: object, leaves: Sequence[Leaf]) -> dict[str, object]:
    """Return the in-memory data for each input, by name.

    Raises:
        InputError: `missing-input`, or `input-structure` if they have no names.
    """
    if len(leaves) == 1 and hasattr(data, "__array__"):
        return {leaves[0].name: data}
    found, others = _pick_by_name(data, [leaf.name for leaf in leaves])
    _require_all(found, [*found, *others], leaves, None)
    return found


def constants_for(constants: object, leaves: Sequence[Leaf]) -> dict[str, object]:
    """Return the values of `constants` by input name; raise for unknown names.

    Raises:
        InputError: `unknown-input`, or `input-structure` if they have no names.
    """
    found, others = _pick_by_name(constants, [leaf.name for leaf in leaves])
    if others:
        inputs = ", ".join(f"{leaf.name}: {leaf}" for leaf in leaves)
        raise InputError(
            "unknown-input",
            f"the entry has no input {others[0]!r}",
            hint=f"inputs: {inputs or 'none'}",
        )
    return found


# ---- names --------------------------------------------------------------------------


def _pick_by_name(
    given: object, wanted: Collection[str]
) -> tuple[dict[str, object], Sequence[str]]:
    """Return the values whose dotted names are wanted, and the names of all others."""
    if not isinstance(given, Mapping):
        raise InputError(
            "input-structure",
            "expected a mapping from the names of inputs "
            f"({', '.join(wanted) or 'none'}) to arrays, got {type(given).__name__}",
        )
    found: dict[str, object] = {}
    others: list[str] = []
    _collect(given, "", wanted, found, others)
    return found, others


def _collect(
    container: Any,
    prefix: str,
    wanted: Collection[str],
    found: dict[str, object],
    others: list[str],
) -> None:
    """Add wanted values of a nested container to `found`, other names to `others`."""
    # Values that nobody wants are not touched: a mapping may read them from a disk.
    for key in _keys(container):
        name = f"{prefix}{key}"
        below = f"{name}."
        if name in wanted:
            found[name] = container[key]
        elif any(other.startswith(below) for other in wanted):
            _collect(container[key], below, wanted, found, others)
        else:
            others.append(name)


def _keys(container: object) -> Iterator[object]:
    """Return an iterator over a container's keys or indices; none for other values."""
    if isinstance(container, Mapping):
        return iter(container)
    return iter(range(len(container)) if isinstance(container, list | tuple) else ())


def _require_all(
    found: Mapping[str, object],
    known_names: Collection[str],
    leaves: Sequence[Leaf],
    where: str | None,
) -> None:
    """Raise if there is no value for some input."""
    missing = [leaf.name for leaf in leaves if leaf.name not in found]
    if missing:
        raise InputError(
            "missing-input",
            f"no array for the input {', '.join(missing)}; there are "
            f"{', '.join(sorted(known_names)) or 'none'}",
            where=where,
            hint="name the arrays like the inputs, or give "
            + wording.current().constant(missing[0]),
        )


# ---- arrays -------------------------------------------------------------------------


def _array(value: object, leaf: Leaf) -> Array:
    """Return a value as a NumPy array of its own dtype; raise if it is no array, or has
    masked elements.
    """
    if not hasattr(value, "__array__"):
        raise InputError(
            "input-type",
            f"expected an array for {leaf.name!r}, got {type(value).__name__}",
            hint="pass a NumPy array: numpy.asarray(value, dtype)",
        )
    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        raise InputError(
            "input-type",
            f"expected an array for {leaf.name!r}, got a masked array, whose masked "
            "elements have no values",
            hint=f"give them values: {leaf.name}.filled(0)",
        )
    return np.asarray(value)


def _check(array: Array, leaf: Leaf, where: str | None) -> None:
    """Raise if an array's dtype or row shape does not fit the input."""
    wanted: tuple[Any, ...] = leaf.shape[1:]
    dtype = dtypes.to_numpy(leaf.dtype)
    hint = None
    if len(array.shape) != len(leaf.shape):
        code = "rank-mismatch"
    elif any(
        not isinstance(dim, str) and dim != size
        for dim, size in zip(wanted, array.shape[1:], strict=True)
    ):
        code = "shape-mismatch"
    elif array.dtype != dtype:
        code = "dtype-mismatch"
        hint = f"convert it: {leaf.name}.astype({dtype.name!r})"
    else:
        return
    shape = ", ".join(map(str, array.shape))
    raise InputError(
        code,
        f"the array {leaf.name!r}: expected {Leaf('', leaf.dtype, ('rows', *wanted))}, "
        f"got {array.dtype}[{shape}]",
        where=where,
        hint=hint,
    )


# ---- files --------------------------------------------------------------------------


def _read(file: Path, leaves: Sequence[Leaf]) -> dict[str, Array]:
    """Read an array for each input from an .npz or .safetensors file."""
    stored = open_arrays(file, "data")
    found = {x.name: stored.copy(x.name) for x in leaves if x.name in stored}
    _require_all(found, [*stored], leaves, str(file))
    return {leaf.name: dtypes.restore(found[leaf.name], leaf.dtype) for leaf in leaves}
