"""Tensors of PyTorch as arrays, in the same memory; complex ones as two arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.fx import Node

from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.errors import InputError
from aotc.importers.common.declared import Declared
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

# dtypes that NumPy does not know, as those whose bits they have
_BITS = {torch.bfloat16: (torch.int16, "bf16")}

# the dtype of both parts of complex numbers
PARTS = {"complex64": "f32", "complex128": "f64"}


def name_of_dtype(dtype: torch.dtype) -> str:
    """Return aotc's name of a torch dtype; complex ones keep PyTorch's name.

    Raises:
        InputError: aotc has no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    return name if name in PARTS else dtypes.canonical_dtype(name)


def declared_of(fake: torch.Tensor) -> Declared:
    """Return the shape of a fake tensor, with None for symbolic sizes."""
    return [_number(size) for size in fake.shape]


def _number(size: int | torch.SymInt) -> int | None:
    """Return a size as an int if it is static; None if it is symbolic."""
    if isinstance(size, int):
        return size
    return int(size.node.expr) if size.node.expr.is_Integer else None


def is_complex(node: Node) -> bool:
    """Return whether an fx node reads or returns complex tensors."""
    made = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    flat = [x for part in made for x in (part if isinstance(part, list) else [part])]
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in flat)


def is_known(dtype: torch.dtype) -> bool:
    """Return whether aotc supports a torch dtype, complex ones as pairs."""
    try:
        name_of_dtype(dtype)
    except InputError:
        return False
    return True


def numpy_of(tensor: torch.Tensor) -> Any:
    """Return a NumPy array (a `Complex` pair) that shares a CPU tensor's memory.

    Raises:
        InputError: aotc has no such arrays.
    """
    plain = tensor.detach().resolve_neg()
    if plain.layout is not torch.strided or not is_known(plain.dtype):
        fail("bad-dtype", f"a tensor of {plain.dtype}, {plain.layout} is no array")
    if plain.is_complex():
        parts = plain.resolve_conj()
        return Complex(numpy_of(parts.real), numpy_of(parts.imag))
    if plain.dtype in _BITS:
        bits, name = _BITS[plain.dtype]
        return plain.cpu().view(bits).numpy().view(dtypes.to_numpy(name))
    return plain.cpu().numpy()


def tensor_of(array: np.ndarray | Complex) -> torch.Tensor:
    """Return a tensor with a copy of the elements of an array or complex pair."""
    if isinstance(array, tuple):  # `Complex`, or as an entry returns one
        return torch.complex(*(torch.from_numpy(np.array(part)) for part in array))
    name = dtypes.canonical_dtype(array.dtype)
    for dtype, (bits, own) in _BITS.items():
        if own == name:
            words = torch.from_numpy(array.view(np.int16).copy())
            return words.to(bits).view(dtype)
    return torch.from_numpy(np.array(array))


def array_of(tensor: torch.Tensor) -> Array | Complex:
    """Return a tensor as a constant array, or a complex pair."""
    found = numpy_of(tensor)
    if isinstance(found, Complex):
        return Complex(*(Array(data=np.asarray(part)) for part in found))
    return Array(data=np.asarray(found))


def memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return a hashable key of a tensor's memory; tied weights have equal keys."""
    return (
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.dtype,
    )
