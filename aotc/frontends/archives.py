"""Files of arrays that weights come in: .safetensors and .npz."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aotc.frontends.places import fail


def load_arrays(file: Path) -> dict[str, Any]:
    """The nested dict of arrays in a .safetensors or .npz file.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    if file.suffix not in _READERS:
        fail(
            "unknown-format",
            f"expected weights in {' or '.join(_READERS)}; got '{file.name}'",
        )
    if not file.is_file():
        fail("no-such-file", f"there are no weights at '{file}'")
    try:
        flat = _READERS[file.suffix](file)
    except Exception as error:  # whatever the reader finds wrong with the bytes
        fail("bad-file", f"'{file}' cannot be read as {file.suffix}: {error}")
    return nested(flat)


def _read_safetensors(file: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return dict(load_file(file))


def _read_npz(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as archive:
        return dict(archive)


_READERS = {".safetensors": _read_safetensors, ".npz": _read_npz}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
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
