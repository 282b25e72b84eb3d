"""Tensors of PyTorch as arrays, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from aotc import dtypes
from aotc.frontends.array import Array
from aotc.frontends.places import fail

# dtypes that NumPy does not know, as those whose bits they have
_BITS = {torch.bfloat16: (torch.int16, "bf16")}


def numpy_of(tensor: Any) -> Any:
    """The NumPy array over the memory of a dense tensor on the CPU.

    Raises:
        InputError: aotc has no such arrays.
    """
    plain = tensor.detach()
    if plain.is_sparse or plain.is_quantized or plain.is_complex():
        fail("bad-dtype", f"a tensor of {plain.dtype}, {plain.layout} is no array")
    if plain.dtype in _BITS:
        bits, name = _BITS[plain.dtype]
        return plain.cpu().view(bits).numpy().view(dtypes.to_numpy(name))
    return plain.cpu().numpy()


def array_of(tensor: Any) -> Array:
    """The tensor as a constant."""
    return Array(data=np.asarray(numpy_of(tensor)))


def memory_of(tensor: Any) -> tuple[Any, ...]:
    """What two tensors have in common that are one: tied weights."""
    return (
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.dtype,
    )
