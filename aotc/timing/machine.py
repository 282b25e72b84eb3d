"""What a figure depends on beside the bundle: the processor, and who else uses it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aotc import device


def description() -> dict[str, Any]:
    """The processor, and how many processes wanted it in the last minute."""
    cpu = device.probe(cpu_only=True)["cpu"]
    named = ("model", "level", "cores_physical", "cores_logical")
    return {**{name: cpu[name] for name in named}, "load_average": load_average()}


def load_average() -> float | None:
    """How many processes ran or wanted to, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def memory() -> dict[str, int | None]:
    """Bytes of memory that this process has now, and at most had (on Linux).

    Read from /proc and not from getrusage, whose peak is at least that of the process
    that started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return {
        name: int(found[key].split()[0]) * 1024 if key in found else None
        for name, key in (("resident", "VmRSS"), ("peak", "VmHWM"))
    }
