"""Arrays and modules as a value of the cache: a table in JSON, and blobs of bytes.

`arrays_of_rows(table.rows, …)` gives the arrays that an `ArrayTable` was given. What is
still to be computed is kept as the ops that compute it and the arrays that they read,
however large it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.mlir import bytecode, ir
from aotc.programs.computed_arrays import ComputedArray, StoredArray

Array = np.ndarray
Row = Sequence[Any]


class ArrayTable:
    """A serialized list of arrays: JSON rows, each after the rows it is computed from.

    A row is `["known", …]` with what the caller says of an array that is there anyway;
    `["elements", dtype, shape, blob]`; or `["computed", blob, rows]` with the number of
    a blob, which holds a module, and those of the rows that its function reads.

    Args:
        known: rows, without their kind, of arrays that are not kept, by identity.
    """

    def __init__(self, known: Mapping[int, Row]) -> None:
        self.rows: list[Row] = []
        self._known = known
        self._blobs: list[bytes | Array] = []
        self._numbers: dict[int, int] = {}  # of rows, by the identity of their arrays

    def number_of(self, array: StoredArray) -> int:
        """Return the index of an array's row; append the row if there is none."""
        if id(array) not in self._numbers:
            row = self._row(array)
            self._numbers[id(array)] = len(self.rows)
            self.rows.append(row)
        return self._numbers[id(array)]

    def _row(self, array: StoredArray) -> Row:
        """Return a new row for an array, after adding the rows that it refers to."""
        if id(array) in self._known:
            return ["known", *self._known[id(array)]]
        if isinstance(array, ComputedArray):
            leaves = [self.number_of(each) for each in array.leaves]
            return ["computed", self._keep(bytecode(array.module)), leaves]
        kind = dtypes.canonical_dtype(array.dtype), array.shape
        return ["elements", *kind, self._keep(array)]

    def _keep(self, blob: bytes | Array) -> int:
        """Append a blob of bytes; return its index."""
        self._blobs.append(blob)
        return len(self._blobs) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays among the blobs, without those of modules."""
        return sum(x.nbytes for x in self._blobs if not isinstance(x, bytes))

    def stored_blobs(self) -> Iterator[bytes]:
        """Yield the blobs as bytes, in order."""
        for blob in self._blobs:
            yield blob if isinstance(blob, bytes) else blob.tobytes()


def arrays_of_rows(
    rows: Sequence[Row],
    blobs: Sequence[bytes],
    context: ir.Context,
    known: Callable[[Row], StoredArray],
) -> list[StoredArray]:
    """Rebuild the arrays from the rows and blobs of an `ArrayTable`.

    Args:
        rows: of the table.
        blobs: of the table.
        context: for the modules that compute arrays.
        known: gives the array of a row, without its kind, that the caller has.
    """
    found: list[StoredArray] = []
    for kind, *row in rows:
        if kind == "known":
            found.append(known(row))
        elif kind == "computed":
            blob, leaves = row
            module = ir.Module.parse(blobs[blob], context)
            read = [found[number] for number in leaves]
            found.append(ComputedArray.of_module(module, read))
        else:
            dtype, shape, blob = row
            found.append(np.ndarray(shape, dtypes.to_numpy(dtype), blobs[blob]))
    return found


def value_of(facts: Mapping[str, object], blobs: Sequence[bytes]) -> bytes:
    """Serialize facts (JSON) and blobs to bytes, for `parts_of_value`."""
    header = json.dumps({**facts, "sizes": [len(each) for each in blobs]})
    return b"\n".join([header.encode(), b"".join(blobs)])


def parts_of_value(value: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the facts and blobs that `value_of` has serialized."""
    header, _, rest = value.partition(b"\n")
    facts = json.loads(header)
    blobs, start = [], 0
    for size in facts.pop("sizes"):
        blobs.append(rest[start : start + size])
        start += size
    return facts, blobs
