"""The element types of aotc, by the names that manifests and specs use.

`bool`, signed `i8 i16 i32 i64`, unsigned `u8 u16 u32 u64`, floating `f16 bf16 f32 f64`.
This module is edge-safe: the loader views raw buffers through it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aotc.errors import InputError, SetupError

if TYPE_CHECKING:
    # Everything that `canonical_dtype` takes. Calls that models make are held to what
    # their annotations say at run time (`aotc.tracing.calls`); `canonical_dtype` itself
    # refuses what no dtype can be made of, and says what there is.
    DTypeLike: TypeAlias = (
        str | np.dtype | type[np.generic] | type[bool] | type[int] | type[float]
    )
else:
    DTypeLike = Any

_NUMPY_NAMES = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
_FROM_NUMPY = {name: dtype for dtype, name in _NUMPY_NAMES.items()}

NAMES = tuple(_NUMPY_NAMES)
FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS


def to_numpy(dtype: str) -> np.dtype:
    """Return the NumPy dtype of an aotc dtype; `bf16` needs the `ml_dtypes` package.

    Raises:
        SetupError: `bf16` is asked for and `ml_dtypes` is not installed.
    """
    if dtype != "bf16":
        return np.dtype(_NUMPY_NAMES[dtype])
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise SetupError(
            "missing-ml-dtypes",
            "bf16 arrays need the 'ml_dtypes' package, which is not installed",
            hint="pip install ml_dtypes",
        ) from None
    bfloat16: np.dtype = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def restore(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array read from a file with the dtype it was written in, which bf16
    loses.

    NumPy files keep the bytes of a bf16 array but forget its type.
    """
    wanted = to_numpy(dtype)
    opaque = array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize
    return array.view(wanted) if opaque else array


def canonical_dtype(dtype: DTypeLike) -> str:
    """Return the aotc name of a dtype given as `"f32"`, `"float32"`, `np.float32` or
    `float`.

    Python's own `float`, `int` and `bool` mean `f32`, `i32` and `bool`: the widths that
    every target computes with. As text they are refused, as are NumPy's short names:
    `"float"` and `"f8"` would be 64 bits wide by NumPy's rules, and `"i8"` is not what
    it is there.

    Raises:
        InputError: no element type of aotc has that name.
    """
    if isinstance(dtype, str) and dtype in _NUMPY_NAMES:
        return dtype
    python_types: dict[Any, str] = {float: "f32", int: "i32", bool: "bool"}
    if isinstance(dtype, type) and dtype in python_types:
        return python_types[dtype]
    name = _numpy_spelling(dtype)
    if name not in _FROM_NUMPY:
        raise InputError(
            "unknown-dtype",
            f"{name!r} is not an element type of aotc",
            hint=_hint(name),
        )
    return _FROM_NUMPY[name]


def _numpy_spelling(dtype: DTypeLike) -> str:
    """Return NumPy's name of a dtype; for other values, a text for messages."""
    if isinstance(dtype, str):
        return dtype
    if dtype is None:  # which NumPy takes for float64
        return "None"
    try:
        return _spelling(np.dtype(dtype))
    except (TypeError, ValueError):
        return type(dtype).__name__


def _hint(name: str) -> str:
    """Return a hint on a name that is no dtype of aotc."""
    known = f"use one of {', '.join(NAMES)}"
    try:
        meant = _FROM_NUMPY[_spelling(np.dtype(name))]
    except (TypeError, ValueError, KeyError):
        return known
    return f"NumPy means {meant} by it; {known}"


@cache  # NumPy puts the name together each time, and every op asks for it
def _spelling(dtype: np.dtype) -> str:
    """Return a NumPy dtype's name; cached."""
    return str(dtype.name)


def numpy_name(dtype: str) -> str:
    """Return NumPy's name of an aotc dtype, such as `float32` for `f32`."""
    return _NUMPY_NAMES[dtype]


def is_float(dtype: str) -> bool:
    """Return whether `dtype` is a floating-point type, the only kind with
    derivatives.
    """
    return dtype in FLOATS


def bits(dtype: str) -> int:
    """Return the width of an element in bits; 8 for `bool`."""
    return 8 if dtype == "bool" else int(dtype.lstrip("bfiu"))
