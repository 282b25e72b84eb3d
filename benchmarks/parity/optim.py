"""aotc.optim against Optax: the same settings, parameters and gradients for 20 steps.

Optimizers and schedules are written once, in the names that both libraries have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import optax

from aotc import optim
from benchmarks.parity.agreement import Compared, given

STEPS = 20
DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
COUNTS = [0, 1, 2, 3, 5, 7, 10, 19, 20, 21, 100, 12345]
Setting = Callable[[Any], Any]

# ---- settings -----------------------------------------------------------------------

SCHEDULES: dict[str, Setting] = {
    "constant_schedule": lambda o: o.constant_schedule(0.1),
    "linear_schedule": lambda o: o.linear_schedule(0.3, 0.01, 10, 3),
    "linear_schedule, no steps": lambda o: o.linear_schedule(0.3, 0.01, 0),
    "polynomial_schedule": lambda o: o.polynomial_schedule(0.3, 0.01, 2.5, 15),
    "cosine_decay_schedule": lambda o: o.cosine_decay_schedule(0.3, 20, 0.1, 1.5),
    "exponential_decay": lambda o: o.exponential_decay(0.3, 5, 0.7, 2),
    "exponential_decay, stairs": lambda o: o.exponential_decay(
        0.3, 5, 0.7, 2, True, 0.1
    ),
    "exponential_decay, growing": lambda o: o.exponential_decay(
        0.1, 5, 1.3, end_value=0.4
    ),
    "piecewise_constant_schedule": lambda o: o.piecewise_constant_schedule(
        0.3, {10: 0.5, 3: 0.1}
    ),
    "join_schedules": lambda o: o.join_schedules(
        [o.linear_schedule(0.0, 0.3, 5), o.constant_schedule(0.3)], [5]
    ),
    "warmup_constant_schedule": lambda o: o.warmup_constant_schedule(0.0, 0.3, 5),
    "warmup_cosine_decay_schedule": lambda o: o.warmup_cosine_decay_schedule(
        0.0, 0.3, 5, 20, 0.01, 2.0
    ),
    "warmup_cosine_decay_schedule, no warm-up": (
        lambda o: o.warmup_cosine_decay_schedule(0.0, 0.3, 0, 20)
    ),
    "warmup_exponential_decay_schedule": (
        lambda o: o.warmup_exponential_decay_schedule(0.0, 0.3, 5, 4, 0.5, 2)
    ),
}


def matrices(tree: Any) -> Any:
    """Return a mask that is true for arrays with two axes."""
    return {name: x.ndim > 1 for name, x in tree.items()}


OPTIMIZERS: dict[str, Setting] = {
    "sgd": lambda o: o.sgd(0.1),
    "sgd, momentum": lambda o: o.sgd(0.1, 0.9),
    "sgd, nesterov": lambda o: o.sgd(0.1, 0.9, True),
    "adagrad": lambda o: o.adagrad(0.1),
    "adagrad, from 0": lambda o: o.adagrad(0.1, 0.0, 1e-3),
    "rmsprop": lambda o: o.rmsprop(0.1),
    "rmsprop, momentum": lambda o: o.rmsprop(0.1, 0.95, momentum=0.9, nesterov=True),
    "rmsprop, eps apart": lambda o: o.rmsprop(
        0.1, eps=1e-3, initial_scale=0.5, eps_in_sqrt=False
    ),
    "rmsprop, corrected": lambda o: o.rmsprop(0.1, bias_correction=True),
    "rmsprop, centered": lambda o: o.rmsprop(0.1, centered=True, momentum=0.5),
    "rmsprop, centered, corrected": lambda o: o.rmsprop(
        0.1, eps=1.0, centered=True, bias_correction=True
    ),
    "adam": lambda o: o.adam(0.1),
    "adam, other rates": lambda o: o.adam(0.1, 0.5, 0.9, 1e-3, 1e-4),
    "adam, no averages": lambda o: o.adam(0.1, 0.0, 0.0),
    "adam, nesterov": lambda o: o.adam(0.1, nesterov=True),
    "nadam": lambda o: o.nadam(0.1),
    "nadamw": lambda o: o.nadamw(0.1, weight_decay=0.1),
    "adamw": lambda o: o.adamw(0.1),
    "adamw, masked": lambda o: o.adamw(0.1, weight_decay=0.1, mask=matrices),
    "adamax": lambda o: o.adamax(0.1, 0.8, 0.9),
    "adamaxw": lambda o: o.adamaxw(0.1, weight_decay=0.1, mask=matrices),
    "adadelta": lambda o: o.adadelta(1.0),
    "adadelta, decay": lambda o: o.adadelta(
        0.5, 0.8, 1e-4, weight_decay=0.1, weight_decay_mask=matrices
    ),
    "lion": lambda o: o.lion(0.1),
    "lion, masked": lambda o: o.lion(0.1, 0.8, 0.95, weight_decay=0.1, mask=matrices),
    "lamb": lambda o: o.lamb(0.1),
    "lamb, decay": lambda o: o.lamb(0.1, weight_decay=0.1, mask=matrices),
    "adafactor": lambda o: o.adafactor(0.1),
    "adafactor, factored": lambda o: o.adafactor(0.1, 4, momentum=0.9),
    "adafactor, plain": lambda o: o.adafactor(
        0.1, 4, 0.7, multiply_by_parameter_scale=False, clipping_threshold=None,
        weight_decay_rate=0.01, weight_decay_mask=matrices,
    ),
    "clip": lambda o: o.chain(o.clip(0.5), o.sgd(0.1)),
    "clip_by_global_norm": lambda o: o.chain(o.clip_by_global_norm(1.0), o.adam(0.1)),
    "clip_by_global_norm, larger": lambda o: o.chain(
        o.clip_by_global_norm(1e3), o.sgd(0.1)
    ),
    "clip_by_block_rms": lambda o: o.chain(o.clip_by_block_rms(0.5), o.sgd(0.1)),
    "add_decayed_weights": lambda o: o.chain(
        o.add_decayed_weights(0.1, matrices), o.scale(-0.1)
    ),
    "masked": lambda o: o.chain(o.masked(o.adam(1.0), matrices), o.scale(0.1)),
    "set_to_zero": lambda o: o.chain(o.sgd(0.1), o.masked(o.set_to_zero(), matrices)),
    "scale_by_trust_ratio": lambda o: o.chain(
        o.scale_by_trust_ratio(0.1, 0.5, 1e-3), o.scale(-0.1)
    ),
    "scale_by_param_block_norm": lambda o: o.chain(
        o.scale_by_param_block_norm(), o.scale(-0.01)
    ),
    "ema": lambda o: o.chain(o.ema(0.9), o.scale(-0.1)),
    "ema, biased": lambda o: o.chain(o.ema(0.9, False), o.scale(-0.1)),
    "MultiSteps": lambda o: o.MultiSteps(o.adam(0.1), 3),
    "MultiSteps, sums": lambda o: o.MultiSteps(
        o.sgd(0.1, 0.9), lambda step: step % 3 + 1, False
    ),
    "apply_if_finite": lambda o: o.apply_if_finite(o.adam(0.1), 2),
}  # fmt: skip
# those with numbers that one of the two libraries always computes in f32
IN_F32 = {
    f"adamw, {name}": lambda o, rate=rate: o.adamw(rate(o), weight_decay=0.01)
    for name, rate in SCHEDULES.items()
} | {
    "add_decayed_weights, schedule": lambda o: o.chain(
        o.add_decayed_weights(o.linear_schedule(0.1, 0.0, 10)), o.scale(-0.1)
    )
}
ONLY_F32 = ("adafactor", "MultiSteps")


# ---- comparison ---------------------------------------------------------------------


def compared() -> Iterator[Compared]:
    """Yield all optimizers and schedules beside optax's."""
    for setting, make in SCHEDULES.items():
        ours = [float(make(optim)(np.int32(count))) for count in COUNTS]
        theirs = [float(make(optax)(count)) for count in COUNTS]
        name = setting.partition(",")[0]
        told = ("optim", name, setting, "optax", "cancelling")
        yield Compared(*told, np.float32(ours), np.float32(theirs))
    for setting, make in {**OPTIMIZERS, **IN_F32}.items():
        in_f32 = setting in IN_F32 or setting.startswith(ONLY_F32)
        for dtype in ("f32", "bf16") if in_f32 else DTYPES:
            yield stepped(setting, make, dtype)
    for name in sorted(set(optim.__all__) & set(dir(optax))):
        if inspect.isfunction(getattr(optim, name)):
            ours = fits(getattr(optim, name), getattr(optax, name))
            told = ("optim", name, "arguments", "optax", "exact")
            yield Compared(*told, np.array(ours), np.array(True))


