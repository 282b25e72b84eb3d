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
    """The name that aotc has for a dtype; complex ones keep PyTorch's.

    Raises:
        InputError: aotc has no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    return name if name in PARTS else dtypes.canonical_dtype(name)


def declared_of(fake: torch.Tensor) -> Declared:
    """The shape that torch gives a value, without the sizes that vary."""
    return [_number(size) for size in fake.shape]


def _number(size: int | torch.SymInt) -> int | None:
    """A size that torch knows, also as a SymInt that has turned out to be a number."""
    if isinstance(size, int):
        return size
    return int(size.node.expr) if size.node.expr.is_Integer else None


def is_complex(node: Node) -> bool:
    """Return whether a node takes or makes complex numbers."""
    made = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    flat = [x for part in made for x in (part if isinstance(part, list) else [part])]
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in flat)


def is_known(dtype: torch.dtype) -> bool:
    """Return whether aotc has arrays, or pairs of them, of a dtype."""
    try:
        name_of_dtype(dtype)
    except InputError:
        return False
    return True


def numpy_of(tensor: torch.Tensor) -> Any:
    """The NumPy array over the memory of a dense tensor on the CPU.

    It is a `Complex` of two arrays for complex numbers.

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
    """Return a tensor with the elements of a NumPy array, or of a pair of arrays."""
    if isinstance(array, tuple):  # `Complex`, or as an entry returns one
        return torch.complex(*(torch.from_numpy(np.array(part)) for part in array))
    name = dtypes.canonical_dtype(array.dtype)
    for dtype, (bits, own) in _BITS.items():
        if own == name:
            words = torch.from_numpy(array.view(np.int16).copy())
            return words.to(bits).view(dtype)
    return torch.from_numpy(np.array(array))


def array_of(tensor: torch.Tensor) -> Array | Complex:
    """The tensor as a constant."""
    found = numpy_of(tensor)
    if isinstance(found, Complex):
        return Complex(*(Array(data=np.asarray(part)) for part in found))
    return Array(data=np.asarray(found))


def memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return a key of a tensor's memory; equal keys are one tensor, as of tied
    weights.
    """
    return (
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.dtype,
    )
