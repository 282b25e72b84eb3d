"""Tensors of an ONNX file as NumPy arrays: views of mapped files where they can be."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aotc.core import dtypes
from aotc.importers.onnx.elements import Element, element
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    import onnx

DataArray = np.ndarray
Content = bytes | mmap.mmap  # of a file
_EXTERNAL = 1  # TensorProto.EXTERNAL


class OnnxFiles:
    """The memory-mapped files that hold a model's tensor data.

    Args:
        path: of the model's file, or None if it is in memory only.
        own: the content of that file.
    """

    def __init__(self, path: Path | None, own: Content) -> None:
        self._folder = None if path is None else path.resolve().parent
        self._own = own
        self._mapped: dict[str, Content] = {}

    def part(self, location: str | None, offset: int, length: int | None) -> DataArray:
        """Return bytes of the model's file, or of the external file at `location`.

        Raises:
            InputError: the location leads out of the model's folder, there is no such
                file, or it is shorter.
        """
        data = self._own if location is None else self._external_data(location)
        end = len(data) if length is None else offset + length
        if not 0 <= offset <= end <= len(data):
            fail(
                "truncated-data",
                f"expected bytes {offset} to {end} of '{location}'; it has {len(data)}",
            )
        return np.frombuffer(data, np.uint8, end - offset, offset)

    def _external_data(self, location: str) -> Content:
        """Return the mapped external file at a location, mapped once."""
        if location not in self._mapped:
            self._mapped[location] = map_file(self._external_path(location))
        return self._mapped[location]

    def _external_path(self, location: str) -> Path:
        """Return the path of an external data file; refuse one outside the model's
        folder.
        """
        if self._folder is None:
            fail("missing-data", f"the data in '{location}' needs the model's file")
        if "\0" in location:
            fail("missing-data", f"no file can be called {location!r}")
        path = (self._folder / location).resolve()
        if not location or not path.is_relative_to(self._folder):
            fail(
                "unsafe-path",
                f"external data at '{location}' is outside of the model's folder",
                "copy the file beside the model, and name it relative to the model",
            )
        if not path.is_file():
            fail(
                "missing-data",
                f"the file '{location}' with the tensor's data is not there",
                "put it beside the model, where it was when the model was saved",
            )
        return path


def map_file(path: Path) -> Content:
    """Map a file into memory, and return its content."""
    with path.open("rb") as file:
        empty = not path.stat().st_size  # which cannot be mapped
        return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def data_of(
    tensor: onnx.TensorProto, files: OnnxFiles
) -> tuple[DataArray, tuple[int, ...] | None]:
    """Return a TensorProto's elements as a (mapped) array, and their shape if packed.

    Those of less than a byte stay packed: their bytes, and the shape of the tensor.

    Raises:
        InputError: of a type that aotc has no arrays of, or the data is not there.
    """
    kind, shape = element(tensor.data_type), tuple(tensor.dims)
    data = _raw_data(tensor, files)
    if data is None:
        return _typed_data(tensor, kind).reshape(shape), None
    expected = -(-math.prod(shape) * kind.bits // 8)
    if data.size != expected:
        fail(
            "truncated-data",
            f"expected {expected} bytes of data for {kind.name}{list(shape)}; "
            f"got {data.size}",
        )
    if kind.bits < 8:
        return data, shape
    stored = np.dtype(np.uint8) if kind.narrow else dtypes.to_numpy(kind.dtype)
    return data.view(stored).reshape(shape), None


def _raw_data(tensor: onnx.TensorProto, files: OnnxFiles) -> DataArray | None:
    """Return the raw bytes of a tensor; None if it stores typed values."""
    if tensor.data_location == _EXTERNAL or tensor.external_data:
        facts = {entry.key: entry.value for entry in tensor.external_data}
        own = tensor.data_location != _EXTERNAL
        location = None if own else facts.get("location", "")
        length = facts.get("length")
        return files.part(
            location,
            _number(facts.get("offset", "0")),
            None if length is None else _number(length),
        )
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    return None


def _number(text: str) -> int:
    """Return a decimal text as an integer; refuse any other text."""
    if not text.isdecimal():
        fail("bad-tensor", f"expected a number of bytes; got {text!r}")
    return int(text)


def _typed_data(tensor: onnx.TensorProto, kind: Element) -> DataArray:
    """Return the elements of a tensor that stores typed values."""
    from onnx import numpy_helper

    found: DataArray = numpy_helper.to_array(tensor)
    if kind.narrow is None:
        return found
    if kind.is_narrow_float:
        return found.view(np.uint8)
    return found.astype(dtypes.to_numpy(kind.dtype))