def stepped(setting: str, make: Setting, dtype: str) -> Compared:
    """Return the parameters after each step beside optax's."""
    params, grads = drawn(dtype, with_inf=setting == "apply_if_finite")
    ours = trajectory(optim, make(optim), params, grads)
    theirs = trajectory(optax, make(optax), *given("jax", (params, grads)))
    told = (setting.partition(",")[0], f"{setting}, {dtype}", "optax", "accumulated")
    return Compared("optim", *told, ours, theirs)


def drawn(dtype: str, with_inf: bool) -> tuple[Any, list[Any]]:
    """Return random parameters, and gradients for each step."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (12, 8), "filter": (3, 2, 4, 5), "bias": (8,), "gain": ()}

    def tree(sparse: bool) -> dict[str, Any]:
        arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        if sparse:
            arrays["bias"][:2] = 0.0
        return {name: np.asarray(x, DTYPES[dtype]) for name, x in arrays.items()}

    params, grads = tree(False), [tree(True) for _ in range(STEPS)]
    if with_inf:
        for step in (4, 9, 10):
            grads[step]["kernel"][3, 2] = np.inf
    return params, grads


def trajectory(library: Any, optimizer: Any, params: Any, grads: list[Any]) -> Any:
    """Return the parameters after each gradient."""
    state, found = optimizer.init(params), []
    for grad in grads:
        updates, state = optimizer.update(grad, state, params)
        params = library.apply_updates(params, updates)
        found.append(params)
    return found


def fits(ours: Any, theirs: Any) -> bool:
    """Return whether a peer's signature has aotc's names, order and defaults.

    It may have more of them, if they have defaults.
    """
    known = list(inspect.signature(theirs).parameters.values())
    for own in inspect.signature(ours).parameters.values():
        same = [each for each in known if each.name == own.name]
        if not same or same[0].kind != own.kind:
            return False
        if not _same_default(own.default, same[0].default):
            return False
    names = list(inspect.signature(ours).parameters)
    order = [each.name for each in known if each.name in names]
    rest = [each for each in known if each.name not in names]
    return order == names and all(each.default is not each.empty for each in rest)


def _same_default(ours: Any, theirs: Any) -> bool:
    """Return whether a default value equals the peer's."""
    if isinstance(ours, str):  # a dtype
        return bool(np.dtype(theirs) == np.dtype({"f32": "float32"}[ours]))
    return bool(ours == theirs)
