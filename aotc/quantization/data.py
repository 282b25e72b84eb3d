"""Calibration data: named arrays, cut into calls of the entries that take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.array_files import open_arrays
from aotc.core.cache import arrays_digest
from aotc.dialects.functions.entries import Entry, Port
from aotc.errors import InputError
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.tracing.entry_calls import call_contract

_HINT = "numpy.savez(FILE, x=samples): an array for each input, samples along axis 0"
BATCH = 32  # samples of a call, where an entry takes any number of them


@dataclass(frozen=True)
class Data:
    """Calibration arrays by the names of inputs, with others that only a metric reads.

    Args:
        arrays: of all samples, along the first axis; one called `entry/input` is for
            that entry alone.
        where: the file that they are of.
    """

    arrays: Mapping[str, Array]
    where: str

    @classmethod
    def read(cls, path: Path) -> Data:
        """Return the calibration data in an `.npz` or `.safetensors` file.

        Raises:
            InputError: see `aotc.core.array_files`.
        """
        stored = open_arrays(path, "data")
        return cls({name: stored.copy(name) for name in stored}, str(path))

    @property
    def sha256(self) -> str:
        """SHA-256 of the arrays, however the file is compressed."""
        return arrays_digest(dict(sorted(self.arrays.items())))

    def facts(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """Return the facts on the data for recipes and bundles: digest and number of
        samples.
        """
        found = [
            self.array(entry, port)
            for entry in entries
            for port in entry.ports("input")
        ]
        lengths = [len(x) for x in found if x is not None and x.ndim]
        return {"sha256": self.sha256, "samples": max(lengths, default=0)}

    def has(self, entry: Entry) -> bool:
        """Return whether there are arrays for all inputs of an entry."""
        return not self.missing(entry)

    def array(self, entry: Entry, port: Port) -> Array | None:
        """Return the calibration array of an input; None without one."""
        own = f"{entry.name}/{port.name}"
        return self.arrays.get(own, self.arrays.get(port.name))

    def unread(self, entries: Sequence[Entry]) -> list[str]:
        """Return the names of arrays that are no input of any of these entries."""
        ports = [(e.name, port.name) for e in entries for port in e.ports("input")]
        known = {name for _, name in ports} | {"/".join(pair) for pair in ports}
        return [name for name in self.arrays if name not in known]

    def missing(self, entry: Entry) -> list[str]:
        """Return the inputs of an entry that there are no arrays for."""
        ports = entry.ports("input")
        return [port.name for port in ports if self.array(entry, port) is None]

    def calls(self, entry: Entry) -> list[list[Array]]:
        """Cut the data into calls of an entry; return the input arrays of each call.

        An array with an axis more than its input has a call for each of its elements;
        others are cut along their first axis, into parts of the input's size, or of
        `BATCH` where that is open. One that is whole is for all calls.

        Raises:
            InputError: `bad-data`: a shape or dtype that the entry does not take, or
                inputs that make different numbers of calls.
        """
        parts = [
            list(self._slices_for_calls(entry, port)) for port in entry.ports("input")
        ]
        counts = sorted({len(each) for each in parts} - {1})
        if len(counts) > 1:
            names = [port.name for port in entry.ports("input")]
            pairs = zip(names, map(len, parts), strict=True)
            said = ", ".join(f"{count} of '{name}'" for name, count in pairs)
            raise self._refused(f"as many calls of each input; got {said}")
        count = counts[0] if counts else 1
        contract = call_contract(entry.name, entry.ports("input"), entry.symbols)
        found = [
            [each[number] if len(each) > 1 else each[0] for each in parts]
            for number in range(count)
        ]
        try:
            for call in found:
                contract.arrays(call)
        except InputError as error:
            raise self._refused_by(error) from None
        return found

    def _slices_for_calls(self, entry: Entry, port: Port) -> Iterator[Array]:
        """Yield the array that an input has in each call of an entry."""
        kind, array = port.type, self._converted(entry, port)
        self._require_sizes(entry, port, array)
        if array.ndim == kind.rank + 1:
            yield from array
            return
        if array.ndim != kind.rank or not array.size:
            raise self._refused(f"'{port.name}' like {kind}; got {list(array.shape)}")
        if not kind.rank:
            yield array
            return
        size = kind.shape[0]
        step = size if isinstance(size, int) else _batch(entry)
        if isinstance(size, int) and len(array) % max(size, 1):
            expected = f"a multiple of {size} samples of '{port.name}'"
            raise self._refused(f"{expected}; got {len(array)}")
        for start in range(0, len(array), step):
            yield array[start : start + step]

    def _converted(self, entry: Entry, port: Port) -> Array:
        """Return the calibration array of an input, converted to the input's dtype.

        Raises:
            InputError: `bad-data`: the dtype does not hold it, or it holds NaN.
        """
        given, dtype = self.array(entry, port), port.type.dtype
        assert given is not None
        wanted = dtypes.to_numpy(dtype)
        if not np.can_cast(given.dtype, wanted, "same_kind"):
            raise self._refused(f"'{port.name}' of {dtype}; got {given.dtype}")
        array = given.astype(wanted)
        if given.dtype.kind in "iu" and wanted.kind in "iu":
            lost = given[array != given]
            if lost.size:
                raise self._refused(f"'{port.name}' of {dtype}; got {lost[0]}")
        if dtypes.is_float(dtype) and np.isnan(array).any():
            rows = np.isnan(array).reshape(len(array) if array.ndim else 1, -1)
            samples = np.flatnonzero(rows.any(1))
            some = ", ".join(map(str, samples[:5])) + ", …" * (len(samples) > 5)
            raise self._refused(
                f"numbers for '{port.name}'; got {np.isnan(array).sum()} NaN, in the "
                f"samples {some}",
                "leave out the samples that have them",
            )
        return array

    def _require_sizes(self, entry: Entry, port: Port, array: Array) -> None:
        """Raise `bad-data` unless the axes after the first have the input's sizes."""
        kind = port.type
        sizes = array.shape[-kind.rank + 1 :] if kind.rank > 1 else ()
        pairs = zip(kind.shape[1:], sizes, strict=False)
        if any(isinstance(n, int) and n != m for n, m in pairs):
            raise self._refused(
                f"'{port.name}' of entry '{entry.name}' like {kind}; got "
                f"{list(array.shape)}",
                f"an array '{entry.name}/{port.name}' is for that entry alone, and "
                "--entry leaves out others",
            )

    def _refused_by(self, error: InputError) -> InputError:
        """Return an error of code `bad-data` with the message of another one."""
        return InputError("bad-data", error.message, where=self.where, hint=_HINT)

    def _refused(self, expected: str, hint: str | None = None) -> InputError:
        """Return an error of code `bad-data` at this file."""
        message = f"expected {expected}"
        return InputError("bad-data", message, where=self.where, hint=hint or _HINT)


def _batch(entry: Entry) -> int:
    """Return the number of samples for a call of an entry whose batch size is open."""
    most = [each.max for each in entry.symbols if each.max is not None]
    step = max((each.multiple_of for each in entry.symbols), default=1)
    return max(min([BATCH, *most]) // step, 1) * step


def entries_with(program: Program, data: Data) -> list[Entry]:
    """Return the entries whose inputs the data has.

    Raises:
        InputError: `bad-data`: there are none.
    """
    found = [each for each in program.entries if data.has(each)]
    if not found:
        rows = [f"{e.name}: {', '.join(data.missing(e))}" for e in program.entries]
        raise InputError(
            "bad-data",
            "expected arrays for all inputs of an entry; these are missing: "
            + "; ".join(rows),
            where=data.where,
            hint=f"it has {', '.join(data.arrays) or 'none'}; numpy.savez writes such "
            "a file, an array for each input with the samples along its first axis",
        )
    return found
