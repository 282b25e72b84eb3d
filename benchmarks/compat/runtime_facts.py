"""Ask the IREE runtime of this process what it can load; prints a JSON object.

    PYTHONPATH=UNPACKED_WHEEL python -m benchmarks.compat.runtime_facts MODULE.vmfb

The module is not run: copies of it that claim another bytecode version, more VM
features or a newer HAL are offered to the runtime, which says why it refuses them.
Answers are tried from both sides, so that a changed message cannot pass for a fact.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path

import iree.runtime as iree
from iree.runtime import version

from aotc.artifacts import vmfb

_BITS = range(8)  # IREE's schema names 4 features


class Module:
    """A compiled module file, of which copies with other version claims are made."""

    def __init__(self, path: str) -> None:
        self._data = Path(path).read_bytes()
        self._table = vmfb._Table.root(self._data)
        self.abi = vmfb.runtime_abi(self._data)

    def with_features(self, bits: int) -> bytes:
        """Return a copy that claims to need these VM features."""
        return self._with({self._table._field(vmfb._REQUIREMENTS): bits})

    def with_bytecode(self, major: int, minor: int) -> bytes:
        """Return a copy that claims this bytecode version, and to need no VM
        features.
        """
        version, features = vmfb._VERSION, vmfb._REQUIREMENTS
        claims = {version: major << 16 | minor, features: 0}
        return self._with({self._table._field(f): claims[f] for f in claims})

    def with_dependency(self, module: str, least: int) -> bytes:
        """Return a copy that claims to need a version of one of the runtime's
        modules.
        """
        (row,) = (
            row
            for row in self._table.tables(vmfb._DEPENDENCIES)
            if row.string(0) == module
        )
        return self._with({row._field(1): least})

    def _with(self, values: dict[int, int]) -> bytes:
        """Return a copy of the bytes with numbers replaced at these offsets."""
        if not all(values):
            raise SystemExit("the module leaves out a field that is to be changed")
        changed = bytearray(self._data)
        for at, value in values.items():
            struct.pack_into("<I", changed, at, value)
        return bytes(changed)


def refusal(instance: object, data: bytes, offered: list[object] | None = None) -> str:
    """Return the runtime's error for a module; empty if it is accepted."""
    try:
        module = iree.VmModule.copy_buffer(instance, data)
        if offered is not None:
            iree.VmContext(instance, modules=[*offered, module])
    except (RuntimeError, ValueError, KeyError) as error:
        return str(error)
    return ""


def bytecode(instance: object, module: Module) -> list[int]:
    """Return the (major, minor) bytecode version that the runtime accepts."""
    said = refusal(instance, module.with_bytecode(0xFFFF, 0xFFFF))
    named = re.search(r"runtime supports (\d+)\.(\d+)", said)
    if not named:
        raise SystemExit(f"the runtime says nothing about its bytecode: {said!r}")
    major, minor = int(named[1]), int(named[2])
    taken = [(major, minor)]
    refused = [(major, minor + 1), (major + 1, 0), (major - 1, 0)]
    for claimed in taken + refused:
        said = refusal(instance, module.with_bytecode(*claimed))
        if ("bytecode version mismatch" in said) != (claimed in refused):
            raise SystemExit(f"bytecode {claimed} of {major}.{minor}: {said!r}")
    return [major, minor]


def features(instance: object, module: Module) -> int:
    """Return the bit mask of the VM features that the runtime has."""
    refused = "required module features"
    return sum(
        1 << bit
        for bit in _BITS
        if refused not in refusal(instance, module.with_features(1 << bit))
    )


def modules(instance: object, module: Module) -> dict[str, int]:
    """Return the versions of the modules that the runtime has built in."""
    return {each.name: each.version for each in brought(instance)}


def brought(instance: object) -> list[object]:
    """Return the runtime's built-in modules, made as aotc's loader makes them."""
    device = iree.get_driver("local-sync").create_default_device()
    hal = iree.create_hal_module(instance, device)
    return [hal, iree.create_io_parameters_module(instance)]


def check_hal(instance: object, module: Module, present: int) -> None:
    """Exit unless the runtime accepts a module that needs its HAL version, and no newer
    one.
    """
    for least, refused in ((present, False), (present + 1, True)):
        data = module.with_dependency("hal", least)
        said = refusal(instance, data, brought(instance))
        if ("version mismatch; have" in said) != refused:
            raise SystemExit(f"hal {least} of {present}: {said!r}")


def main() -> None:
    """Print the facts of this runtime as JSON."""
    module = Module(sys.argv[1])
    instance = iree.VmInstance()
    loads, brings = bytecode(instance, module), modules(instance, module)
    if loads == module.abi["iree_vm_bytecode"]:
        check_hal(instance, module, brings["hal"])
    facts = {
        "build": version.VERSION,
        "revision": version.REVISIONS["IREE"],
        "bytecode": loads,
        "vm_features": features(instance, module),
        "modules": brings,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
