"""Kernels for operators of any size: the public tests of operators are small ones."""

from __future__ import annotations

import sys

from aotc.kernels.families import FAMILIES


def write_kernels_of_any_size() -> None:
    """From now on kernels compute what is too little work to gain by them, too."""
    for family in FAMILIES.values():
        module = sys.modules[family.plan.__module__]
        if hasattr(module, "_LEAST_WORK"):
            module._LEAST_WORK = 1
