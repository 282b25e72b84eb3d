"""What this machine has: CPU features, cores, caches, memory, GPUs and their drivers.

`probe()` gives a JSON object (schema ``aotc.device/1``) whose feature names are LLVM's,
so that they compare with a target's `cpu_features_required`. The C program
``aotc/native/probe.c`` prints the same object on a device without Python; a test
compares the two. The loader asks `cpu_features()` alone, which reads two small files.

Only Linux is asked for more than the architecture: elsewhere `cpu_features()` gives
what every CPU of the architecture has, and what cannot be found out is null.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from aotc.target import TARGETS

_SYSTEM_CPU = Path("/sys/devices/system/cpu")
# Where a container sees its limit, by control groups of version 2 and 1.
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

# flag in /proc/cpuinfo → LLVM feature, where the name differs
_X86_RENAMED = {
    "fpu": "x87",
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "lahf_lm": "sahf",
    "bmi1": "bmi",
    "abm": "lzcnt",
    "pclmulqdq": "pclmul",
    "sha_ni": "sha",
    "avx_vnni": "avxvnni",
    "avx512_bf16": "avx512bf16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
}
_X86_SAME = (
    "adx aes avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi "
    "avx512vl bmi2 cmov cx16 cx8 f16c fma fma4 fxsr gfni mmx movbe popcnt sse sse2 "
    "sse4a ssse3 vaes vpclmulqdq xop xsave"
)
_X86_FEATURES = {name: name for name in _X86_SAME.split()} | _X86_RENAMED

# (auxiliary vector entry, bit) → LLVM feature
_HWCAP, _HWCAP2 = 16, 26
_ARM_FEATURES = {
    (_HWCAP, 0): "fp-armv8",
    (_HWCAP, 1): "neon",
    (_HWCAP, 3): "aes",
    (_HWCAP, 7): "crc",
    (_HWCAP, 8): "lse",
    (_HWCAP, 10): "fullfp16",
    (_HWCAP, 12): "rdm",
    (_HWCAP, 20): "dotprod",
    (_HWCAP, 22): "sve",
    (_HWCAP, 23): "fp16fml",
    (_HWCAP2, 1): "sve2",
    (_HWCAP2, 4): "sve2-bitperm",
    (_HWCAP2, 10): "f32mm",
    (_HWCAP2, 11): "f64mm",
    (_HWCAP2, 13): "i8mm",
    (_HWCAP2, 14): "bf16",
    (_HWCAP2, 23): "sme",
    (_HWCAP2, 37): "sme2",
}
_RISCV_FEATURES = {(_HWCAP, ord(name) - ord("a")): name for name in "acdfmv"}

# What the architecture itself promises, for systems that are not asked for more.
BASELINE = {
    "x86_64": ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"),
    "aarch64": ("fp-armv8", "neon"),
}
# What `cpu_features()` can find, by architecture.
KNOWN_FEATURES = {
    "x86_64": frozenset({*_X86_FEATURES.values(), "crc32"}),
    "aarch64": frozenset(_ARM_FEATURES.values()),
    "riscv64": frozenset(_RISCV_FEATURES.values()),
}
_ARCHES = {"amd64": "x86_64", "arm64": "aarch64"}


def arch() -> str:
    """The machine architecture under LLVM's name."""
    machine = os.uname().machine if hasattr(os, "uname") else _platform_machine()
    return _ARCHES.get(machine.lower(), machine.lower())


@cache
def cpu_features() -> tuple[str, ...]:
    """ISA features that programs may use here: sorted LLVM names."""
    machine = arch()
    if not sys.platform.startswith("linux"):
        return BASELINE.get(machine, ())
    if machine == "x86_64":
        found = _x86_features(_common_flags())
    elif machine == "aarch64":
        found = _hwcap_features(_ARM_FEATURES)
    else:
        found = _hwcap_features(_RISCV_FEATURES) if machine == "riscv64" else set()
    return tuple(sorted(found))


