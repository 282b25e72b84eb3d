"""Higher-order ops: branches and loops over subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import control
from aotc import numpy as np
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift

Graph = Callable[..., Sequence[Array]]


def cond(
    flag: ArrayLike, on_true: Graph, on_false: Graph, operands: Sequence[ArrayLike] = ()
) -> Sequence[Array]:
    """Return the results of one of two subgraphs, chosen by a flag."""
    if isinstance(flag, bool):
        return list((on_true if flag else on_false)(*operands))

    def then() -> list[Array]:
        return list(map(lift, on_true(*operands)))

    def otherwise() -> list[Array]:
        return list(map(lift, on_false(*operands)))

    found: list[Array] = control.cond(np.reshape(flag, ()), then, otherwise)
    return found


def while_loop(
    cond_fn: Callable[..., Array | Sequence[Array]],
    body_fn: Graph,
    carried: Sequence[ArrayLike],
    extra: Sequence[object] = (),
) -> list[Array]:
    """Return the carried values after running a subgraph while a condition holds."""
    first = [lift(value, "i64") for value in carried]

    def condition(values: Sequence[Array]) -> Array:
        found = cond_fn(*values, *extra)
        flag = found[0] if isinstance(found, (list, tuple)) else found
        return np.reshape(flag, ())

    def body(values: Sequence[Array]) -> list[Array]:
        return list(body_fn(*values, *extra))

    last: list[Array] = control.while_loop(condition, body, first)
    return last


def scan(
    step: Graph,
    initial: Sequence[ArrayLike],
    xs: Sequence[Array],
    extra: Sequence[object] = (),
) -> list[Array]:
    """Return the carried values of a scan over xs, then the stacked results."""
    count = len(initial)

    def body(
        carried: Sequence[Array], x: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        found = list(step(*carried, *x, *extra))
        return found[:count], found[count:]

    last, stacked = control.scan(body, list(map(lift, initial)), list(xs))
    return [*last, *stacked]


def map_(
    function: Graph, xs: Sequence[object], extra: Sequence[object] = ()
) -> list[Array]:
    """Apply a graph to each element along the first axes, and stack the results."""
    found: list[Array] = control.map(lambda x: list(function(*x, *extra)), list(xs))
    return found


def call_graph(*args: Any) -> object:
    """Call the subgraph that is the first callable argument, on the arguments
    after it.
    """
    place = next(n for n, part in enumerate(args) if callable(part))
    return args[place](*args[place + 1 :])


OPS: dict[str, Callable[..., Any]] = {
    "higher_order.cond": cond,
    "higher_order.while_loop": while_loop,
    "higher_order.scan": scan,
    "higher_order.map_impl": map_,
    "higher_order.wrap_with_set_grad_enabled": call_graph,
    "higher_order.wrap_with_autocast": call_graph,
}
