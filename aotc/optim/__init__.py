"""Optimizers as pure functions, in optax's shape and under its names.

    optimizer = optim.adamw(optim.cosine_decay_schedule(1e-3, 10_000))
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = optim.apply_updates(params, updates)

Parameters, gradients and states are pytrees of arrays. An optimizer is a chain of
gradient transformations and compiles into the training step like everything else; the
elementwise updates of several parameters, and of what is kept of them, are one kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.optim.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.optim.namespace")
