"""Optimizers that step only when enough gradients have come, or finite ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, NoReturn

import numpy

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.core.pytree import PyTree, tree_map
from aotc.optim.numbers import in_each_dtype, increment, natural, zero_count
from aotc.optim.transformation import GradientTransformation, require_state, stateful
from aotc.optim.trees import Tree, float_dtype, float_leaves, leafwise, like, zeros_like
from aotc.tracing.array import Array
from aotc.tracing.calls import shown_value
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail

__all__ = ["ApplyIfFiniteState", "MultiSteps", "MultiStepsState", "apply_if_finite"]


def select_tree(flag: Array, new: Tree, old: Tree) -> Tree:
    """Return `new` where a scalar flag is true, else `old`, leaf by leaf."""
    return tree_map(lambda x, y: np.where(flag, x, y), new, old)


# ---- gradients of several steps -----------------------------------------------------


class MultiStepsState(NamedTuple):
    """State of `MultiSteps`: counts, accumulated gradients, and the inner state.

    Args:
        mini_step: how many gradients were added since the last step (i32).
        gradient_step: the number of steps (i32).
        inner_opt_state: the state of the optimizer.
        acc_grads: the mean or the sum of these gradients.
    """

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any


class MultiSteps:
    """An optimizer that accumulates gradients of several calls before each step.

    Updates between the steps are zeros. It has `init` and `update` of its own, and is a
    part of other transformations by `gradient_transformation()`.

    Args:
        opt: what the mean of gradients is given to.
        every_k_schedule: how many gradients make a step: an integer, or a function of
            the number of steps that returns an i32 scalar.
        use_grad_mean: False for the sum of gradients.
        accumulator_dtype: of their mean or sum.
    """

    def __init__(
        self,
        opt: GradientTransformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
        *,
        accumulator_dtype: DTypeLike = "f32",
    ) -> None:
        if not isinstance(opt, GradientTransformation):
            fail(
                "bad-argument",
                f"expected 'opt' to be an optimizer; got {shown_value(opt)}",
            )
        self._opt = opt
        self._gradients_per_step = _gradients_per_step(every_k_schedule)
        self._mean = use_grad_mean
        self._dtype = float_dtype(accumulator_dtype)

    def init(self, params: Tree) -> MultiStepsState:
        """Return the state before the first gradient."""
        return MultiStepsState(
            mini_step=zero_count(),
            gradient_step=zero_count(),
            inner_opt_state=self._opt.init(params),
            acc_grads=zeros_like(params, self._dtype),
        )

    def update(
        self, updates: Tree, state: Any, params: Tree = None
    ) -> tuple[Tree, MultiStepsState]:
        """Return zeros, or at every k-th call the optimizer's updates; and the new
        state.
        """
        old = require_state(MultiStepsState, state)
        total = leafwise(self._accumulator(old.mini_step), updates, old.acc_grads)
        found, inner = self._opt.update(
            like(total, updates), old.inner_opt_state, params
        )
        full = np.equal(old.mini_step, self._gradients_per_step(old.gradient_step) - 1)
        new = MultiStepsState(
            mini_step=np.where(full, 0, increment(old.mini_step)),
            gradient_step=np.where(
                full, increment(old.gradient_step), old.gradient_step
            ),
            inner_opt_state=select_tree(full, inner, old.inner_opt_state),
            acc_grads=select_tree(
                full, zeros_like(old.acc_grads), like(total, old.acc_grads)
            ),
        )
        return select_tree(full, found, zeros_like(found)), new

    def has_updated(self, state: PyTree) -> Array:
        """Return whether the last update was a step: a bool scalar."""
        state = require_state(MultiStepsState, state)
        return np.logical_and(
            np.equal(state.mini_step, 0), np.greater(state.gradient_step, 0)
        )

    def gradient_transformation(self) -> GradientTransformation:
        """Return the optimizer as a pair of functions."""
        return GradientTransformation(self.init, self.update)

    def _accumulator(self, count: ArrayLike) -> Callable[[Array, Array], Array]:
        """Return a function (update, total) that adds an update to the mean or sum."""
        if not self._mean:
            return lambda update, total: update + total
        # the mean of the first ones moves towards the next one, and never overflows
        weight = in_each_dtype(lambda dtype: 1.0 / (np.astype(count, dtype) + 1.0))
        return lambda update, mean: mean + (update - mean) * weight(mean)


def _gradients_per_step(k: object) -> Callable[[Any], Any]:
    """Return a function from the step count to the number of gradients in a step."""
    if callable(k):
        return lambda count: _as_count(k(count))
    number = _as_count(k)
    if not isinstance(number, int) or number < 1:
        _fail_to_count(k)
    return lambda count: number


def _as_count(k: object) -> object:
    """Return an int, or an i32 scalar array; raise for others."""
    if isinstance(k, int | numpy.integer) and not isinstance(k, bool):
        return int(k)
    array = lift(k)
    if array.ndim or array.dtype != "i32":
        _fail_to_count(k)
    return array


def _fail_to_count(k: object) -> NoReturn:
    """Raise `InputError` for an invalid `every_k_schedule`."""
    fail(
        "bad-number",
        "expected 'every_k_schedule' to be 1 or more, or a function that returns an "
        f"i32 scalar; got {shown_value(k)}",
    )


# ---- finite gradients ---------------------------------------------------------------


class ApplyIfFiniteState(NamedTuple):
    """State of `apply_if_finite`: counts of non-finite gradients, and the inner state.

    Args:
        notfinite_count: how often in a row (i32).
        last_finite: whether the last ones were (bool).
        total_notfinite: how often in all (i32).
        inner_state: the state of the optimizer.
    """

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformation:
    """Return `inner`, which skips steps whose gradients are infinite or NaN.

    Args:
        inner: any optimizer.
        max_consecutive_errors: after so many such gradients in a row, the next one is
            taken as it is, so that the failure is seen.
    """
    natural("max_consecutive_errors", max_consecutive_errors)

    def init(params: Tree) -> Tree:
        return ApplyIfFiniteState(
            zero_count(), np.asarray(True), zero_count(), inner.init(params)
        )

    def update(
        updates: Tree, state: ApplyIfFiniteState, params: Tree
    ) -> tuple[Tree, Tree]:
        finite = all_finite(updates)
        in_a_row = np.where(finite, 0, increment(state.notfinite_count))
        total = state.total_notfinite
        taken = np.logical_or(finite, np.greater(in_a_row, max_consecutive_errors))
        found, inner_state = inner.update(updates, state.inner_state, params)
        new = ApplyIfFiniteState(
            notfinite_count=in_a_row,
            last_finite=finite,
            total_notfinite=np.where(finite, total, increment(total)),
            inner_state=select_tree(taken, inner_state, state.inner_state),
        )
        return select_tree(taken, found, zeros_like(found)), new

    return stateful(ApplyIfFiniteState, init, update)


def all_finite(tree: Tree) -> Array:
    """Return whether all elements of a tree of floats are finite: a bool scalar."""
    parts = [np.all(np.isfinite(x)) for x in float_leaves(tree)]
    return reduce(np.logical_and, parts, np.asarray(True))
