"""Requirements of an IREE module on a runtime, read from its bytes without loading it.

A `.vmfb` is a flatbuffer behind a zip header: the identifier `IREE` stands four bytes
after the start. Loading a module made for another runtime, or a damaged one, can end
the process; reading a few fields cannot.
"""

from __future__ import annotations

import mmap
import re
import struct

from aotc.errors import InputError

# Fields of the root table, by their number in IREE's schema.
_REQUIREMENTS, _DEPENDENCIES, _VERSION = 2, 5, 13
_SEARCH_LIMIT = 4096

_FORMATS = re.compile(
    rb"(?<![\w-])(?:(?:embedded|system)-elf-[a-z0-9_]+|system-dll-[a-z0-9_]+"
    rb"|cuda-nvptx-fb|vulkan-spirv-fb(?:-ptr)?|vmvx-bytecode-fb|rocm-hsaco-fb"
    rb"|hip-hsaco-fb|amdgcn-[a-z0-9-]+|metal-msl-fb|metal-[a-z0-9-]*fb)(?![\w-])"
)
# SPIR-V begins with a number and four words, then come capabilities; those that ask a
# device for a feature, by their numbers in the specification of SPIR-V.
_SPIRV, _SPIRV_HEADER = struct.pack("<I", 0x07230203), 20
_CAPABILITY = 2 << 16 | 17  # words, and the number of the instruction
_VULKAN_FEATURES = {
    9: "shaderFloat16",
    10: "shaderFloat64",
    11: "shaderInt64",
    22: "shaderInt16",
    39: "shaderInt8",
    4433: "storageBuffer16BitAccess",
    4434: "uniformAndStorageBuffer16BitAccess",
    4448: "storageBuffer8BitAccess",
    4449: "uniformAndStorageBuffer8BitAccess",
}
_PTX = re.compile(rb"\.version (\d+\.\d+)\s+\.target (sm_\d+[af]?)")


def runtime_abi(data: bytes) -> dict[str, object]:
    """Return a module's requirements on the IREE runtime, as the manifest states them.

    Raises:
        InputError: `not-a-vmfb`.
    """
    try:
        table = _Table.root(data)
        version = table.scalar(_VERSION, "<I")
        return {
            "iree_vm_bytecode": [version >> 16, version & 0xFFFF],
            "vm_feature_bits": table.scalar(_REQUIREMENTS, "<I"),
            "module_deps": {
                row.string(0): row.scalar(1, "<I")
                for row in table.tables(_DEPENDENCIES)
            },
            "executable_formats": sorted(formats(data)),
        }
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise InputError("not-a-vmfb", f"this is not an IREE module: {error}") from None


def formats(data: bytes | mmap.mmap) -> set[str]:
    """Return the executable formats in a module, found by their names in its bytes."""
    return {match.group().decode() for match in _FORMATS.finditer(data)}


def ptx(data: bytes) -> tuple[str, str] | None:
    """Return (PTX version, `sm`) of a module's newest PTX; None without CUDA code."""
    found = {(m[1].decode(), m[2].decode()) for m in _PTX.finditer(data)}
    return max(found, key=lambda pair: _number(pair[0]), default=None)


def vulkan_features(data: bytes) -> set[str]:
    """Return the Vulkan features that a module's SPIR-V code uses."""
    found, at = set(), data.find(_SPIRV)
    while at >= 0:
        words = struct.iter_unpack("<II", _pairs(data, at + _SPIRV_HEADER))
        for instruction, capability in words:
            if instruction != _CAPABILITY:
                break
            if capability in _VULKAN_FEATURES:
                found.add(_VULKAN_FEATURES[capability])
        at = data.find(_SPIRV, at + len(_SPIRV))
    return found


def _pairs(data: bytes, at: int) -> bytes:
    """Return at most 1024 bytes from `at` on, cut to a multiple of 8."""
    end = min(at + 1024, len(data))
    return data[at : end - (end - at) % 8]


def _number(version: str) -> list[int]:
    """Parse a version as a list of integers, for comparison."""
    return [int(part) for part in version.split(".")]


class _Table:
    """Reader of a flatbuffer table: offsets into `data`, fields by number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._vtable = at - self._unpack("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """Return the root table of an IREE module; ValueError without its
        identifier.
        """
        mark = data.find(b"IREE", 0, _SEARCH_LIMIT)
        if mark < 4:
            raise ValueError("the identifier is missing")
        start = mark - 4
        return cls(data, start + struct.unpack_from("<I", data, start)[0])

    def scalar(self, field: int, kind: str) -> int:
        """Return a numeric field of struct format `kind`; 0 if it is absent."""
        at = self._field(field)
        return self._unpack(kind, at) if at else 0

    def string(self, field: int) -> str:
        """Return a string field."""
        at = self._target(self._field(field))
        length = self._unpack("<I", at)
        return bytes(self._data[at + 4 : at + 4 + length]).decode("ascii")

    def tables(self, field: int) -> list[_Table]:
        """Return a field that is a vector of tables; empty if it is absent."""
        slot = self._field(field)
        if not slot:
            return []
        at = self._target(slot)
        count = self._unpack("<I", at)
        if count > len(self._data):
            raise ValueError("a list is longer than the file")
        slots = range(at + 4, at + 4 + 4 * count, 4)
        return [_Table(self._data, self._target(slot)) for slot in slots]

    def _field(self, number: int) -> int:
        """Return the offset of a field in `data`; 0 if it is absent."""
        entry = 4 + 2 * number
        if entry >= self._unpack("<H", self._vtable):
            return 0
        offset = self._unpack("<H", self._vtable + entry)
        return self._at + offset if offset else 0

    def _target(self, at: int) -> int:
        """Return the offset that the reference at `at` points to."""
        return at + self._unpack("<I", at)

    def _unpack(self, kind: str, at: int) -> int:
        """Return the number of struct format `kind` at an offset."""
        # A negative offset would count from the end of the file.
        if at < 0:
            raise ValueError("an offset points outside")
        return int(struct.unpack_from(kind, self._data, at)[0])
