"""GGUF, the format of llama.cpp: tensors in ggml's types, and metadata.

`read_gguf` gives views of mapped files; what is quantised is unpacked when it is
written. A model may lie in several files, `…-00001-of-00003.gguf`.

Source: `docs/gguf.md` in ggml-org/ggml, versions 2 and 3 of the format. All numbers
are little-endian; a text is its length in a u64 and UTF-8. The tensors' data begin at
the next multiple of `general.alignment` (32) after what describes them, and sizes are
listed from the fastest axis to the slowest.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc.nn.quantized_weights import QuantizedWeights
from aotc.programs.computed_arrays import StoredArray
from aotc.tracing.source_locations import fail
from aotc.weight_formats.ggml_types import TYPES, type_name
from aotc.weight_formats.tensors import Tensors

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_MOST_AXES = 4
_ALIGNMENT = "general.alignment"
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)

# of a value in the metadata, by number: how NumPy calls it
_NUMBERS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_TEXT, _ARRAY = 8, 9
_MOST_NESTED = 8  # arrays in arrays


def read_gguf(file: Path) -> tuple[Tensors, Mapping[str, object]]:
    """Return the tensors of a GGUF model by name, and its metadata.

    Raises:
        InputError: a part is missing, or a tensor has a type that aotc does not read.
        ValueError: a file is damaged.
    """
    parts = [_GgufFile.of(each) for each in _files_of_model(file)]
    refused = Counter(
        type_name(tensor.type)
        for part in parts
        for tensor in part.tensors
        if tensor.type not in TYPES
    )
    if refused:
        found = ", ".join(f"{name} ({count})" for name, count in refused.items())
        fail(
            "unsupported-type",
            f"'{file.name}' has tensors of types that aotc does not read: {found}; it "
            f"reads {', '.join(known.name for known in TYPES.values())}",
            "quantise the model to one of these, for instance `llama-quantize "
            "model-f16.gguf model.gguf Q4_K_M`",
        )
    arrays: Tensors = {}
    for part in parts:
        for tensor in part.tensors:
            if tensor.name in arrays:
                raise ValueError(f"two tensors are called '{tensor.name}'")
            arrays[tensor.name] = part.decode(tensor)
    _require_complete_split(parts, len(arrays))
    return arrays, parts[0].metadata


def _files_of_model(file: Path) -> list[Path]:
    """Return the paths of all files of the (possibly split) model that a file is one
    of.

    Raises:
        InputError: one is missing.
        ValueError: the file's own number is none of them.
    """
    split = _SPLIT.fullmatch(file.name)
    if split is None:
        return [file]
    stem, _, count = split.groups()
    names = [f"{stem}-{n:05}-of-{count}.gguf" for n in range(1, int(count) + 1)]
    if file.name not in names:
        raise ValueError(f"expected a part from 1 to {int(count)} by its name")
    missing = [name for name in names if not (file.parent / name).is_file()]
    if missing:
        fail(
            "missing-data",
            f"'{file.name}' is one of {int(count)} files; missing: "
            f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}",
            "put all of them into one folder, or join them: `llama-gguf-split --merge`",
        )
    return [file.parent / name for name in names]


def _require_complete_split(parts: list[_GgufFile], count: int) -> None:
    """Raise if the files' metadata disagree with the number of files or tensors read.

    Raises:
        ValueError: they are parts of another model.
    """
    for number, part in enumerate(parts):
        place = int(part.metadata.get("split.no", number))
        total = int(part.metadata.get("split.count", len(parts)) or 1)
        if (place, total) != (number, len(parts)):
            raise ValueError(
                f"'{part.name}' says that it is part {place + 1} of {total}; expected "
                f"part {number + 1} of {len(parts)}"
            )
    expected = int(parts[0].metadata.get("split.tensors.count", count))
    if count != expected:
        raise ValueError(f"expected {expected} tensors in all; got {count}")


# ---- one file -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Tensor:
    """The header entry of a tensor in a GGUF file.

    Args:
        name: of it.
        shape: sizes, the slowest axis first.
        type: ggml's number of it.
        offset: of its bytes among the data.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


