"""Conversion of a caller's value to a NumPy array, if it is in the host's memory.

Arrays of other frameworks that do are taken as they are. Those of an accelerator are
refused and never copied over in passing: a call would wait for another device without
a word about it. (The GPU that computes a call takes its own: `foreign_tensors`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from aotc.artifacts.call_guards import device_guard, kind_guard
from aotc.errors import InputError

Array = np.ndarray

# Types of devices of DLPack (dlpack.h, DLDeviceType).
_IN_HOST_MEMORY = frozenset({1, 3, 11})  # of the CPU, or pinned for CUDA or ROCm
# Their `__array__` refuses memory elsewhere, and to ask first takes some microseconds.
_REFUSING = frozenset({"numpy", "torch", "cupy"})
_DEVICES = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    13: "cuda-managed",
    14: "oneapi",
    15: "webgpu",
}


class Described(NamedTuple):
    """Description of an input for error messages.

    Args:
        title: such as `predict: input 'x'`.
        name: of the input.
        expected: what it has to be.
        where: the line of the model that declares it.
    """

    title: str
    name: str
    expected: str
    where: str = ""


def host_array(value: object, describe: Callable[[], Described]) -> Array:
    """Return a value as a NumPy array; raise if it lies on another device or is no
    array.

    Args:
        value: an array of NumPy or of another framework.
        describe: tells of which input, if it is refused.

    Raises:
        InputError: `input-device`: it lies elsewhere; `input-type`: it is no array.
    """
    if type(value).__module__ not in _REFUSING and (device := _foreign_device(value)):
        raise _device_error(describe(), value, device)
    if not hasattr(value, "__array__"):
        raise _type_error(describe(), value, type(value).__name__)
    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        got = "a masked array, whose masked elements have no values"
        raise _type_error(describe(), value, got)
    try:
        return np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # whatever another framework raises
        if device := _foreign_device(value):
            raise _device_error(describe(), value, device) from error
        reason = str(error).partition("\n")[0]
        got = f"{_library(value)}.{type(value).__name__}: {reason}"
        raise _type_error(describe(), value, got) from error


def _device_error(spec: Described, value: object, device: str) -> InputError:
    """Return the error for a value in the memory of a device."""
    return InputError(
        "input-device",
        f"{spec.title}: expected {spec.expected} in the memory of the host, got an "
        f"array on {device}",
        where=spec.where or None,
        hint=f"copy it to the host before the call: {_copy_of(spec.name, value)}",
        guard=device_guard(spec.name),
    )


def _type_error(spec: Described, value: object, got: str) -> InputError:
    """Return the error for a value that cannot be a NumPy array."""
    return InputError(
        "input-type",
        f"{spec.title}: expected {spec.expected}, got {got}",
        where=spec.where or None,
        hint=f"pass a NumPy array: {_copy_of(spec.name, value)}",
        guard=kind_guard(spec.name),
    )


def _foreign_device(value: object) -> str | None:
    """Return the device that a value says it lies on; None for the host or if it does
    not say.
    """
    ask = getattr(value, "__dlpack_device__", None)
    try:
        kind, number = ask() if ask is not None else (1, 0)
        kind = int(kind)
    except Exception:  # such as of torch's device `meta`, which has no memory
        return None
    if kind in _IN_HOST_MEMORY:
        return None
    return device_name(kind, number)


def device_name(kind: int, number: int) -> str:
    """Return a DLPack device in PyTorch's notation, such as `cuda:0`."""
    return f"{_DEVICES.get(kind, f'a device of type {kind}')}:{number}"


def _library(value: object) -> str:
    """Return the name of the package that defines a value's type."""
    return type(value).__module__.partition(".")[0]


# What gives an array of NumPy, by the framework that a value is of.
_COPIES = {
    "torch": "{x}.detach().cpu().numpy()",
    "jax": "jax.device_get({x})",
    "jaxlib": "jax.device_get({x})",
    "cupy": "{x}.get()",
}
# PyTorch's dtypes that NumPy itself has not → integers as long, and those of ml_dtypes.
_VIEWS = {
    "torch.bfloat16": ("int16", "bfloat16"),
    "torch.float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "torch.float8_e5m2": ("uint8", "float8_e5m2"),
}


def _copy_of(name: str, value: Any) -> str:
    """Return an expression that copies a value to NumPy, for hints."""
    if isinstance(value, np.ma.MaskedArray):
        return f"{name}.filled(0)"
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return f"numpy.from_dlpack({name})"
    if _library(value) == "torch" and str(value.dtype) in _VIEWS:
        raw, dtype = _VIEWS[str(value.dtype)]
        integers = f"{name}.detach().cpu().view(torch.{raw}).numpy()"
        return f"{integers}.view(ml_dtypes.{dtype})"
    return _COPIES.get(_library(value), "numpy.asarray(value, dtype)").format(x=name)
