"""An .onnx file → `OnnxModel`: read, and refused where it is none.

Note [onnx-ir]: the package `onnx-ir` (measured: 1.1.0) reads such files too, and does
not take the place of this module and those that it imports. It parses the message as a
whole, so that a file of 200 MiB with its data inside takes 400 MiB, of which nothing is
kept here; maps a file of external data once for each tensor; unpacks integers of four
bits into bytes; leaves sparse initialisers out without a word; refuses data in files
that have several hard links, as caches do; and does not compare the length of external
data with the shape. Its graphs would be read into those of `graph.py` all the same, as
nodes here know their places, and it requires `onnx`, `ml_dtypes` and `sympy`.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aotc.core.installation import install_command
from aotc.errors import InputError, SetupError
from aotc.errors.system import raise_system_error
from aotc.importers.onnx.graph import OnnxModel, Reader
from aotc.importers.onnx.protobuf import skeleton
from aotc.importers.onnx.tensors import OnnxFiles, map_file

if TYPE_CHECKING:
    import onnx

OLDEST, NEWEST = 7, 28  # opset versions of ONNX's own operators


def require_onnx() -> ModuleType:
    """Import and return the package `onnx`; raise SetupError if it is not installed.

    Raises:
        SetupError: it is not installed.
    """
    try:
        return importlib.import_module("onnx")
    except ModuleNotFoundError:
        raise SetupError(
            "missing-extra",
            "importing .onnx files needs the 'onnx' package, which is not installed",
            hint=install_command("onnx"),
        ) from None


def read(path: Path) -> OnnxModel:
    """Read an .onnx file; its large tensors stay views of the mapped file.

    Raises:
        InputError: there is no such file, it is damaged, of a version that aotc does
            not know, or data that it refers to is not there.
    """
    onnx = require_onnx()
    if not os.path.isfile(path):
        raise InputError("no-such-file", f"there is no file '{path}'")
    data = map_file(path)
    try:
        proto = onnx.ModelProto.FromString(skeleton(data))
    except InputError as error:
        error.where = path.name
        raise
    except Exception as error:  # protobuf's DecodeError, without importing protobuf
        raise_system_error(error, path.name)
        raise _corrupt(path.name, str(error)) from error
    return model_of(proto, path.name, OnnxFiles(path, data))


def model_of(proto: onnx.ModelProto, file: str, files: OnnxFiles) -> OnnxModel:
    """Return the model in a ModelProto; refuse unsupported versions."""
    if not proto.HasField("graph") or not proto.graph.output:
        raise _corrupt(file, "it has no graph with outputs")
    if not _is_text(proto):
        raise _corrupt(file, "it has names that are no text")
    model = Reader(file, files).model(proto)
    opset = model.opsets.get("")
    if opset is not None and not OLDEST <= opset <= NEWEST:
        raise InputError(
            "wrong-opset",
            f"expected opset {OLDEST} to {NEWEST}; '{file}' has {opset}",
            where=file,
            hint="convert it with onnx.version_converter, or export it again",
        )
    return model


def _is_text(message: Any) -> bool:
    """Return whether all strings in a message are text; protobuf leaves others as
    bytes.
    """
    for field, value in message.ListFields():
        values = [value] if isinstance(value, (str, bytes)) else value
        if field.type == field.TYPE_STRING:
            if any(isinstance(each, bytes) for each in values):
                return False
        elif field.type == field.TYPE_MESSAGE:
            parts = [value] if hasattr(value, "ListFields") else value
            if not all(map(_is_text, parts)):
                return False
    return True


def _corrupt(file: str, why: str) -> InputError:
    """Return an error of code `bad-file`."""
    return InputError(
        "bad-file",
        f"expected an ONNX model; '{file}' is damaged or something else: {why}",
        where=file,
    )
