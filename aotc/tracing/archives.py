"""Files of arrays that weights come in: .safetensors, .npz and those of other formats.

A reader gives the arrays of a file by name, and what else it says. Those that know what
quantised tensors mean are above this module, and are provided to it.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.errors import InputError
from aotc.system_errors import raise_system_error, require_path
from aotc.tracing.source_locations import fail

Arrays = dict[str, Any]  # by dotted name
Reader = Callable[[Path], tuple[Arrays, Mapping[str, Any]]]
FOLDER = "a folder"  # the suffix of one, among the readers


def load_arrays(file: Path) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The nested dict of arrays in a file or folder, and its metadata by name.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    flat, metadata = _read(file)
    return nested_dict(flat), metadata


def flat_arrays(file: Path) -> Arrays:
    """The arrays in a file or folder, by the names that they have there.

    Raises:
        InputError: see `load_arrays`.
    """
    return _read(file)[0]


def _read(file: Path) -> tuple[Arrays, Mapping[str, Any]]:
    require_path(file)
    suffix = FOLDER if isdir(file) and FOLDER in _READERS else file.suffix
    if suffix not in _READERS:
        fail(
            "unknown-format",
            f"expected weights in {' or '.join(_READERS)}; got '{file.name}'",
        )
    if suffix != FOLDER and not isfile(file):
        fail("no-such-file", f"there are no weights at '{file}'")
    try:
        return _READERS[suffix](file)
    except InputError:
        raise
    except Exception as error:  # whatever the reader finds wrong with the bytes
        raise_system_error(error, str(file))
        fail("bad-file", f"'{file}' cannot be read as {suffix}: {error}")


def provide_readers(readers: Mapping[str, Reader]) -> None:
    """Say what reads files of these suffixes, in the place of what did."""
    _READERS.update(readers)


def read_safetensors(file: Path) -> tuple[Arrays, Mapping[str, Any]]:
    """Views of the mapped file; the package checks its header."""
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as archive:
        names = list(archive.keys())  # in an order that each process has
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    data = np.asarray(np.memmap(file, np.uint8, "r"))[8 + length :]
    arrays = {name: _view(data, header[name]) for name in names}
    return arrays, header.get("__metadata__", {})


def _view(data: Any, entry: Mapping[str, Any]) -> Any:
    start, end = entry["data_offsets"]
    dtype = dtypes.to_numpy(_SAFETENSORS[entry["dtype"]])
    return data[start:end].view(dtype).reshape(entry["shape"])


def _read_npz(file: Path) -> tuple[Arrays, Mapping[str, Any]]:
    """Views of the mapped file, but for what is compressed in it."""
    with np.load(file, allow_pickle=False) as loaded:
        whole = np.asarray(np.memmap(file, np.uint8, "r"))
        members = loaded.zip.infolist()
        rows = {each.filename.removesuffix(".npy"): each for each in members}
        found = {name: _member_view(whole, rows[name]) for name in loaded.files}
        arrays = {k: loaded[k] if x is None else x for k, x in found.items()}
        return arrays, {}


def _member_view(whole: Any, member: zipfile.ZipInfo) -> Any:
    """An array that is stored in a .npz file; None if it is compressed, or none.

    Raises:
        ValueError: its bytes are not those that were written.
    """
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    data = _bytes_of(whole, member)
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
    _check(data, member)
    array = data[stream.tell() :].view(dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")


def stored_bytes(whole: Any, member: zipfile.ZipInfo) -> Any:
    """Return the bytes of a file that a zip archive has not compressed.

    Args:
        whole: the bytes of the archive, of which they are a view.
        member: the file.

    Raises:
        ValueError: they are not those that were written.
    """
    data = _bytes_of(whole, member)
    _check(data, member)
    return data


def _bytes_of(whole: Any, member: zipfile.ZipInfo) -> Any:
    # a local header, of which bytes 26 to 30 say how long the name and the rest are
    start = member.header_offset
    lengths = whole[start + 26 : start + 30].view("<u2")
    start += 30 + int(lengths.sum())
    return whole[start : start + member.file_size]


def _check(data: Any, member: zipfile.ZipInfo) -> None:
    if len(data) != member.file_size or zlib.crc32(data.data) != member.CRC:
        raise ValueError(f"the checksum of '{member.filename}' is wrong")


_NPY_HEADER = 1 << 14  # bytes that hold the header of an array, if it is a plain one
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

# what the format calls the dtypes that aotc has
_SAFETENSORS = {name.upper(): name for name in dtypes.NAMES}

_READERS: dict[str, Reader] = {".safetensors": read_safetensors, ".npz": _read_npz}


def nested_dict(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"conv.kernel": a}` → `{"conv": {"kernel": a}}`."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                break
        if not isinstance(node, dict) or last in node:
            fail("bad-file", f"array '{name}' would lie inside of another array")
        node[last] = value
    return tree
