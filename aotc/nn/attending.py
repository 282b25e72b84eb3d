"""Attention over sequences: (batch, length, heads, depth)."""

from __future__ import annotations

import math

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Shape
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit_all

__all__ = ["attention", "multi_head_attention", "rotary_embedding"]


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """`softmax(q k^T * scale + bias) v`, for each batch and head.

    Args:
        q: batch, length, heads, depth.
        k: batch, positions, key heads, depth; key heads divide the heads, and each
            serves as many consecutive ones (grouped-query attention).
        v: batch, positions, key heads, depth of the result.
        mask: true where a position may be seen; broadcasts to batch, heads, length,
            positions. A row that sees nothing gives zeros.
        bias: added to the scores; broadcasts likewise.
        causal: whether row i only sees positions up to i.
        scale: 1 / sqrt(depth) if None.

    Returns:
        batch, length, heads, depth of the result. Scores and their softmax are computed
        in f32 for half precision.
    """
    q, k, v = one_dtype(q, k, v)
    for x in (q, k, v):
        if x.ndim != 4:
            fail(
                "shape-mismatch",
                f"expected q, k and v as batch, length, heads, depth; got {x.type}",
            )
    if scale is None:
        scale = 1 / math.sqrt(max(static_size(q.shape[3], "depth"), 1))
    scores = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    added = _bias(q, scores, mask, bias)
    return emit_all(
        "attention",
        q,
        k,
        v,
        added,
        scale=float(scale),
        causal=bool(causal),
        safe=True,
    )[0]


def _bias(
    q: Array, scores: Shape, mask: ArrayLike | None, bias: ArrayLike | None
) -> Array:
    """Return mask and bias as one additive term of the scores; 0 if there is none."""
    term = None if bias is None else lift(bias, q.dtype)
    if mask is not None:
        seen = lift(mask)
        if seen.dtype != "bool":
            fail("dtype-mismatch", f"expected a mask of dtype bool; got {seen.type}")
        term = np.where(seen, 0.0 if term is None else term, lift(-math.inf, q.dtype))
    if term is None:
        return lift(0.0, q.dtype)
    if term.ndim > 4:
        fail(
            "shape-mismatch",
            "expected a mask and bias that broadcast to batch, heads, length, "
            f"positions; got {term.type}",
        )
    np.broadcast_shapes(term.shape, scores)
    return np.reshape(term, (1,) * (4 - term.ndim) + term.shape)


# of the query, the key, the value and the output
Biases = tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None, ArrayLike | None]


def multi_head_attention(
    x: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    output: ArrayLike,
    *,
    biases: Biases = (None, None, None, None),
    context: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    causal: bool = False,
) -> Array:
    """Compute attention of learned projections, projected back.

    Vaswani et al., "Attention is all you need", NeurIPS 2017.

    Args:
        x: batch, length, features.
        query: kernel, features, heads, depth.
        key: kernel, context features, key heads, depth.
        value: kernel, context features, key heads, depth.
        output: kernel, heads, depth, features of the result.
        biases: of query, key, value (heads, depth) and output (features); or None.
        context: batch, positions, features to attend to; x itself if None.
        mask: see `attention`.
        bias: see `attention`.
        causal: see `attention`.
    """
    source = x if context is None else context
    q, k, v = (
        _project(part, kernel, term, 1)
        for part, kernel, term in zip(
            (x, source, source), (query, key, value), biases[:3], strict=True
        )
    )
    return _project(attention(q, k, v, mask, bias, causal), output, biases[3], 2)


def _project(
    x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None, axes: int
) -> Array:
    """Contract the last `axes` axes of x with the first of the kernel; add the bias."""
    y = np.tensordot(x, kernel, axes)
    return y if bias is None else np.add(y, bias)


def rotary_embedding(
    x: ArrayLike,
    positions: ArrayLike | None = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
) -> Array:
    """Rotate each pair of features by an angle that grows with the position.

    Su, Lu, Pan, Murtadha, Wen and Liu, "RoFormer", 2021: pair i of depth d turns by
    position / base**(2 i / d).

    Args:
        x: batch, length, heads, depth; the depth is even.
        positions: integers, length or batch, length; 0, 1, … if None.
        base: the slowest pair takes nearly 2 pi * base positions for a turn.
        interleaved: whether pairs are neighbours, as in the paper; else the feature i
            and depth / 2 + i, as in most checkpoints.
    """
    x = lift(x)
    if x.ndim != 4 or static_size(x.shape[3], "depth") % 2:
        fail(
            "shape-mismatch",
            f"expected x as batch, length, heads, even depth; got {x.type}",
        )
    half = static_size(x.shape[3], "depth") // 2
    if not base > 0:
        fail("bad-argument", f"expected base to be above 0; got {base}")
    rates = (1 / base ** (numpy.arange(half) / max(half, 1))).astype("f4")
    places = np.arange(x.shape[1]) if positions is None else lift(positions)
    if places.ndim not in (1, 2) or places.dtype not in dtypes.INTEGERS:
        fail(
            "shape-mismatch",
            f"expected integer positions, length or batch, length; got {places.type}",
        )
    angles = np.multiply(np.expand_dims(np.astype(places, "f32"), (-2, -1)), rates)
    sine, cosine = (np.astype(f(angles), x.dtype) for f in (np.sin, np.cos))
    first, second = _pairs(x, half, interleaved)
    turned = [
        np.subtract(np.multiply(first, cosine), np.multiply(second, sine)),
        np.add(np.multiply(second, cosine), np.multiply(first, sine)),
    ]
    if interleaved:
        return np.reshape(np.stack(turned, -1), x.shape)
    return np.concatenate(turned, -1)


def _pairs(x: Array, half: int, interleaved: bool) -> list[Array]:
    """Split features into the two halves whose elements rotate together."""
    if interleaved:
        return [x[..., 0::2], x[..., 1::2]]
    return [x[..., :half], x[..., half:]]
