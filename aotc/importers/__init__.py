"""Importers: files and models of other frameworks → a `Program` of graph functions.

Each importer is a module with `load(path, entries) -> Program`, named in `IMPORTERS` by
the suffix of the files it takes, and imported on use. IR that a build has dumped is a
program as it is.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import aotc.numpy  # noqa: F401 - which says what operators of arrays do
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.programs.program import Program

# suffix → module with load(path, entries)
IMPORTERS = {
    ".py": "aotc.importers.python",
    ".onnx": "aotc.importers.onnx",
    ".pt2": "aotc.importers.torch",
    ".mlir": "aotc.importers.stablehlo",
    ".mlirbc": "aotc.importers.stablehlo",
    ".jax": "aotc.importers.stablehlo",
}

# suffixes of files that people try → what to do with such a file
_INSTEAD = {
    **dict.fromkeys(
        (".tflite", ".pb", ".h5", ".keras"),
        "TensorFlow's formats are not imported yet; convert it to ONNX first",
    ),
    **dict.fromkeys(
        (".pt", ".pth", ".bin", ".ckpt"),
        "it holds no graph: torch.export.save writes a .pt2 file, which does",
    ),
    **dict.fromkeys(
        (".safetensors", ".npz", ".gguf"),
        "it holds weights only: aotc.Weights.load takes it in a model.py",
    ),
    ".aotc": "this is a bundle, the result of a build",
}


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Return the program that the importer for the file's suffix makes of a model.

    Raises:
        InputError: there is no such file, or no importer for it.
    """
    require_known(path)
    # on use: this package is imported before the modules in it that these need
    from aotc.dialects.limits import graph_ops
    from aotc.programs.files import holds_program, read_program
    from aotc.tracing.survey import survey_imports

    if path.suffix == ".mlir" and holds_program(path):
        return read_program(path, entries)
    with survey_imports() as survey:
        program: Program = import_module(IMPORTERS[path.suffix]).load(path, entries)
    coverage = survey.coverage(len(graph_ops(program.module)))
    program.source = {**program.source, "coverage": coverage}
    return program


def require_known(path: Path) -> None:
    """Refuse a path that is no file, or whose format no importer reads.

    Raises:
        InputError: see above.
    """
    if os.path.isdir(path) and (path / "saved_model.pb").exists():
        raise _unknown(path, _INSTEAD[".pb"])
    if os.path.isdir(path) and path.suffix in _INSTEAD:
        raise _unknown(path, _INSTEAD[path.suffix])
    if not os.path.isfile(path):  # which takes any text for a path
        there = "it is a directory" if os.path.isdir(path) else "there is no such file"
        raise InputError(
            "no-such-file",
            f"expected a model at '{path}'; {there}",
            hint=f"give the path of a model: a file with {', '.join(IMPORTERS)}",
        )
    if path.suffix not in IMPORTERS:
        known = f"known suffixes: {', '.join(IMPORTERS)}"
        raise _unknown(path, _INSTEAD.get(path.suffix, known))


def _unknown(path: Path, hint: str) -> InputError:
    """Return an error of code `unknown-format`."""
    return InputError(
        "unknown-format",
        f"no frontend imports '{path.suffix or path.name}' files",
        hint=hint,
    )
