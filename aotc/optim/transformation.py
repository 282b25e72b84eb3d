"""Gradient transformations, of which optimizers consist, and their composition.

updates, state = optimizer.update(grads, state, params)
params = optim.apply_updates(params, updates)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from aotc.core.pytree import flatten
from aotc.numpy.creation import zeros_like
from aotc.optim.numbers import in_dtype, number
from aotc.optim.trees import Tree, leafwise, like
from aotc.random.rounding import stochastic_round
from aotc.random.threefry import split
from aotc.tracing.array import Array
from aotc.tracing.calls import shown_value
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail

__all__ = [
    "EmptyState", "GradientTransformation", "apply_updates", "chain", "identity",
    "incremental_update", "set_to_zero", "stateless",
]  # fmt: skip

State = TypeVar("State")


class Update(Protocol):
    """Protocol of an update function: (updates, state, params) → (updates, state)."""

    def __call__(
        self, updates: Tree, state: Tree, params: Tree = None
    ) -> tuple[Tree, Tree]:
        """Return the transformed updates, in the same structure, and the new state."""


class GradientTransformation(NamedTuple):
    """A pair of pure functions `init` and `update` on pytrees, as in optax.

    Args:
        init: params → state, a pytree of arrays.
        update: (updates, state, params) → (new updates, new state). Updates are
            gradients at first, and what is to be added to the parameters at last.
            Some transformations need no params.
    """

    init: Callable[[Tree], Tree]
    update: Update


class EmptyState(NamedTuple):
    """The state of a stateless transformation."""


# ---- how they are made --------------------------------------------------------------


def stateless(f: Callable[[Tree, Tree], Tree]) -> GradientTransformation:
    """Return the transformation of a function (updates, params) → updates, without
    state.

    Args:
        f: (updates, params) → new updates; params may be None.
    """

    def update(updates: Tree, state: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        return f(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def stateful(
    kind: type[State],
    init: Callable[[Tree], Tree],
    update: Callable[[Tree, State, Tree], tuple[Tree, Tree]],
) -> GradientTransformation:
    """Return a transformation of `init` and `update` that checks its state's class."""

    def checked_update(
        updates: Tree, state: Tree, params: Tree = None
    ) -> tuple[Tree, Tree]:
        return update(updates, require_state(kind, state), params)

    return GradientTransformation(init, checked_update)


def require_state(kind: type[State], state: Tree) -> State:
    """Return a state; raise if it is not of this transformation's class."""
    if not isinstance(state, kind):
        fail(
            "bad-state",
            "expected the state that `init` or the last `update` of this optimizer "
            f"returned, a {kind.__name__}; got {shown_value(state)}",
        )
    return state


def require_params(params: Tree) -> Tree:
    """Return the parameters; raise if `update` was called without them."""
    if params is None:
        fail(
            "no-params",
            "this optimizer needs the parameters",
            "call update(grads, state, params)",
        )
    return params


def identity() -> GradientTransformation:
    """Return the transformation that leaves updates as they are."""
    return stateless(lambda updates, params: updates)


def set_to_zero() -> GradientTransformation:
    """Return the transformation that replaces updates by zeros."""
    return stateless(lambda updates, params: leafwise(zeros_like, updates))


def chain(*args: GradientTransformation) -> GradientTransformation:
    """Return the composition of transformations; its state is a tuple of theirs."""

    def init(params: Tree) -> Tree:
        return tuple(each.init(params) for each in args)

    def update(updates: Tree, state: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        if not isinstance(state, tuple) or len(state) != len(args):
            fail(
                "bad-state",
                f"expected the states of {len(args)} transformations; "
                f"got {shown_value(state)}",
                "start with the state that `init` of the same optimizer returns",
            )
        states = []
        for each, old in zip(args, state, strict=True):
            updates, new = each.update(updates, old, params)
            states.append(new)
        return updates, tuple(states)

    return GradientTransformation(init, update)


# ---- how parameters change ----------------------------------------------------------


def apply_updates(params: Tree, updates: Tree, key: ArrayLike | None = None) -> Tree:
    """Return params + updates, in the dtypes of the old parameters.

    Args:
        params: a pytree of float arrays.
        updates: one of the same form and shapes.
        key: a random key (u32[2]), another one in each step. With it parameters of bf16
            are added to in f32 and rounded by chance
            (`aotc.random.stochastic_round`), so that updates too small to change them
            count in the mean.

    Raises:
        InputError: the trees differ in form or shapes, or hold something else than
            floats; `bad-key`; `bad-dtype`: with a key, parameters of f16.
    """
    if key is None:
        return like(leafwise(lambda p, u: p + u, params, updates), params)
    sums = leafwise(lambda p, u: p + u, leafwise(_wide, params), updates)
    leaves, structure = flatten(params)
    keys = split(key, len(leaves))
    found = zip(leaves, flatten(sums)[0], strict=True)
    return structure.unflatten(
        [
            stochastic_round(keys[i], total)
            if lift(old).dtype == "bf16"
            else astype(total, lift(old).dtype)
            for i, (old, total) in enumerate(found)
        ]
    )


def _wide(params: Array) -> Array:
    """Cast bf16 parameters to f32, for sums that are rounded stochastically."""
    if params.dtype == "f16":
        fail(
            "bad-dtype",
            f"expected parameters of bf16, or wider, to round by chance; got "
            f"{params.type}",
            "keep them in bf16, or call apply_updates without a key",
        )
    return astype(params, "f32") if params.dtype == "bf16" else params


def incremental_update(
    new_tensors: Tree, old_tensors: Tree, step_size: ArrayLike
) -> Tree:
    """step_size * new + (1 - step_size) * old: a moving average of parameters.

    Args:
        new_tensors: a pytree of float arrays.
        old_tensors: one of the same form and shapes.
        step_size: a number or a float scalar.
    """
    weight = number("step_size", step_size)

    def interpolate(new: Array, old: Array) -> Array:
        part = in_dtype(weight, new.dtype)
        return part * new + (1.0 - part) * old

    return leafwise(interpolate, new_tensors, old_tensors)
