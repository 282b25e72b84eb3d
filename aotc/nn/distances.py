"""Losses of distances and margins; `reduction` is that of `aotc.nn.losses`."""

from __future__ import annotations

from aotc import numpy as np
from aotc.nn.losses import reduce_loss, same_shape
from aotc.numpy.axes import one_axis
from aotc.numpy.elementwise import root_of_squares
from aotc.numpy.exponential import softplus
from aotc.tracing.array import Array
from aotc.tracing.conversion import (
    ArrayLike,
    as_float,
    lift,
    one_dtype,
    to_accumulator,
)
from aotc.tracing.source_locations import fail

__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "hinge_loss",
    "margin_ranking_loss", "pairwise_distance", "soft_margin_loss",
    "triplet_margin_loss",
]  # fmt: skip


def _positive(x: Array) -> Array:
    """Return `max(x, 0)`."""
    return np.maximum(x, 0.0)


# ---- margins ------------------------------------------------------------------------


def hinge_loss(
    scores: ArrayLike, targets: ArrayLike, *, reduction: str = "none"
) -> Array:
    """`max(0, 1 - score * target)`; targets are -1 or 1."""
    s, t = same_shape(scores, targets)
    return reduce_loss(_positive(np.subtract(1.0, np.multiply(s, t))), reduction)


def soft_margin_loss(
    scores: ArrayLike, targets: ArrayLike, *, reduction: str = "none"
) -> Array:
    """`log(1 + e**(-score * target))`; targets are -1 or 1."""
    s, t = same_shape(scores, targets)
    return reduce_loss(softplus(np.negative(np.multiply(s, t))), reduction)


def margin_ranking_loss(
    x1: ArrayLike,
    x2: ArrayLike,
    targets: ArrayLike,
    *,
    margin: float = 0.0,
    reduction: str = "none",
) -> Array:
    """`max(0, -target (x1 - x2) + margin)`: x1 is to be larger where the target is 1,
    smaller where it is -1.
    """
    x, y = same_shape(x1, x2)
    _, t = same_shape(x, targets)
    ahead = np.multiply(t, np.subtract(x, y))
    return reduce_loss(_positive(np.subtract(margin, ahead)), reduction)


def hinge_embedding_loss(
    distances: ArrayLike,
    targets: ArrayLike,
    *,
    margin: float = 1.0,
    reduction: str = "none",
) -> Array:
    """The distance for a target of 1; `max(0, margin - distance)` for -1."""
    x, t = same_shape(distances, targets)
    loss = np.where(np.greater(t, 0), x, _positive(np.subtract(margin, x)))
    return reduce_loss(loss, reduction)


# ---- distances ----------------------------------------------------------------------


def cosine_similarity(
    x1: ArrayLike, x2: ArrayLike, axis: int = -1, epsilon: float = 1e-8
) -> Array:
    """The cosine of the angle between vectors; norms are no less than `epsilon`."""
    x1, x2 = (as_float(x) for x in one_dtype(x1, x2))
    dtype = x1.dtype
    x1, x2 = to_accumulator(x1), to_accumulator(x2)
    number = one_axis(x1, axis)
    dot, first, second = (
        np.sum(np.multiply(a, b), number) for a, b in ((x1, x2), (x1, x1), (x2, x2))
    )
    norms = (np.sqrt(np.maximum(n, epsilon * epsilon)) for n in (first, second))
    return np.astype(np.divide(dot, np.multiply(*norms)), dtype)


def pairwise_distance(x1: ArrayLike, x2: ArrayLike, *, epsilon: float = 1e-6) -> Array:
    """The Euclidean norm of x1 - x2 + `epsilon` over the last axis."""
    x, y = same_shape(x1, x2)
    difference = np.add(np.subtract(to_accumulator(x), to_accumulator(y)), epsilon)
    distance = root_of_squares(np.sum(np.square(difference), -1))
    return np.astype(distance, x.dtype)


def cosine_embedding_loss(
    x1: ArrayLike,
    x2: ArrayLike,
    targets: ArrayLike,
    *,
    margin: float = 0.0,
    reduction: str = "none",
) -> Array:
    """1 - cosine where the target is 1, `max(0, cosine - margin)` where it is -1."""
    cosine = cosine_similarity(x1, x2)
    t = lift(targets, cosine.dtype)
    if t.type.shape != cosine.type.shape:
        fail(
            "shape-mismatch",
            f"expected one target per pair, {cosine.type}; got {t.type}",
        )
    apart = _positive(np.subtract(cosine, margin))
    loss = np.where(np.greater(t, 0), np.subtract(1.0, cosine), apart)
    return reduce_loss(loss, reduction)


def triplet_margin_loss(
    anchors: ArrayLike,
    positives: ArrayLike,
    negatives: ArrayLike,
    *,
    margin: float = 1.0,
    epsilon: float = 1e-6,
    reduction: str = "none",
) -> Array:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    d is the Euclidean norm over the last axis; `epsilon` is added to each difference.
    """
    anchor, positive = same_shape(anchors, positives)
    _, negative = same_shape(anchors, negatives)
    near = pairwise_distance(anchor, positive, epsilon=epsilon)
    far = pairwise_distance(anchor, negative, epsilon=epsilon)
    loss = _positive(np.add(np.subtract(near, far), margin))
    return reduce_loss(loss, reduction)
