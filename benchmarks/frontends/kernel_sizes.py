"""Kernels for operators of any size: the public tests of operators are small ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from aotc.kernels.families import FAMILIES

_NAMES = ("_LEAST_WORK", "_LEAST")  # of what families call too little work


def thresholds() -> Iterator[tuple[Any, str]]:
    """What decides which operators are worth a kernel: modules, and names in them."""
    modules = {family.plan.__module__ for family in FAMILIES.values()}
    for module in map(sys.modules.__getitem__, sorted(modules)):
        yield from ((module, name) for name in _NAMES if hasattr(module, name))


def write_kernels_of_any_size() -> None:
    """From now on kernels compute what is too little work to gain by them, too."""
    for module, name in thresholds():
        setattr(module, name, 1)
