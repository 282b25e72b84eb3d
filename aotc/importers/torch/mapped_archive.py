"""Load a .pt2 file whose large tensors stay mapped from it.

`torch.export.load` copies all tensors to memory. It is given the archive without the
bytes of the large ones instead: the elements of a placeholder are one, repeated by
strides of zero. Views of the mapped file then take their places.

Source: `torch/export/pt2_archive/constants.py` and `torch/_export/serde/schema.py` of
PyTorch 2.13: an archive is a zip file that compresses nothing; `data/weights` and
`data/constants` have a JSON file each that says, by name, which file has the elements
of a tensor, and its sizes, strides and offset. What is written in other ways, such as
by older releases, is loaded as PyTorch does it.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from aotc.core.array_files import stored_bytes
from aotc.core.json_values import JsonObject

_LARGE = 1 << 16  # bytes; smaller tensors are copied
_CONFIGS = "_weights_config.json", "_constants_config.json"  # ends of their names
_STRIDED = 7  # `Layout.Strided`
_ELEMENT = bytes(16)  # a multiple of the size of any element


@dataclass(frozen=True)
class _MappedTensor:
    """The layout of a large tensor in a .pt2 archive, which is not copied to memory.

    Args:
        name: of the tensor in the program.
        elements: the file in the archive with its elements.
        strides: of the tensor, in elements.
        offset: of its first element.
    """

    name: str
    elements: zipfile.ZipInfo
    strides: tuple[int, ...]
    offset: int


def load(path: Path) -> torch.export.ExportedProgram:
    """Return the exported program in a .pt2 file, with large tensors memory-mapped.

    Raises:
        Exception: whatever torch, or zipfile, finds wrong with the bytes.
    """
    if not zipfile.is_zipfile(path):
        return torch.export.load(path)  # which says what is wrong
    stripped = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(stripped, "w") as copy:
        mapped = [*_strip(archive, copy)]
    if not mapped:
        return torch.export.load(path)
    stripped.seek(0)
    program = torch.export.load(stripped)
    whole = np.memmap(path, np.uint8, "c")  # PyTorch has no arrays that are read-only
    known = {member.filename: member for member in (each.elements for each in mapped)}
    flat = {name: stored_bytes(whole, member) for name, member in known.items()}
    for each in mapped:
        is_weight = each.name in program.state_dict
        tensors = program.state_dict if is_weight else program.constants
        tensors[each.name] = _filled(
            tensors[each.name], torch.from_numpy(flat[each.elements.filename]), each
        )
    return program


def _filled(
    placeholder: torch.Tensor, data: torch.Tensor, mapped: _MappedTensor
) -> torch.Tensor:
    """Return a tensor like a placeholder, over the mapped bytes of its elements."""
    found = data.view(placeholder.dtype).as_strided(
        placeholder.shape, mapped.strides, mapped.offset
    )
    if not isinstance(placeholder, torch.nn.Parameter):
        return found
    return torch.nn.Parameter(found, requires_grad=placeholder.requires_grad)


def _strip(archive: zipfile.ZipFile, copy: zipfile.ZipFile) -> Iterator[_MappedTensor]:
    """Copy a .pt2 archive without large tensors' data; yield those tensors."""
    members = {each.filename: each for each in archive.infolist()}
    configs = {name: each for name, each in members.items() if name.endswith(_CONFIGS)}
    changed: dict[str, bytes] = {}
    for name in configs:
        folder, rows = name.rpartition("/")[0], json.loads(archive.read(name))
        tensors = rows["config"]
        kept = {
            row["path_name"]
            for row in tensors.values()
            if not _can_be_mapped(row, members.get(f"{folder}/{row['path_name']}"))
        }
        for tensor, row in tensors.items():
            if row["path_name"] in kept:
                continue
            elements, meta = f"{folder}/{row['path_name']}", row["tensor_meta"]
            strides = tuple(each["as_int"] for each in meta["strides"])
            offset = meta["storage_offset"]["as_int"]
            yield _MappedTensor(tensor, members[elements], strides, offset)
            meta["strides"] = [{"as_int": 0} for _ in strides]
            meta["storage_offset"] = {"as_int": 0}
            changed[elements] = _ELEMENT
        changed[name] = json.dumps(rows).encode()
    for name in members:
        copy.writestr(name, changed[name] if name in changed else archive.read(name))


def _can_be_mapped(row: JsonObject, member: zipfile.ZipInfo | None) -> bool:
    """Return whether a stored tensor is large, uncompressed, strided and on the CPU."""
    meta = row["tensor_meta"]
    if member is None or row["use_pickle"] or meta is None:
        return False
    numbers = [*meta["sizes"], *meta["strides"], meta["storage_offset"]]
    return (
        member.compress_type == zipfile.ZIP_STORED
        and member.file_size >= _LARGE
        and meta["device"]["type"] == "cpu"
        and meta["layout"] == _STRIDED
        and all("as_int" in each for each in numbers)
    )
