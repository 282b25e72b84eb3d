"""The functions of NumPy, SciPy, JAX and optax that ours are named after."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from aotc.complexes import Complex
from aotc.tracing.array import Array

from .outcomes import as_numpy
from .values import NUMPY_DTYPES

Function = Callable[..., Any]

# Where the peers have the functions of our packages; the first that has one counts.
PLACES = {
    "numpy": ("numpy", "jax.numpy", "jax.lax"),
    "linalg": ("numpy.linalg", "scipy.linalg"),
    "fft": ("numpy.fft", "scipy.fft"),
    "special": ("scipy.special",),
    "nn": ("jax.nn", "optax.losses"),
    "complexes": ("numpy", "scipy.special"),
    "random": ("jax.random",),
    "control": ("jax.lax",),
}


def _stable(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return NumPy's stable argsort."""
    return np.argsort(x, *args, stable=True, **kwargs)


def _ordered(partition: Function, order: Function, a: Any, kth: Any, *axis: Any) -> Any:
    """Call NumPy's partition for its errors; return the sorted order, which is one."""
    partition(a, kth, *axis)
    return order(a, *axis)


def _put_along_axis(arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Call NumPy's put_along_axis, which changes the array, and return the array."""
    np.put_along_axis(arr, *args, **kwargs)
    return arr


# What a peer says in other words.
ADAPTED: dict[str, Function] = {
    "numpy.empty": np.zeros,  # what NumPy leaves open is 0
    "numpy.empty_like": np.zeros_like,
    "numpy.partition": partial(_ordered, np.partition, np.sort),
    "numpy.argpartition": partial(_ordered, np.argpartition, _stable),
    "numpy.put_along_axis": _put_along_axis,
    "numpy.argsort": partial(np.argsort, stable=True),
    "numpy.array_equal": lambda *a, **k: np.bool_(np.array_equal(*a, **k)),
    "numpy.allclose": lambda *a, **k: np.bool_(np.allclose(*a, **k)),
}  # fmt: skip


@cache
def peer_of(function: str, libraries: frozenset[str]) -> tuple[str, Function] | None:
    """Return (library, function) of a peer with this name; None if no library has
    it.
    """
    family, name = function.split(".")
    for place in PLACES[family]:
        library = place.partition(".")[0]
        if library not in libraries:
            continue
        if library == "jax":
            _widen_jax()
        found = getattr(importlib.import_module(place), name, None)
        if callable(found):
            if library == "numpy":
                found = ADAPTED.get(function, found)
            return library, found
    return None


@cache
def _widen_jax() -> None:
    """Configure JAX to compute in 64 bits and to compile small programs fast."""
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    importlib.import_module("jax").config.update("jax_enable_x64", True)


def given(library: str, value: Any) -> Any:
    """Return an argument in the peer's types."""
    if isinstance(value, Complex):
        real, imag = (np.asarray(as_numpy(part)) for part in value)
        whole = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
        whole.real, whole.imag = real, imag
        return whole
    if isinstance(value, Array):
        value = as_numpy(value)
    if isinstance(value, str) and value in NUMPY_DTYPES:
        return NUMPY_DTYPES[value]
    if isinstance(value, np.ndarray) and value.dtype == NUMPY_DTYPES["bf16"]:
        return value.astype("f4") if library == "numpy" else value.copy()
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (list, tuple):
        return type(value)(given(library, part) for part in value)
    return value
