"""Optimizers: the usual chains of transformations, under optax's names and arguments.

A `learning_rate` is a number, a float scalar, or a schedule. A `mask` says which
parameters decay: a pytree of True and False, or a function that returns one for the
parameters.
"""

from __future__ import annotations

from aotc.core.dtypes import DTypeLike
from aotc.optim.adaptive import (
    scale_by_adadelta,
    scale_by_adam,
    scale_by_adamax,
    scale_by_lion,
)
from aotc.optim.clipping import clip_by_block_rms
from aotc.optim.factored import scale_by_factored_rms
from aotc.optim.moments import ema, scale_by_rms, scale_by_rss, scale_by_stddev, trace
from aotc.optim.numbers import Rate
from aotc.optim.scaling import (
    add_decayed_weights,
    scale,
    scale_by_learning_rate,
    scale_by_param_block_rms,
    scale_by_trust_ratio,
)
from aotc.optim.transformation import GradientTransformation, chain, identity

__all__ = [
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "lamb",
    "lion", "nadam", "nadamw", "rmsprop", "sgd",
]  # fmt: skip


def sgd(
    learning_rate: Rate,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Return stochastic gradient descent; see `trace` for momentum."""
    return chain(
        _momentum(momentum, nesterov, accumulator_dtype),
        scale_by_learning_rate(learning_rate),
    )


def adagrad(
    learning_rate: Rate, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Return the optimizer Adagrad; see `scale_by_rss`."""
    return chain(
        scale_by_rss(initial_accumulator_value, eps),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: Rate,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return RMSProp; see `scale_by_rms`, and `scale_by_stddev` for `centered`."""
    scaled = scale_by_stddev if centered else scale_by_rms
    return chain(
        scaled(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        _momentum(momentum, nesterov),
    )


def adam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return the optimizer Adam; see `scale_by_adam`."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def nadam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
) -> GradientTransformation:
    """Return the optimizer Adam with Nesterov's momentum; see `scale_by_adam`."""
    return adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)


def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: Rate = 1e-4,
    mask: object = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return Adam with decoupled weight decay; see `add_decayed_weights`."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def nadamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: Rate = 1e-4,
    mask: object = None,
    *,
    nesterov: bool = True,
) -> GradientTransformation:
    """Return the optimizer NAdam with decoupled weight decay."""
    return adamw(
        learning_rate,
        b1,
        b2,
        eps,
        eps_root,
        mu_dtype,
        weight_decay,
        mask,
        nesterov=nesterov,
    )


def adamax(
    learning_rate: Rate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """Return the optimizer Adam by the largest gradient; see `scale_by_adamax`."""
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: Rate = 1e-4,
    mask: object = None,
) -> GradientTransformation:
    """Return the optimizer Adamax with decoupled weight decay."""
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def adadelta(
    learning_rate: Rate | None = None,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: Rate = 0.0,
    weight_decay_mask: object = None,
) -> GradientTransformation:
    """Return the optimizer Adadelta; see `scale_by_adadelta`."""
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: Rate = 1e-3,
    mask: object = None,
) -> GradientTransformation:
    """Return the optimizer Lion; see `scale_by_lion`."""
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def lamb(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: Rate = 0.0,
    mask: object = None,
) -> GradientTransformation:
    """Return Adam with a trust ratio for each array; see `scale_by_trust_ratio`.

    You et al., "Large batch optimization for deep learning: training BERT in 76
    minutes", ICLR 2020.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate: Rate | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: DTypeLike = "f32",
    weight_decay_rate: Rate | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: object = None,
) -> GradientTransformation:
    """Return the optimizer Adafactor; see `scale_by_factored_rms`.

    Args:
        learning_rate: 1 if not given, beside the scale of the parameters.
        min_dim_size_to_factor: the size from which matrices are factored.
        decay_rate: of the average of squares.
        decay_offset: the number of steps that do not count in it.
        multiply_by_parameter_scale: see `scale_by_param_block_rms`.
        clipping_threshold: see `clip_by_block_rms`; None for no clipping.
        momentum: how much of the average of updates is kept; None for no average.
        dtype_momentum: of this average.
        weight_decay_rate: how much of the parameters is taken off, not scaled by the
            learning rate; None for nothing.
        eps: added to squares.
        factored: False to keep all squares.
        weight_decay_mask: which parameters decay.
    """
    steps = [
        scale_by_factored_rms(
            factored, decay_rate, decay_offset, min_dim_size_to_factor, eps
        )
    ]
    if clipping_threshold is not None:
        steps.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        steps.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        steps.append(scale_by_param_block_rms())
    if momentum is not None:
        steps.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        steps.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*steps, scale(-1))


def _momentum(
    decay: float | None, nesterov: bool, dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Return the momentum transformation; the identity for a decay of None."""
    return identity() if decay is None else trace(decay, nesterov, dtype)
