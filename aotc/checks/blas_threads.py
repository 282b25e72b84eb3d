"""Threads of OpenBLAS, by which NumPy multiplies matrices."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

_MAPS = Path("/proc/self/maps")
# as OpenBLAS is built for NumPy's wheels, and as distributions build it
_FUNCTIONS = [
    f"{prefix}openblas_{{}}_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
]


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Limit OpenBLAS to `count` threads within the context; restore the number after.

    Where several threads multiply, the threads of one product wait for cores that
    another one has, in loops that take the processor's time. Nothing changes where
    NumPy has another BLAS.
    """
    library = _openblas()
    if library is None:
        yield
        return
    code, name = library
    before = getattr(code, name.format("get"))()
    change = getattr(code, name.format("set"))
    change(min(count, before))
    try:
        yield
    finally:
        change(before)


@cache
def _openblas() -> tuple[ctypes.CDLL, str] | None:
    """Return the OpenBLAS that this process has loaded, and its function name
    pattern.
    """
    lines = _MAPS.read_text(encoding="utf-8").splitlines() if _MAPS.exists() else []
    for path in dict.fromkeys(line.split()[-1] for line in lines if "openblas" in line):
        with suppress(OSError):
            code = ctypes.CDLL(path)
            for name in _FUNCTIONS:
                if hasattr(code, name.format("set")):
                    return code, name
    return None
