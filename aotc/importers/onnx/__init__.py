"""The ONNX frontend: .onnx files → graph dialect, by running their nodes.

The nodes of a file are walked in their order, and each calls the function that its
operator is imported by (`aotc.importers.onnx.ops`), on traced arrays. Initialisers
become weights that stay in the file until they are packed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from aotc.errors import InputError
from aotc.importers.common.imported import Imported
from aotc.importers.onnx.network import network_of
from aotc.importers.onnx.reading import read
from aotc.programs.program import Program
from aotc.tracing.dims import Dim

__all__ = ["from_onnx", "load"]

ENTRY = "main"


def from_onnx(
    path: str | Path, dims: Mapping[str, int | Dim] | None = None
) -> Imported:
    """Return the network in an .onnx file, as an entry function.

    Args:
        path: the file; data that it refers to is beside it.
        dims: for sizes that the file leaves open, by the names that it gives them: a
            number, or a Dim with a contract. Others may be anything from 1 on.

    Returns:
        An entry of weights and inputs. Names of the file become Python names.

    Raises:
        InputError: the file is damaged, of a version that aotc does not know, has
            operators that aotc does not import, or refers to data that is not there.
        SetupError: the package `onnx` is not installed.
    """
    return network_of(read(Path(path)), dims or {}, Path(path))


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Return a program of an .onnx file, with the network as entry `main`."""
    for name in entries:
        if name != ENTRY:
            raise InputError(
                "unknown-entry", f"'{path}' has no entry '{name}'; it has {ENTRY}"
            )
    program = from_onnx(path).program(ENTRY)
    program.source = {
        "kind": "onnx",
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    return program
