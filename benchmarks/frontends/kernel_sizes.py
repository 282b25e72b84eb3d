"""Kernels for operators of any size: the public tests of operators are small ones."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from aotc.kernels import grain
from aotc.kernels.gpu import families as gpu_families
from aotc.kernels.gpu import movement as gpu_movement
from aotc.kernels.planning import chain


def thresholds() -> Iterator[tuple[ModuleType, str]]:
    """Thresholds for operators that are worth a kernel: modules, and names in them."""
    yield from ((grain, name) for name in vars(grain) if name.startswith("LEAST"))
    yield chain, "_LEAST"
    yield gpu_families, "_LEAST"
    yield gpu_movement, "_LEAST"


def write_kernels_of_any_size() -> None:
    """Have kernels compute what is too little work to gain by them, from now on."""
    for module, name in thresholds():
        setattr(module, name, 1)
