"""Gradient transformations: what optimizers are made of, and how they are put together.

updates, state = optimizer.update(grads, state, params)
params = optim.apply_updates(params, updates)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from aotc.numpy.creation import zeros_like
from aotc.optim.numbers import in_dtype, number
from aotc.optim.trees import Tree, leafwise, like
from aotc.tracing.array import Array
from aotc.tracing.calls import shown_value
from aotc.tracing.source_locations import fail


class Update(Protocol):
    """How gradients are transformed: (updates, state, params) → (updates, state)."""

    def __call__(
        self, updates: Tree, state: Tree, params: Tree = None
    ) -> tuple[Tree, Tree]:
        """New updates, of the form of the old ones, and the new state."""


class GradientTransformation(NamedTuple):
    """A pair of pure functions on pytrees, as optax has it.

    Args:
        init: params → state, a pytree of arrays.
        update: (updates, state, params) → (new updates, new state). Updates are
            gradients at first, and what is to be added to the parameters at last.
            Some transformations need no params.
    """

    init: Callable[[Tree], Tree]
    update: Update


class EmptyState(NamedTuple):
    """The state of what keeps nothing."""


# ---- how they are made --------------------------------------------------------------


def stateless(f: Callable[[Tree, Tree], Tree]) -> GradientTransformation:
    """A transformation that keeps nothing.

    Args:
        f: (updates, params) → new updates; params may be None.
    """

    def update(updates: Tree, state: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        return f(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def stateful(
    kind: type,
    init: Callable[[Tree], Tree],
    update: Callable[[Tree, Any, Tree], tuple[Tree, Tree]],
) -> GradientTransformation:
    """A transformation whose states are named tuples of a kind."""

    def checked_update(
        updates: Tree, state: Tree, params: Tree = None
    ) -> tuple[Tree, Tree]:
        return update(updates, require_state(kind, state), params)

    return GradientTransformation(init, checked_update)


def require_state(kind: type, state: Tree) -> Any:
    """Refuse a state that is not of this transformation; returns it."""
    if not isinstance(state, kind):
        fail(
            "bad-state",
            "expected the state that `init` or the last `update` of this optimizer "
            f"returned, a {kind.__name__}; got {shown_value(state)}",
        )
    return state


def require_params(params: Tree) -> Tree:
    """Refuse an update without the parameters; returns them."""
    if params is None:
        fail(
            "no-params",
            "this optimizer needs the parameters",
            "call update(grads, state, params)",
        )
    return params


def identity() -> GradientTransformation:
    """Updates as they are."""
    return stateless(lambda updates, params: updates)


def set_to_zero() -> GradientTransformation:
    """No updates: what they would have been added to stays."""
    return stateless(lambda updates, params: leafwise(zeros_like, updates))


def chain(*args: GradientTransformation) -> GradientTransformation:
    """One transformation after the other; the state is a tuple of theirs."""

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


def apply_updates(params: Tree, updates: Tree) -> Tree:
    """New parameters: params + updates, in the dtypes of the old ones.

    Args:
        params: a pytree of float arrays.
        updates: one of the same form and shapes.
    """
    return like(leafwise(lambda p, u: p + u, params, updates), params)


def incremental_update(new_tensors: Tree, old_tensors: Tree, step_size: Any) -> Tree:
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
