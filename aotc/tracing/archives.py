"""Files of arrays that weights come in: .safetensors, .npz and those of other formats.

A reader gives the arrays of a file by name, and what else it says. Those that know what
quantised tensors mean are above this module, and are provided to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from aotc.core.array_files import hint_for, open_arrays
from aotc.errors import InputError
from aotc.errors.system import raise_system_error, require_path
from aotc.tracing.source_locations import fail

Arrays = dict[str, Any]  # or nodes of trees, by dotted name
Reader = Callable[[Path], tuple[Arrays, Mapping[str, object]]]
FOLDER = "a folder"  # the suffix of one, among the readers


def load_arrays(file: Path) -> tuple[dict[str, object], Mapping[str, object]]:
    """Read weights from a file or folder; return a nested dict of arrays, and metadata.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    require_path(file)
    suffix = FOLDER if isdir(file) and FOLDER in _READERS else file.suffix
    if suffix not in _READERS:
        fail(
            "unknown-format",
            f"expected weights in {' or '.join(_READERS)}; got '{file.name}'",
            _CONVERSIONS.get(suffix, "safetensors.numpy.save_file(arrays, FILE)"),
        )
    if suffix != FOLDER and not isfile(file):
        fail(
            "no-such-file",
            f"there are no weights at '{file}'",
            "a relative path is looked up beside the file that calls Weights.load",
        )
    try:
        flat, metadata = _READERS[suffix](file)
    except InputError as error:
        if error.where is None or not Path(error.where).is_relative_to(file):
            raise
        # the model's line says more, and the message names the file
        fail(error.code, f"'{error.where}': {error.message}", error.hint)
    except Exception as error:  # whatever the reader finds wrong with the bytes
        raise_system_error(error, str(file))
        fail(
            "bad-file",
            f"'{file}' cannot be read as {suffix}: {error}",
            hint_for(error, suffix),
        )
    return nested_dict(flat), metadata


def provide_readers(readers: Mapping[str, Reader]) -> None:
    """Register functions that read weights, by the suffix of their files."""
    _READERS.update(readers)


def read_arrays(file: Path) -> tuple[Arrays, Mapping[str, object]]:
    """Read a .safetensors or .npz file; return its arrays by name, and its metadata.

    Raises:
        InputError: see `aotc.core.array_files`.
    """
    found = open_arrays(file, "weights")
    return {**found}, found.metadata


_READERS: dict[str, Reader] = {".safetensors": read_arrays, ".npz": read_arrays}


# what makes a file that is read of one that is not, by suffix
_PICKLES = "safetensors.torch.save_file(torch.load(FILE), 'weights.safetensors')"
_CONVERSIONS = dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), _PICKLES) | {
    ".npy": "numpy.savez('weights.npz', name=numpy.load(FILE))",
}


def nested_dict(flat: Mapping[str, object]) -> dict[str, object]:
    """Return a nested dict for dotted names: `{"a.b": x}` becomes `{"a": {"b": x}}`."""
    tree: dict[str, object] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node: object = tree
        for parent in parents:
            if not isinstance(node, dict):
                break
            node = node.setdefault(parent, {})
        if not isinstance(node, dict) or last in node:
            fail(
                "bad-file",
                f"array '{name}' would lie inside of another array",
                "dots in names separate levels: rename one of the two",
            )
        node[last] = value
    return tree
