"""The memory of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aotc.counting.samples import Sample


def memory() -> dict[str, int | None]:
    """Return this process's current and peak resident bytes (on Linux).

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


def peak_memory() -> Iterator[Sample]:
    """Yield a metric sample of the peak memory, where the system reports it."""
    peak = memory()["peak"]
    if peak is not None:
        yield Sample("process_peak_memory_bytes", {}, peak)
