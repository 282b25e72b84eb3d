"""Streams as NumPy's .npy files one after the other, which several `numpy.save` write.

An item has a record for each of its inputs, in the order of the entry, and a result one
for each output. Arrays of a file say their own shapes, so that items may differ in
them, which they could not along an axis of one array.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from aotc.cli.arrays import Array
from aotc.core import dtypes
from aotc.errors import AotcError, InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import Leaf

MAGIC = b"\x93NUMPY"


def read(
    file: io.BufferedReader, leaves: Sequence[Leaf]
) -> Iterator[tuple[str, dict[str, Array] | AotcError]]:
    """Parse a stream of .npy records; yield each item's record number and inputs by
    name.

    Args:
        file: the records.
        leaves: the inputs that each item has to give.

    Raises:
        InputError: `bad-stream-item`: there is no telling where the next record begins.
    """
    source, number = _Pipe(file), 0
    while file.peek(1):
        inputs = {}
        for leaf in leaves:
            number += 1
            inputs[leaf.name] = _record(source, leaf, f"record {number}")
        yield f"record {number}", inputs


class _Pipe:
    """A file wrapper without `seek`, so that NumPy reads records in sequence."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        return self._file.read(size)


def _record(source: _Pipe, leaf: Leaf, place: str) -> Array:
    """Read the next .npy record as an array for input `leaf`."""
    try:
        array = np.lib.format.read_array(source, allow_pickle=False)  # type: ignore[arg-type]
    except (ValueError, EOFError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(
            "bad-stream-item",
            f"expected {leaf.name!r}, {leaf}, as a .npy record: {first_line}",
            where=place,
            hint="records of the inputs follow each other, in the order of the entry",
        ) from None
    return dtypes.restore(array, leaf.dtype)


def result(outputs: Mapping[str, Array]) -> bytes:
    """Return an item's outputs as consecutive .npy records."""
    written = io.BytesIO()
    for array in outputs.values():
        np.lib.format.write_array(written, array, allow_pickle=False)
    return written.getvalue()
