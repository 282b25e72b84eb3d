"""Probes of this machine: CPU features, cores, caches, memory, GPUs and their drivers.

`probe()` gives a JSON object (schema ``aotc.device/1``). The C program
``aotc/machine/native/probe.c`` prints the same object on a device without Python; a
test compares the two. The loader asks `aotc.machine.processor` alone, which reads two
small files. What cannot be found out is null.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from aotc.core.json_values import JsonObject
from aotc.machine import processor
from aotc.machine.target import cpu_level

_SYSTEM_CPU = Path("/sys/devices/system/cpu")
# Where a container sees its limit, by control groups of version 2 and 1.
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def probe(*, cpu_only: bool = False) -> JsonObject:
    """Return the facts on this machine as JSON (schema ``aotc.device/1``).

    Args:
        cpu_only: leave out the GPUs, whose drivers take long to load.
    """
    device: dict[str, Any] = {
        "schema": "aotc.device/1",
        "os": {"name": _system(), "release": _release()},
        "arch": processor.arch(),
        "cpu": {
            "model": _cpu_model(),
            "features": list(processor.cpu_features()),
            "level": cpu_level(),
            "cores_logical": os.cpu_count(),
            "cores_physical": _physical_cores(),
            "caches": _caches(),
        },
        "memory": {"total_bytes": _memory_bytes()},
    }
    if not cpu_only:
        from aotc.machine import gpus

        device |= gpus.probe()
    return device


def _system() -> str:
    """Return the name of the operating system."""
    return {"win32": "windows"}.get(sys.platform, sys.platform)


def _release() -> str:
    """Return the release of the operating system."""
    if hasattr(os, "uname"):
        return os.uname().release
    import platform

    return platform.release()


def _cpu_model() -> str | None:
    """Return the model name of the CPU or board, or None."""
    name = next(iter(processor.cpuinfo("model name")), None)
    board = _text(Path("/sys/firmware/devicetree/base/model"))
    return name or (board.rstrip("\0") if board else None)


def _text(path: Path) -> str | None:
    """Return the text of a file, or None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _physical_cores() -> int | None:
    """Return the number of physical cores, or None if unknown."""
    siblings = {
        _text(path)
        for path in _SYSTEM_CPU.glob("cpu[0-9]*/topology/thread_siblings_list")
    }
    return len(siblings - {None}) or None


def _caches() -> dict[str, int | None]:
    """Return the size in bytes of each cache level; None for unknown ones."""
    sizes: dict[str, int | None] = {"l1d": None, "l2": None, "l3": None}
    for index in _SYSTEM_CPU.glob("cpu0/cache/index[0-9]*"):
        level, kind = _text(index / "level"), _text(index / "type")
        size = _text(index / "size")
        name = "l1d" if level == "1" else f"l{level}"
        if kind != "Instruction" and name in sizes and size and size.endswith("K"):
            sizes[name] = int(size[:-1]) * 1024
    return sizes


def _memory_bytes() -> int | None:
    """Return the bytes of memory of the machine, or of the container if that is
    less.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limits = [_text(path) or "" for path in _MEMORY_LIMITS]
    return min([memory, *(int(limit) for limit in limits if limit.isdecimal())])
