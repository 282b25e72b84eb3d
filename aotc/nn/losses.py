"""Losses: one number for each example or element, or their mean or sum.

Every loss takes `reduction`: "none" (the default), "mean" or "sum". Where examples have
weights of their own (`weights`, `ignore_index`), the mean is the weighted one.
"""

from __future__ import annotations

import math

from aotc import numpy as np
from aotc.core import dtypes
from aotc.nn.layers import is_class
from aotc.nn.normalizing import log_softmax
from aotc.nn.spatial import static_size
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
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
    "focal_loss", "gaussian_nll_loss", "huber_loss", "kl_divergence", "l1_loss",
    "mse_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


def reduce_loss(loss: Array, reduction: str, weights: Array | None = None) -> Array:
    """Return the mean, the sum or each element of a loss, as `reduction` says."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return np.sum(loss)
    if reduction != "mean":
        fail(
            "bad-reduction",
            f"expected reduction 'none', 'mean' or 'sum'; got {reduction!r}",
        )
    if weights is None:
        return np.mean(loss)
    total, count = np.sum(to_accumulator(loss)), np.sum(to_accumulator(weights))
    return np.astype(np.divide(total, count), loss.dtype)


def same_shape(predictions: ArrayLike, targets: ArrayLike) -> list[Array]:
    """Return predictions and targets as floats of one dtype; raise unless of one
    shape.
    """
    first, second = one_dtype(predictions, targets)
    if first.dtype not in dtypes.FLOATS:
        first, second = as_float(first), as_float(second)
    if first.type.shape != second.type.shape:
        fail(
            "shape-mismatch",
            f"expected predictions and targets of one shape; got {first.type} and "
            f"{second.type}",
        )
    return [first, second]


# ---- classes ------------------------------------------------------------------------


def cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Array:
    """-log softmax(logits) at the labelled class, per example.

    Args:
        logits: …, classes.
        labels: integer classes (…), or probabilities (…, classes). An integer that is
            no class, such as -1, has the loss 0 (before smoothing), and counts in a
            mean unless there are `weights` or an `ignore_index`.
        weights: of each class, or None.
        label_smoothing: the share of each label that all classes share equally.
        ignore_index: a label that stands for no class, whose loss is 0.
        reduction: see the module.
    """
    if not 0 <= label_smoothing <= 1:
        fail(
            "bad-rate",
            f"expected a label_smoothing from 0 to 1; got {label_smoothing}",
        )
    logs, labels = log_softmax(logits), lift(labels)
    if labels.dtype in dtypes.FLOATS and labels.ndim == logs.ndim:
        return _soft_cross_entropy(
            logs, labels, weights, label_smoothing, ignore_index, reduction
        )
    loss, counted = _at_labels(logs, labels, weights, ignore_index)
    if label_smoothing:
        shared = np.negative(np.mean(_weighted_classes(logs, weights), -1))
        if ignore_index is not None:
            shared = np.where(np.equal(labels, ignore_index), 0.0, shared)
        loss = _blend(loss, shared, label_smoothing)
    return reduce_loss(loss, reduction, counted)


def _soft_cross_entropy(
    logs: Array,
    labels: Array,
    weights: ArrayLike | None,
    smoothing: float,
    ignore_index: int | None,
    reduction: str,
) -> Array:
    """Return the cross entropy with labels that are probabilities."""
    if ignore_index is not None:
        fail("bad-index", "ignore_index needs integer labels")
    logs, labels = same_shape(logs, labels)
    if smoothing:
        classes = static_size(logs.shape[-1], "number of classes")
        labels = _blend(labels, np.full_like(labels, 1 / max(classes, 1)), smoothing)
    # selected, not multiplied: a class of no probability may be at -infinity
    shares = np.multiply(labels, _weighted_classes(logs, weights))
    shares = np.where(np.equal(labels, 0), 0.0, shares)
    return reduce_loss(np.negative(np.sum(shares, -1)), reduction)


def _blend(x: Array, y: Array, share: float) -> Array:
    """`(1 - share) * x + share * y`."""
    return np.add(np.multiply(x, 1 - share), np.multiply(y, share))


def nll_loss(
    log_probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Array:
    """Return minus the logarithm of the labelled class; see `cross_entropy`."""
    logs = as_float(log_probabilities)
    loss, counted = _at_labels(logs, lift(labels), weights, ignore_index)
    return reduce_loss(loss, reduction, counted)


def _at_labels(
    logs: Array, labels: Array, weights: ArrayLike | None, ignore_index: int | None
) -> tuple[Array, Array | None]:
    """Return -logs at the labelled class, weighted, and the weights of labels or None.

    None stands for equal weights.
    """
    if labels.type.shape != logs.type.shape[:-1]:
        fail(
            "shape-mismatch",
            f"expected one label per row of logits {logs.type}; got {labels.type}",
        )
    chosen = is_class(labels, static_size(logs.shape[-1], "number of classes"))
    weighted = _weighted_classes(logs, weights)
    # selected, not multiplied: the other classes may be at -infinity
    loss = np.negative(np.sum(np.where(chosen, weighted, 0.0), -1))
    if weights is None and ignore_index is None:
        return loss, None
    each = np.ones_like(logs) if weights is None else _classes_like(logs, weights)
    counted = np.sum(np.where(chosen, each, 0.0), -1)
    if ignore_index is not None:
        ignored = np.equal(labels, ignore_index)
        loss, counted = (np.where(ignored, 0.0, part) for part in (loss, counted))
    return loss, counted


def _weighted_classes(logs: Array, weights: ArrayLike | None) -> Array:
    """Multiply log probabilities by the weights of their classes."""
    return logs if weights is None else np.multiply(logs, _classes_like(logs, weights))


def _classes_like(logs: Array, weights: ArrayLike) -> Array:
    """Broadcast the weight of each class to the shape of `logs`."""
    array = lift(weights, logs.dtype)
    if array.type.shape != logs.type.shape[-1:]:
        fail(
            "shape-mismatch",
            f"expected one weight per class of {logs.type}; got {array.type}",
        )
    return np.broadcast_to(array, logs.shape)


def binary_cross_entropy(
    probabilities: ArrayLike, targets: ArrayLike, *, reduction: str = "none"
) -> Array:
    """-(t log p + (1 - t) log(1 - p)), where log 0 is taken as -100.

    `binary_cross_entropy_with_logits` takes scores before the sigmoid, and is exact for
    large ones.
    """
    p, t = same_shape(probabilities, targets)
    yes = np.multiply(t, _bounded_log(p))
    no = np.multiply(np.subtract(1.0, t), _bounded_log(np.subtract(1.0, p)))
    return reduce_loss(np.negative(np.add(yes, no)), reduction)


def _bounded_log(p: Array) -> Array:
    """Return the logarithm, at least -100; the derivative is 0 there."""
    some = np.greater(p, 0)
    return np.where(some, np.log(np.where(some, p, 1.0)), -100.0)


def binary_cross_entropy_with_logits(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    positive_weight: ArrayLike | None = None,
    reduction: str = "none",
) -> Array:
    """The binary cross entropy of sigmoid(logits), for logits of any size.

    `positive_weight` is a factor of the loss where the target is 1.
    """
    x, t = same_shape(logits, targets)
    return reduce_loss(_logistic_loss(x, t, positive_weight), reduction)


def _logistic_loss(x: Array, t: Array, positive_weight: ArrayLike | None) -> Array:
    """Return `t softplus(-x) + (1 - t) softplus(x)`, elementwise."""
    yes, no = softplus(np.negative(x)), softplus(x)
    if positive_weight is not None:
        yes = np.multiply(yes, positive_weight)
    return np.add(np.multiply(t, yes), np.multiply(np.subtract(1.0, t), no))


def focal_loss(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    alpha: float | None = None,
    gamma: float = 2.0,
    reduction: str = "none",
) -> Array:
    """The binary cross entropy times (1 - the target's probability)**gamma.

    Lin, Goyal, Girshick, He and Dollar, "Focal loss for dense object detection", 2017.

    Args:
        logits: of any shape.
        targets: 0 or 1, of the same shape.
        alpha: factor of the loss where the target is 1; 1 - alpha elsewhere.
        gamma: how much less examples count that are easy.
        reduction: see the module.
    """
    x, t = same_shape(logits, targets)
    missed = np.subtract(1.0, t)
    signed = np.multiply(x, np.subtract(missed, t))  # the target's logit, negated
    # the probability of the wrong answer, as a power that is smooth where it vanishes
    hard = np.exp(np.multiply(softplus(np.negative(signed)), -gamma))
    loss = np.multiply(hard, _logistic_loss(x, t, None))
    if alpha is not None:
        share = np.add(np.multiply(t, alpha), np.multiply(missed, 1 - alpha))
        loss = np.multiply(loss, share)
    return reduce_loss(loss, reduction)


# ---- numbers ------------------------------------------------------------------------


def mse_loss(
    predictions: ArrayLike, targets: ArrayLike, *, reduction: str = "none"
) -> Array:
    """`(prediction - target)**2` of each element, before the reduction."""
    x, t = same_shape(predictions, targets)
    return reduce_loss(np.square(np.subtract(x, t)), reduction)


def l1_loss(
    predictions: ArrayLike, targets: ArrayLike, *, reduction: str = "none"
) -> Array:
    """`|prediction - target|` of each element, before the reduction."""
    x, t = same_shape(predictions, targets)
    return reduce_loss(np.absolute(np.subtract(x, t)), reduction)


def huber_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    delta: float = 1.0,
    reduction: str = "none",
) -> Array:
    """Return half the squared difference, continued as a line from `delta` on."""
    if not delta > 0:
        fail("bad-delta", f"expected a delta above 0; got {delta}")
    x, t = same_shape(predictions, targets)
    size = np.absolute(np.subtract(x, t))
    near = np.minimum(size, delta)
    line = np.multiply(np.subtract(size, near), delta)
    return reduce_loss(np.add(np.multiply(np.square(near), 0.5), line), reduction)


def smooth_l1_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    beta: float = 1.0,
    reduction: str = "none",
) -> Array:
    """`huber_loss` divided by its delta, `beta`; a `beta` of 0 gives `l1_loss`."""
    if beta == 0:
        return l1_loss(predictions, targets, reduction=reduction)
    loss = huber_loss(predictions, targets, delta=beta, reduction=reduction)
    return np.divide(loss, beta)


# ---- distributions ------------------------------------------------------------------


def kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    *,
    log_targets: bool = False,
    reduction: str = "none",
) -> Array:
    """`t (log t - log p)`, element by element; 0 where t is 0.

    Args:
        log_predictions: log p.
        targets: t, or log t with `log_targets`.
        log_targets: which of the two.
        reduction: see the module.
    """
    logs, t = same_shape(log_predictions, targets)
    if log_targets:
        loss = np.multiply(np.exp(t), np.subtract(t, logs))
        return reduce_loss(loss, reduction)
    some = np.greater(t, 0)
    entropy = np.log(np.where(some, t, 1.0))
    loss = np.multiply(t, np.subtract(entropy, logs))
    return reduce_loss(np.where(some, loss, 0.0), reduction)


def poisson_nll_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    log_input: bool = True,
    epsilon: float = 1e-8,
    reduction: str = "none",
) -> Array:
    """Return minus the logarithm of a Poisson distribution at the target, but for a
    constant.

    Args:
        predictions: the rate, or its logarithm with `log_input`.
        targets: counts.
        log_input: which of the two.
        epsilon: added to a rate before its logarithm.
        reduction: see the module.
    """
    x, t = same_shape(predictions, targets)
    if log_input:
        return reduce_loss(np.subtract(np.exp(x), np.multiply(t, x)), reduction)
    logs = np.log(np.add(x, epsilon))
    return reduce_loss(np.subtract(x, np.multiply(t, logs)), reduction)


def gaussian_nll_loss(
    means: ArrayLike,
    targets: ArrayLike,
    variances: ArrayLike,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "none",
) -> Array:
    """Return minus the logarithm of a normal distribution at the target.

    Args:
        means: of any shape.
        targets: of the same shape.
        variances: broadcast to it; no less than `epsilon` is taken.
        full: whether to add the constant, log(2 pi) / 2.
        epsilon: the least variance.
        reduction: see the module.
    """
    m, t = same_shape(means, targets)
    variance = np.maximum(np.broadcast_to(lift(variances, m.dtype), m.shape), epsilon)
    distance = np.divide(np.square(np.subtract(m, t)), variance)
    loss = np.multiply(np.add(np.log(variance), distance), 0.5)
    if full:
        loss = np.add(loss, 0.5 * math.log(2 * math.pi))
    return reduce_loss(loss, reduction)
