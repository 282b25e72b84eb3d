"""Files of named arrays, `.npz` and `.safetensors`: one reader, one set of errors.

Arrays are views of the mapped file, but for those that are compressed in it; each is
read, and its checksum compared, when it is asked for.

| code | when |
|---|---|
| `no-such-file` | there is no file |
| `unknown-format` | its name ends otherwise |
| `bad-file` | it is damaged, or holds something else, such as pickles |
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.json_values import JsonObject
from aotc.errors import AotcError, InputError
from aotc.errors.system import raise_system_error, require_path

Array = np.ndarray

_RELATIVE = "check the path; a relative one begins at the current folder"


class ArrayFile(Mapping[str, Array]):
    """A mapping from names to the arrays of a file, each read on access.

    Args:
        readers: what reads each array.
        where: the file, for errors.
        kind: what it is, for errors.
        metadata: what it says besides.
    """

    def __init__(
        self,
        readers: Mapping[str, Callable[[], Array]],
        where: str,
        kind: str,
        metadata: JsonObject | None = None,
    ) -> None:
        self._readers = readers
        self._where, self._kind = where, kind
        self.metadata = dict(metadata or {})

    def __getitem__(self, name: str) -> Array:
        read = self._readers[name]
        with file_errors(self._where, self._kind):
            return read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def copy(self, name: str) -> Array:
        """Return an array that is writeable: a copy of a view of the file."""
        array = self[name]
        return array if array.flags.writeable else array.copy()


def open_arrays(path: Path, content: str = "arrays") -> ArrayFile:
    """Open an `.npz` or `.safetensors` file as a mapping of arrays.

    Args:
        path: of an `.npz` or `.safetensors` file.
        content: what errors call its content.

    Raises:
        InputError: `no-such-file`, `unknown-format`, `bad-file`.
        SetupError: the machine does not let it be read.
    """
    require_path(path)
    if path.suffix not in _READERS:
        raise InputError(
            "unknown-format",
            f"expected {content} in {' or '.join(_READERS)}; got '{path.name}'",
            where=str(path),
            hint="numpy.savez(FILE, name=array) writes such a file",
        )
    if not path.is_file():
        raise InputError(
            "no-such-file",
            f"expected a file of {content}; there is none",
            where=str(path),
            hint=_RELATIVE,
        )
    return _READERS[path.suffix](path)


def read_npy(source: str | io.BytesIO, where: str) -> Array | ArrayFile:
    """Return the array of an `.npy` file, or the arrays of an `.npz` file, by its
    content.

    Args:
        source: the path, or what was read of a pipe.
        where: the name that errors have for it.

    Raises:
        InputError: `no-such-file`, `bad-file`.
        SetupError: the machine does not let it be read.
    """
    with file_errors(where, "NumPy"):
        content = np.load(source, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            return np.asarray(content)
        return _npz(content, source, where)


def _read_npz(path: Path) -> ArrayFile:
    """Open an `.npz` file; refuse an `.npy` file of that suffix."""
    found = read_npy(str(path), str(path))
    if not isinstance(found, ArrayFile):
        raise InputError(
            "bad-file",
            "expected named arrays in a .npz file; it holds one without a name",
            where=str(path),
            hint="numpy.savez(FILE, x=array) writes one",
        )
    return found


def read_safetensors(path: Path) -> ArrayFile:
    """Open a `.safetensors` file as a mapping of arrays, after its package has checked
    the header.

    Raises:
        InputError: `bad-file`.
        SetupError: the machine does not let it be read.
    """
    from safetensors import safe_open

    with file_errors(str(path), ".safetensors"):
        with safe_open(path, framework="numpy") as archive:
            names = list(archive.keys())  # in an order that each process has
        with path.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        data = np.asarray(np.memmap(path, np.uint8, "r"))[8 + length :]
    readers = {name: _tensor_reader(data, header[name]) for name in names}
    metadata = header.get("__metadata__", {})
    return ArrayFile(readers, str(path), ".safetensors", metadata)


def _tensor_reader(data: Array, entry: JsonObject) -> Callable[[], Array]:
    """Return a function that returns a tensor as a view of the file."""

    def view() -> Array:
        start, end = entry["data_offsets"]
        dtype = dtypes.to_numpy(_SAFETENSORS[entry["dtype"]])
        found: Array = data[start:end].view(dtype).reshape(entry["shape"])
        return found

    return view


# what the format calls the dtypes that aotc has
_SAFETENSORS = {name.upper(): name for name in dtypes.NAMES}

_READERS = {".npz": _read_npz, ".safetensors": read_safetensors}
_NUMPY_WRITER = "numpy.savez(FILE, name=array)"
_WRITERS = {
    "NumPy": _NUMPY_WRITER,
    ".npz": _NUMPY_WRITER,
    ".safetensors": "safetensors.numpy.save_file({name: array}, FILE)",
}


@contextmanager
def file_errors(where: str, kind: str) -> Iterator[None]:
    """Turn errors of the `with` block in reading a file into `bad-file` or a system
    error.
    """
    try:
        yield
    except AotcError:
        raise
    except FileNotFoundError:
        raise InputError(
            "no-such-file", "there is no such file", where=where, hint=_RELATIVE
        ) from None
    except Exception as error:  # whatever the reader finds wrong with the bytes
        raise_system_error(error, where)
        said = str(error) or type(error).__name__
        if "allow_pickle" in said:  # of objects, and of what is no such file at all
            said = "it holds pickled objects, or something else"
        message = f"expected a {kind} file of arrays: {said}"
        raise InputError(
            "bad-file", message, where=where, hint=hint_for(error, kind)
        ) from error


def hint_for(error: Exception, kind: str) -> str:
    """Return a hint on what to do about a file of arrays that its reader refuses.

    Args:
        error: of the reader.
        kind: what the file is; a suffix, or "NumPy".
    """
    if "pickle" in str(error):  # so NumPy says, too, of what it does not know at all
        return (
            "it holds Python objects, or is no file of NumPy: numpy.savez(FILE, "
            "name=array) writes arrays of numbers"
        )
    copied = (
        "it may be cut short or altered: compare its size or checksum, copy it again"
    )
    writer = _WRITERS.get(kind)
    return f"{copied}; {writer} writes such a file" if writer else copied


# ---- the members of a zip archive ---------------------------------------------------


def _npz(
    loaded: np.lib.npyio.NpzFile, source: str | io.BytesIO, where: str
) -> ArrayFile:
    """Return an archive's arrays as a mapping: views of the file, except compressed
    ones.
    """
    whole = None
    if isinstance(source, str):
        whole = np.asarray(np.memmap(source, np.uint8, "r"))
    assert loaded.zip is not None  # as long as it is open
    members = {x.filename.removesuffix(".npy"): x for x in loaded.zip.infolist()}

    def reader(name: str) -> Callable[[], Array]:
        def read() -> Array:
            view = None if whole is None else _member_view(whole, members[name])
            return np.asarray(loaded[name]) if view is None else view

        return read

    return ArrayFile({name: reader(name) for name in loaded.files}, where, ".npz")


def _member_view(archive: Array, member: zipfile.ZipInfo) -> Array | None:
    """Return an uncompressed array of an .npz file as a view; None for other members.

    Raises:
        ValueError: its bytes are not those that were written.
    """
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    data = _bytes_of(archive, member)
    stream = io.BytesIO(data[:_NPY_HEADER].tobytes())
    try:
        version = np.lib.format.read_magic(stream)
        read = _NPY_HEADERS[version]
        shape, is_fortran, dtype = read(stream)
    except (KeyError, ValueError):
        return None  # as NumPy reads it, or says that it cannot
    count = math.prod(shape)
    if dtype.hasobject or not count:
        return None
    _require_checksum(data, member)
    array: Array = data[stream.tell() :].view(dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")


def stored_bytes(archive: Array, member: zipfile.ZipInfo) -> Array:
    """Return the bytes of an uncompressed member of a zip archive, as a view; check
    them.

    Args:
        archive: the bytes of the archive, of which they are a view.
        member: the file.

    Raises:
        ValueError: they are not those that were written.
    """
    data = _bytes_of(archive, member)
    _require_checksum(data, member)
    return data


def _bytes_of(archive: Array, member: zipfile.ZipInfo) -> Array:
    """Return the bytes of a zip archive's member as it is stored."""
    # a local header, of which bytes 26 to 30 say how long the name and the rest are
    start = member.header_offset
    lengths = archive[start + 26 : start + 30].view("<u2")
    start += 30 + int(lengths.sum())
    return archive[start : start + member.file_size]


def _require_checksum(data: Array, member: zipfile.ZipInfo) -> None:
    """Refuse bytes of a member whose length or checksum is wrong."""
    if len(data) != member.file_size or zlib.crc32(data.data) != member.CRC:
        raise ValueError(f"the checksum of '{member.filename}' is wrong")


_NPY_HEADER = 1 << 14  # bytes that hold the header of an array, if it is a plain one
_NPY_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
