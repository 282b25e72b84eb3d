"""Attention, as the op that aotc has for it.

What that op does not do is left to the body by which ONNX defines the operator.
"""

from __future__ import annotations

from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.tracing.array import Array


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 1,
    wanted: int,
) -> Any:
    """Return (`softmax(q k^T * scale + mask) v`, k, v) of batch, heads, length, depth.

    NotImplemented stands for options that the body by which ONNX defines it computes.

    Inputs of three axes have the heads beside each other in the last one, and so has
    the result.
    """
    special = softcap or lengths is not None or softmax_precision != 1 or wanted > 3
    is_local = max(left_window_size, right_window_size) >= 0
    if special or is_local or (is_causal and past_key is not None):
        return NotImplemented
    together = q.ndim == 3
    if together:
        q = _split_heads(q, q_num_heads)
        k, v = _split_heads(k, kv_num_heads), _split_heads(v, kv_num_heads)
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    if mask is not None and mask.shape[-1] not in (1, k.shape[2]):
        return NotImplemented  # it says nothing of the last positions
    seen = mask if mask is not None and mask.dtype == "bool" else None
    found = nn.attention(
        np.swapaxes(q, 1, 2),
        np.swapaxes(k, 1, 2),
        np.swapaxes(v, 1, 2),
        seen,
        mask if seen is None else None,
        bool(is_causal),
        scale,
    )
    if together:
        *front, heads, depth = found.shape
        y = np.reshape(found, (*front, heads * depth))
    else:
        y = np.swapaxes(found, 1, 2)
    return y, k, v


def _split_heads(x: Array, heads: int) -> Array:
    """Reshape batch, length, heads * depth to batch, heads, length, depth."""
    batch, length, features = x.shape
    split = np.reshape(x, (batch, length, heads, features // heads))
    return np.swapaxes(split, 1, 2)


TABLE: dict[str, Imports] = {"Attention": attention}
