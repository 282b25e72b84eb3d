"""Batches of the arrays in a file, in an order that is drawn for every epoch.

An input of shape (64, 8, 8, 1) takes its batches from the array of its name, of shape
(N, 8, 8, 1): all rows are shuffled and cut into batches of 64, and the N % 64 rows
that are left over wait for the order of the next epoch. The order depends on the seed
and the number of the epoch alone, so a run can go on anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.artifacts.manifest import Leaf
from aotc.cli.arrays import Array, as_stored
from aotc.errors import InputError
from aotc.system_errors import raise_system_error


class Batches:
    """Rows of arrays of one length, `size` at a time.

    Args:
        arrays: by name of the input.
        size: rows in a batch.
        seed: of the orders; None takes the rows as they come and, if some are left
            over, a smaller batch of them at the end.
    """

    def __init__(
        self, arrays: Mapping[str, Array], size: int, seed: int | None
    ) -> None:
        self.size = size
        self._arrays = arrays
        self._seed = seed
        self.rows = len(next(iter(arrays.values())))
        left_over = seed is None and self.rows % size > 0
        self.per_epoch = self.rows // size + left_over
        self._epoch, self._order = -1, np.empty(0, int)

    def epoch(self, step: int) -> int:
        """The epoch that a step is in; both count from 0."""
        return step // self.per_epoch

    def at(self, step: int) -> dict[str, Array]:
        """The batch of a step by name of the input."""
        epoch, index = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._order_of(epoch)
        rows = self._order[index * self.size : (index + 1) * self.size]
        return {name: array.take(rows, axis=0) for name, array in self._arrays.items()}

    def _order_of(self, epoch: int) -> Array:
        if self._seed is None:
            return np.arange(self.rows)
        return np.random.default_rng((self._seed, epoch)).permutation(self.rows)

    def digest(self) -> str:
        """The SHA-256 of the arrays with their names, dtypes and shapes."""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays.items()):
            head = json.dumps([name, str(array.dtype), array.shape])
            digest.update(head.encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def read(file: Path, leaves: Sequence[Leaf], size: int | None, seed: int) -> Batches:
    """The batches of a file for these inputs.

    Raises:
        InputError: the file cannot be read, or its arrays do not fit the inputs.
    """
    rows, arrays = _batch_size(leaves, size), _arrays(file, leaves)
    count = len(next(iter(arrays.values())))
    if count < rows:
        raise InputError(
            "too-few-rows",
            f"expected at least one batch of {rows} rows, got {count}",
            where=str(file),
        )
    return Batches(arrays, rows, seed)


def read_in_order(file: Path, leaves: Sequence[Leaf], size: int | None) -> Batches:
    """The batches of a file, each row once and in the order that they have there.

    Raises:
        InputError: as for `read`.
    """
    rows, arrays = _batch_size(leaves, size), _arrays(file, leaves)
    if not len(next(iter(arrays.values()))):
        raise InputError("too-few-rows", "there are no rows", where=str(file))
    return Batches(arrays, rows, None)


def _arrays(file: Path, leaves: Sequence[Leaf]) -> dict[str, Array]:
    """The arrays of a file for these inputs, all of one length."""
    arrays = _read(file, leaves)
    for leaf in leaves:
        _check(arrays[leaf.name], leaf, file)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(
            "unequal-arrays",
            f"expected arrays with the same number of rows, got {found}",
            where=str(file),
        )
    return arrays


def _batch_size(leaves: Sequence[Leaf], size: int | None) -> int:
    """How many rows a step takes: what the inputs say, or what was asked for."""
    if not leaves:
        raise InputError(
            "no-batches", "the entry has no input that batches could be taken for"
        )
    for leaf in leaves:
        if not leaf.shape:
            raise InputError(
                "no-batches",
                f"the input {leaf.name!r} is a scalar, which has no rows",
                hint=f"the same value for all steps: --input {leaf.name}=VALUE",
            )
    fixed = {leaf.name: leaf.shape[0] for leaf in leaves if type(leaf.shape[0]) is int}
    sizes = set(fixed.values())
    if size is not None:
        sizes.add(size)
    if not sizes:
        raise InputError(
            "batch-size",
            "the entry takes batches of any size, and none is given",
            hint="--batch-size 32",
        )
    if len(sizes) > 1 or min(sizes) < 1:
        found = [f"{rows} for {name!r}" for name, rows in fixed.items()]
        found += [f"{size} by --batch-size"] if size is not None else []
        raise InputError(
            "batch-size", f"expected one size for all batches, got {', '.join(found)}"
        )
    return sizes.pop()


def _read(file: Path, leaves: Sequence[Leaf]) -> dict[str, Array]:
    """The array of every input."""
    if file.suffix not in _READERS:
        raise InputError(
            "unknown-format",
            f"expected data in {' or '.join(_READERS)}, got {file.name!r}",
            where=str(file),
        )
    if not file.is_file():
        raise InputError("no-such-file", "there is no data", where=str(file))
    try:
        found, there = _READERS[file.suffix](file, [leaf.name for leaf in leaves])
    except Exception as error:  # whatever the reader finds wrong with the bytes
        raise_system_error(error, str(file))
        raise InputError(
            "bad-file",
            f"expected arrays in a {file.suffix} file: {error or type(error).__name__}",
            where=str(file),
        ) from error
    missing = [leaf.name for leaf in leaves if leaf.name not in found]
    if missing:
        raise InputError(
            "missing-input",
            f"no array for the input {', '.join(missing)}; there are "
            f"{', '.join(sorted(there)) or 'none'}",
            where=str(file),
            hint=f"name the arrays like the inputs, or give --input {missing[0]}=VALUE",
        )
    return {leaf.name: as_stored(found[leaf.name], leaf) for leaf in leaves}


# the arrays of these names, and the names of all that are there
_Read = Callable[[Path, Collection[str]], tuple[dict[str, Array], Collection[str]]]


def _read_npz(
    file: Path, names: Collection[str]
) -> tuple[dict[str, Array], Collection[str]]:
    with np.load(file, allow_pickle=False) as archive:
        return {n: archive[n] for n in names if n in archive.files}, archive.files


def _read_safetensors(
    file: Path, names: Collection[str]
) -> tuple[dict[str, Array], Collection[str]]:
    from safetensors import safe_open

    with safe_open(file, framework="np", backend="pread") as archive:
        there = set(archive.keys())
        return {n: archive.get_tensor(n) for n in names if n in there}, there


_READERS: dict[str, _Read] = {".npz": _read_npz, ".safetensors": _read_safetensors}


def _check(array: Array, leaf: Leaf, file: Path) -> None:
    """Refuse an array whose rows are not what the input takes, as a call would."""
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
        where=str(file),
        hint=hint,
    )
