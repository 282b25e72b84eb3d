"""Arrays on the command line: `--input name=value` in, an `.npz` file or text out."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.core import dtypes
from aotc.core.array_files import ArrayFile, file_errors, read_npy
from aotc.core.json_values import json_value, python_numbers
from aotc.core.writing import atomic_write, is_stream
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import Leaf

Array = np.ndarray


def read_inputs(texts: Sequence[str], leaves: Sequence[Leaf]) -> list[Array]:
    """Parse an array for each entry input in `leaves` from texts such as ``x=@x.npy``
    or ``n=3``.

    Raises:
        InputError: an input is unknown, missing, given twice or unreadable.
    """
    found = read_some_inputs(texts, leaves)
    missing = [leaf.name for leaf in leaves if leaf.name not in found]
    if missing:
        raise InputError(
            "missing-input",
            f"no value for the input {', '.join(missing)}",
            hint=" ".join(f"--input {name}=@{name}.npy" for name in missing),
        )
    return [found[leaf.name] for leaf in leaves]


def read_some_inputs(texts: Sequence[str], leaves: Sequence[Leaf]) -> dict[str, Array]:
    """Parse ``NAME=VALUE`` texts; return an array for each input that they name.

    Raises:
        InputError: an input is unknown, given twice or unreadable.
    """
    known = {leaf.name: leaf for leaf in leaves}
    found: dict[str, Array] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(
                "bad-input",
                f"expected NAME=VALUE, got {text!r}",
                hint="for example --input x=@x.npy or --input n=3",
            )
        if name not in known:
            raise _unknown(name, known)
        if name in found:
            raise InputError("repeated-input", f"the input {name!r} is given twice")
        found[name] = _read(value, known[name])
    return found


def _unknown(name: str, known: Mapping[str, Leaf]) -> InputError:
    """Return the error for an input name that the entry does not have."""
    inputs = ", ".join(f"{leaf.name}: {leaf}" for leaf in known.values())
    return InputError(
        "unknown-input",
        f"the entry has no input {name!r}",
        hint=f"inputs: {inputs or 'none'}",
    )


def _read(value: str, leaf: Leaf) -> Array:
    """Parse the value of one input: ``@FILE`` or a JSON literal, in the input's
    dtype.
    """
    if value.startswith("@"):
        return dtypes.restore(load_array(value[1:]), leaf.dtype)
    return _literal(value, leaf)


def load_array(source: str) -> Array:
    """Load an array from ``file.npy`` or ``file.npz:key``; refuse pickles.

    ``-`` is standard input (``-:key`` of an ``.npz``). A pipe is read to its end, as
    NumPy reads regular files alone.
    """
    path, npz, key = source.partition(".npz:")
    path += ".npz" if npz else ""
    if source.startswith("-:"):
        path, key = "-", source[2:]
    with file_errors(path, "NumPy"):
        readable = _readable(path)
    found = read_npy(readable, path)
    if isinstance(found, ArrayFile):
        return found.copy(_key([*found], key, path))
    return found


def _readable(path: str) -> str | io.BytesIO:
    """Return what NumPy can read: the path of a regular file, or a pipe's content in
    memory.
    """
    if path == "-":
        return io.BytesIO(_standard_input())
    if stat.S_ISFIFO(os.stat(path).st_mode) or is_stream(Path(path)):
        with open(path, "rb") as pipe:
            return io.BytesIO(pipe.read())
    return path


def _standard_input() -> bytes:
    """Read standard input to its end; raise if it is a terminal or empty."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "bad-input",
            "expected a NumPy file on standard input, got "
            + ("none" if sys.stdin is None else "a terminal"),
            hint="@- reads what another program writes: … | aotc run … --input x=@-",
        )
    content = sys.stdin.buffer.read()
    if not content:
        raise InputError(
            "bad-input",
            "expected a NumPy file on standard input, got nothing; it is read once",
            hint="give one input by @-, and others by files",
        )
    return content


def _key(keys: Sequence[str], key: str, path: str) -> str:
    """Return the name of the array to load from an ``.npz``; `key` may be empty for its
    only one.
    """
    if not key and len(keys) == 1:
        return keys[0]
    if key in keys:
        return key
    raise InputError(
        "bad-file",
        f"expected the name of one of its arrays, got {key!r}",
        where=path,
        hint=f"@{path}:NAME with NAME one of {', '.join(keys)}",
    )


def _literal(text: str, leaf: Leaf) -> Array:
    """Parse a JSON number or nested list as an array, exactly in the input's dtype."""
    try:
        return array_of(json.loads(text), leaf)
    except ValueError as error:
        raise InputError(
            "bad-input",
            f"expected {leaf} as JSON for {leaf.name!r}: {error}",
            hint=f"for an array from a file write {leaf.name}=@FILE.npy",
        ) from None


def array_of(value: object, leaf: Leaf) -> Array:
    """Convert parsed JSON, a number or nested list, to an array, exactly in the leaf's
    dtype.

    Floats that JSON has no numbers for may be the strings "nan", "inf" and "-inf", as
    which answers have them.

    Raises:
        ValueError: it is something else.
    """
    wanted = dtypes.to_numpy(leaf.dtype)
    try:
        plain = np.array(
            _with_nonfinite(value) if _kind(leaf.dtype) == "float" else value
        )
        if plain.dtype.kind not in _LITERAL_KINDS[_kind(leaf.dtype)]:
            raise ValueError(
                f"a value of type {plain.dtype} cannot become {leaf.dtype}"
            )
        array = plain.astype(wanted)
        if _kind(leaf.dtype) == "int" and not np.array_equal(array, plain):
            raise ValueError(f"a value is out of range for {leaf.dtype}")
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return array


def _with_nonfinite(value: object) -> object:
    """Replace the strings "nan", "inf" and "-inf" in nested lists by floats."""
    if isinstance(value, list):
        return [_with_nonfinite(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


# kind of the input's dtype → NumPy kinds of literals that it takes
_LITERAL_KINDS = {"bool": "b", "int": "iu", "float": "iuf"}


def _kind(dtype: str) -> str:
    """Return the kind of a dtype: "bool", "int" or "float"."""
    if dtype == "bool":
        return "bool"
    return "float" if dtypes.is_float(dtype) else "int"


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write `arrays` as an `.npz` file that appears complete or not at all."""
    with atomic_write(path) as aside, zipfile.ZipFile(aside, "x") as archive:
        # Not np.savez: an array called `file` would clash with its parameter, and the
        # dates in its archive make equal content differ.
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def render(arrays: Mapping[str, Array], leaves: Sequence[Leaf]) -> str:
    """Format arrays as text for people: dtype, shape, and values (corners of large
    arrays).
    """
    return "\n".join(
        f"{leaf.name}: {leaf.dtype}{list(arrays[leaf.name].shape)}\n"
        + np.array2string(arrays[leaf.name], threshold=64, prefix="")
        for leaf in leaves
    )


def to_json(
    arrays: Mapping[str, Array], leaves: Sequence[Leaf]
) -> list[dict[str, Any]]:
    """Return arrays as JSON objects: name, dtype, shape and values."""
    return [
        {
            "name": leaf.name,
            "dtype": leaf.dtype,
            "shape": list(arrays[leaf.name].shape),
            "values": json_value(python_numbers(arrays[leaf.name])),
        }
        for leaf in leaves
    ]
