"""Functions of `aotc.numpy` on dtypes: the limits of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.tracing.source_locations import fail

__all__ = ["finfo", "iinfo"]


def finfo(dtype: DTypeLike) -> Any:
    """Describe a float dtype as NumPy does: `finfo("f32").max`, `.eps`, `.tiny`, …"""
    name = dtypes.canonical_dtype(dtype)
    if not dtypes.is_float(name):
        fail("bad-dtype", f"expected a float dtype; got {name}", "use iinfo")
    if name == "bf16":
        from ml_dtypes import finfo as described

        return described(dtypes.to_numpy(name))
    return np.finfo(dtypes.to_numpy(name))


def iinfo(int_type: DTypeLike) -> Any:
    """Return NumPy's description of an integer dtype: `iinfo("i8").min` and `.max`."""
    name = dtypes.canonical_dtype(int_type)
    if name not in dtypes.INTEGERS:
        fail("bad-dtype", f"expected an integer dtype; got {name}", "use finfo")
    return np.iinfo(dtypes.to_numpy(name))
