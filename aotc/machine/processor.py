"""The processor of this machine: its architecture and the features programs may use.

Feature names are LLVM's, so that they compare with a target's `cpu_features_required`.
Only Linux is asked for more than the architecture: elsewhere `cpu_features()` gives
what every CPU of the architecture has.
"""

from __future__ import annotations

import os
import struct
import sys
from functools import cache
from pathlib import Path

NOMINAL_GHZ = 3.0  # the clock that expected times are for

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
    """Return the machine architecture by LLVM's name."""
    machine = os.uname().machine if hasattr(os, "uname") else _platform_machine()
    return _ARCHES.get(machine.lower(), machine.lower())


@cache
def cpu_features() -> tuple[str, ...]:
    """Return the ISA features that programs may use here, as sorted LLVM names."""
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


def _platform_machine() -> str:
    """Return the machine name from `platform`, where `os.uname` is missing."""
    import platform

    return platform.machine()


def cpuinfo(key: str) -> list[str]:
    """Return the values of a key in /proc/cpuinfo, one for each CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return []
    return [value.strip() for name, _, value in lines if name.strip() == key]


def _common_flags() -> set[str]:
    """Return the flags that all CPUs have, as a program may move between them."""
    each = [set(flags.split()) for flags in set(cpuinfo("flags"))]
    return set.intersection(*each) if each else set()


def _x86_features(flags: set[str]) -> set[str]:
    """Return the LLVM features of x86 flags."""
    found = {_X86_FEATURES[flag] for flag in flags if flag in _X86_FEATURES}
    # LLVM names the crc32 instruction apart; CPUID reports it as part of SSE4.2.
    return found | {"crc32"} if "sse4.2" in found else found


def _hwcap_features(table: dict[tuple[int, int], str]) -> set[str]:
    """Return the LLVM features whose bits are set in the auxiliary vector."""
    words = _auxiliary_vector()
    return {
        name for (entry, bit), name in table.items() if words.get(entry, 0) >> bit & 1
    }


def _auxiliary_vector() -> dict[int, int]:
    """Return this process's auxiliary vector: words by entry type."""
    try:
        raw = Path("/proc/self/auxv").read_bytes()
    except OSError:
        return {}
    return dict(struct.iter_unpack("@LL", raw))