@dataclass(frozen=True)
class _GgufFile:
    """A GGUF file: its metadata, its tensors' header entries, and the mapped data."""

    name: str
    metadata: dict[str, Any]
    tensors: list[_Tensor]
    data: np.ndarray

    @classmethod
    def of(cls, file: Path) -> _GgufFile:
        """Map a GGUF file into memory and parse its header."""
        mapped = np.asarray(np.memmap(file, np.uint8, "r"))
        cursor = _Cursor(mapped)
        _require_version(file, cursor)
        tensor_count, count = cursor.number("<u8"), cursor.number("<u8")
        metadata = dict(_unique(cursor.pairs(count), "keys"))
        tensors = [cursor.tensor() for _ in range(tensor_count)]
        alignment = metadata.get(_ALIGNMENT, 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"expected a positive {_ALIGNMENT}; got {alignment!r}")
        start = cursor.place + -cursor.place % alignment
        return cls(file.name, metadata, tensors, mapped[start:])

    def decode(self, tensor: _Tensor) -> StoredArray | QuantizedWeights:
        """Return a tensor, plain or quantised, over the mapped bytes of the file."""
        kind = TYPES[tensor.type]
        if (tensor.shape or (1,))[-1] % kind.block:
            raise ValueError(
                f"'{tensor.name}' has the shape {list(tensor.shape)}; rows of "
                f"{kind.name} are whole blocks of {kind.block}"
            )
        size = math.prod(tensor.shape) // kind.block * kind.itemsize
        found = self.data[tensor.offset : tensor.offset + size]
        if len(found) != size:
            raise ValueError(
                f"expected {size} bytes of '{tensor.name}' ({kind.name}"
                f"{list(tensor.shape)}); the file ends after {len(found)}"
            )
        return kind.decode(found, tensor.shape)


def _require_version(file: Path, cursor: _Cursor) -> None:
    """Read the magic number and version from the cursor; refuse those not supported."""
    magic = bytes(cursor.take(4))
    if magic != MAGIC:
        raise ValueError(f"expected a file that begins with {MAGIC!r}; got {magic!r}")
    version = cursor.number("<u4")
    if version and not version % (1 << 16):
        fail(
            "unsupported-format",
            f"'{file.name}' is written for big-endian machines",
            "convert it: `gguf-convert-endian model.gguf little` (pip install gguf)",
        )
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        fail(
            "unsupported-format",
            f"'{file.name}' has version {version} of GGUF; aotc reads {known}",
            "convert the model again with a newer llama.cpp"
            if version < min(VERSIONS)
            else "install a newer aotc",
        )


def _unique(
    pairs: Iterator[tuple[str, object]], what: str
) -> Iterator[tuple[str, object]]:
    """Yield the pairs; raise at a name that occurs twice."""
    seen = set[str]()
    for name, value in pairs:
        if name in seen:
            raise ValueError(f"two {what} are called '{name}'")
        seen.add(name)
        yield name, value


class _Cursor:
    """A reader of a GGUF header, which advances through the file's bytes.

    Args:
        data: the bytes of the file.
    """

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self.place = 0

    def take(self, count: int) -> np.ndarray:
        """Return the next `count` bytes, and advance past them.

        Raises:
            ValueError: there are not so many.
        """
        if count > len(self._data) - self.place:
            raise ValueError(
                f"expected {count} bytes at byte {self.place}; the file has "
                f"{len(self._data)}"
            )
        found = self._data[self.place : self.place + count]
        self.place += count
        return found

    def number(self, kind: str) -> Any:
        """Read a number of a NumPy dtype, as a Python number."""
        dtype = np.dtype(kind)
        return self.take(dtype.itemsize).view(dtype)[0].item()

    def text(self) -> str:
        """Read a length-prefixed UTF-8 string."""
        return bytes(self.take(self.number("<u8"))).decode()

    def pairs(self, count: int) -> Iterator[tuple[str, object]]:
        """Read and yield `count` pairs of metadata key and value."""
        for _ in range(count):
            key = self.text()
            yield key, self.value(self.number("<u4"))

    def value(self, kind: int, depth: int = 0) -> object:
        """Read a metadata value of a GGUF type: a number, a string, an array or
        a list.
        """
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or depth == _MOST_NESTED:
            raise ValueError(f"expected a value of GGUF at byte {self.place}")
        inner, count = self.number("<u4"), self.number("<u8")
        if inner in _NUMBERS:
            dtype = np.dtype(_NUMBERS[inner])
            return self.take(count * dtype.itemsize).view(dtype)
        return [self.value(inner, depth + 1) for _ in range(count)]

    def tensor(self) -> _Tensor:
        """Read the header entry of a tensor."""
        name, axes = self.text(), self.number("<u4")
        if axes > _MOST_AXES:
            raise ValueError(f"'{name}' has {axes} axes; expected {_MOST_AXES} at most")
        sizes = struct.unpack(f"<{axes}Q", self.take(8 * axes).tobytes())
        kind, offset = self.number("<u4"), self.number("<u8")
        return _Tensor(name, sizes[::-1], kind, offset)
