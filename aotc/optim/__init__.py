"""Optimizers as pure functions, in optax's shape and under its names.

    optimizer = optim.adamw(optim.cosine_decay_schedule(1e-3, 10_000))
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = optim.apply_updates(params, updates)

Parameters, gradients and states are pytrees of arrays. An optimizer is a chain of
gradient transformations and compiles into the training step like everything else; its
elementwise updates become one loop for each parameter and what is kept of it.
"""

from __future__ import annotations

from aotc.optim.adaptive import (
    ScaleByAdaDeltaState,
    ScaleByAdamState,
    ScaleByLionState,
    scale_by_adadelta,
    scale_by_adam,
    scale_by_adamax,
    scale_by_lion,
)
from aotc.optim.clipping import (
    clip,
    clip_by_block_rms,
    clip_by_global_norm,
    global_norm,
)
from aotc.optim.factored import (
    FactoredState,
    scale_by_factored_rms,
)
from aotc.optim.loss_scaling import DynamicLossScaleState, dynamic_loss_scale
from aotc.optim.masking import (
    MaskedNode,
    MaskedState,
    masked,
)
from aotc.optim.moments import (
    EmaState,
    ScaleByRmsState,
    ScaleByRmsWithCountState,
    ScaleByRssState,
    ScaleByRStdDevState,
    ScaleByRStdDevWithCountState,
    TraceState,
    ema,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
    trace,
)
from aotc.optim.numbers import (
    Schedule,
)
from aotc.optim.optimizers import (
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamaxw,
    adamw,
    lamb,
    lion,
    nadam,
    nadamw,
    rmsprop,
    sgd,
)
from aotc.optim.scaling import (
    ScaleByScheduleState,
    WeightDecaySchedule,
    add_decayed_weights,
    scale,
    scale_by_learning_rate,
    scale_by_param_block_norm,
    scale_by_param_block_rms,
    scale_by_schedule,
    scale_by_trust_ratio,
)
from aotc.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_constant_schedule,
    warmup_cosine_decay_schedule,
    warmup_exponential_decay_schedule,
)
from aotc.optim.transformation import (
    EmptyState,
    GradientTransformation,
    apply_updates,
    chain,
    identity,
    incremental_update,
    set_to_zero,
    stateless,
)
from aotc.optim.wrapping import (
    ApplyIfFiniteState,
    MultiSteps,
    MultiStepsState,
    apply_if_finite,
)
from aotc.tracing.calls import guard

__all__ = [
    "ApplyIfFiniteState",
    "DynamicLossScaleState",
    "EmaState",
    "EmptyState",
    "FactoredState",
    "GradientTransformation",
    "MaskedNode",
    "MaskedState",
    "MultiSteps",
    "MultiStepsState",
    "ScaleByAdaDeltaState",
    "ScaleByAdamState",
    "ScaleByLionState",
    "ScaleByRStdDevState",
    "ScaleByRStdDevWithCountState",
    "ScaleByRmsState",
    "ScaleByRmsWithCountState",
    "ScaleByRssState",
    "ScaleByScheduleState",
    "Schedule",
    "TraceState",
    "WeightDecaySchedule",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "add_decayed_weights",
    "apply_if_finite",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "dynamic_loss_scale",
    "ema",
    "exponential_decay",
    "global_norm",
    "identity",
    "incremental_update",
    "join_schedules",
    "lamb",
    "linear_schedule",
    "lion",
    "masked",
    "nadam",
    "nadamw",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "rmsprop",
    "scale",
    "scale_by_adadelta",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_factored_rms",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_param_block_norm",
    "scale_by_param_block_rms",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "scale_by_trust_ratio",
    "set_to_zero",
    "sgd",
    "stateless",
    "trace",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]

guard(globals(), __all__)