def cpu_level() -> str:
    """The best CPU target of the table that this machine runs, else its arch."""
    return level_of(arch(), cpu_features())


def level_of(machine: str, features: Collection[str]) -> str:
    """The best CPU target for such a machine, else its architecture."""
    levels = [
        target
        for target in TARGETS.values()
        if target.arch == machine
        and set(features).issuperset(target.cpu_features_required)
    ]
    best = max(levels, key=lambda target: len(target.cpu_features_required), default="")
    return str(best) or machine


def probe(*, cpu_only: bool = False) -> dict[str, Any]:
    """Describe this machine (schema ``aotc.device/1``).

    Args:
        cpu_only: leave out the GPUs, whose drivers take long to load.
    """
    device: dict[str, Any] = {
        "schema": "aotc.device/1",
        "os": {"name": _system(), "release": _release()},
        "arch": arch(),
        "cpu": {
            "model": _cpu_model(),
            "features": list(cpu_features()),
            "level": cpu_level(),
            "cores_logical": os.cpu_count(),
            "cores_physical": _physical_cores(),
            "caches": _caches(),
        },
        "memory": {"total_bytes": _memory_bytes()},
    }
    if not cpu_only:
        from aotc import gpus

        device |= gpus.probe()
    return device


def _platform_machine() -> str:
    import platform

    return platform.machine()


def _system() -> str:
    return {"win32": "windows"}.get(sys.platform, sys.platform)


def _release() -> str:
    if hasattr(os, "uname"):
        return os.uname().release
    import platform

    return platform.release()


def _cpuinfo(key: str) -> list[str]:
    """The values of `key` in /proc/cpuinfo, which describes CPU after CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return []
    return [value.strip() for name, _, value in lines if name.strip() == key]


def _common_flags() -> set[str]:
    """The flags that all CPUs have: a program may be moved from one to another."""
    each = [set(flags.split()) for flags in set(_cpuinfo("flags"))]
    return set.intersection(*each) if each else set()


def _x86_features(flags: set[str]) -> set[str]:
    """Linux hides the AVX and AMX flags whose registers it does not save."""
    found = {_X86_FEATURES[flag] for flag in flags if flag in _X86_FEATURES}
    # LLVM names the crc32 instruction apart; CPUID reports it as part of SSE4.2.
    return found | {"crc32"} if "sse4.2" in found else found


def _hwcap_features(table: dict[tuple[int, int], str]) -> set[str]:
    words = _auxiliary_vector()
    return {
        name for (entry, bit), name in table.items() if words.get(entry, 0) >> bit & 1
    }


def _auxiliary_vector() -> dict[int, int]:
    try:
        raw = Path("/proc/self/auxv").read_bytes()
    except OSError:
        return {}
    return dict(struct.iter_unpack("@LL", raw))


def _cpu_model() -> str | None:
    name = next(iter(_cpuinfo("model name")), None)
    board = _text(Path("/sys/firmware/devicetree/base/model"))
    return name or (board.rstrip("\0") if board else None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _physical_cores() -> int | None:
    """CPUs that share a core list the same siblings."""
    siblings = {
        _text(path)
        for path in _SYSTEM_CPU.glob("cpu[0-9]*/topology/thread_siblings_list")
    }
    return len(siblings - {None}) or None


def _caches() -> dict[str, int | None]:
    sizes: dict[str, int | None] = {"l1d": None, "l2": None, "l3": None}
    for index in _SYSTEM_CPU.glob("cpu0/cache/index[0-9]*"):
        level, kind = _text(index / "level"), _text(index / "type")
        size = _text(index / "size")
        name = "l1d" if level == "1" else f"l{level}"
        if kind != "Instruction" and name in sizes and size and size.endswith("K"):
            sizes[name] = int(size[:-1]) * 1024
    return sizes


def _memory_bytes() -> int | None:
    """What there is, or what the container may have of it if that is less."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limits = [_text(path) or "" for path in _MEMORY_LIMITS]
    return min([memory, *(int(limit) for limit in limits if limit.isdecimal())])
