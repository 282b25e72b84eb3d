"""aotc.control under every transformation, against jax.lax under JAX's.

Each program is written once, in the functions that both libraries have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aotc
import aotc.control
import aotc.numpy as anp
from benchmarks.parity.agreement import Compared, asked
from benchmarks.parity.derivatives import evaluated

X = np.random.default_rng(1).uniform(-1, 1, (5, 3))
W = np.random.default_rng(2).uniform(-1, 1, (3,))


def scan(np: Any, lax: Any, reverse: bool) -> Callable[..., Any]:
    """Return a program (x, w): a recurrence by a scan, from either end."""

    def step(carried, x):
        new = np.tanh(carried * x + carried)
        return new, np.sin(new) * x

    return lambda x, w: lax.scan(step, w, x, reverse=reverse)


def counted(np: Any, lax: Any) -> Callable[..., Any]:
    """Return a program (x, w): a counted loop."""
    return lambda x, w: lax.fori_loop(0, 4, lambda i, c: np.sin(c) * x[0] + c, w)


def until(np: Any, lax: Any) -> Callable[..., Any]:
    """Return a program (x, w): a loop that a value ends."""
    return lambda x, w: lax.while_loop(
        lambda c: np.sum(c * c) < 50.0, lambda c: 1.5 * c + np.cos(c) * x[0], w
    )


def branch(np: Any, lax: Any) -> Callable[..., Any]:
    """Return a program (x, w): a conditional on a value."""
    return lambda x, w: lax.cond(
        np.sum(x) > np.sum(w), lambda a, b: np.sin(a) * b, lambda a, b: a - b * b, x, w
    )


def switch(np: Any, lax: Any, index: int) -> Callable[..., Any]:
    """Return a program (x, w): a three-way switch; the index is clamped."""
    branches = [lambda a: a * a, np.sin, np.exp]
    return lambda x, w: lax.switch(index, branches, x * w)


def mapped(np: Any, lax: Any) -> Callable[..., Any]:
    """Return a program (x, w): a function mapped over rows."""
    return lambda x, w: lax.map(lambda row: np.sum(np.exp(row) * w), x)


def associative(np: Any, lax: Any, reverse: bool, axis: int) -> Callable[..., Any]:
    """Return a program (x, w): a linear recurrence by an associative scan."""

    def after(first, second):
        return first[0] * second[0], first[1] * second[0] + second[1]

    return lambda x, w: lax.associative_scan(after, (x, x * w), reverse, axis)


def nested(np: Any, lax: Any) -> Callable[..., Any]:
    """Return a program (x, w): a conditional in a loop in a loop."""

    def inner(carried, x):
        up = lax.cond(np.sum(carried) > 0.0, np.sin, lambda c: c * c, carried)
        return up + x, np.sum(up)

    return lambda x, w: lax.fori_loop(
        0, 2, lambda i, c: lax.scan(inner, c, x * w)[0] * 0.5, w
    )


PROGRAMS: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    *(("scan", scan, {"reverse": reverse}) for reverse in (False, True)),
    ("fori_loop", counted, {}),
    ("while_loop", until, {}),
    ("cond", branch, {}),
    *(("switch", switch, {"index": index}) for index in (-1, 0, 1, 2, 7)),
    ("map", mapped, {}),
    *(
        ("associative_scan", associative, {"reverse": reverse, "axis": axis})
        for reverse in (False, True)
        for axis in (0, 1)
    ),
    ("scan", nested, {}),
]


def compared() -> Iterator[Compared]:
    """Yield values and derivatives of every program beside JAX's."""
    for name, program, options in PROGRAMS:
        ours = program(anp, aotc.control, **options)
        theirs = program(jnp, jax.lax, **options)
        for part, transform in TRANSFORMS.items():
            if name == "while_loop" and part in REVERSE:
                continue  # which both refuse: the number of steps is unknown
            found = evaluated(transform(aotc, anp, ours), [X, W])
            wanted, refusal = asked("jax", jax.jit(transform(jax, jnp, theirs)), X, W)
            setting = f"{program.__name__} {options}"
            yield Compared(
                part, f"control.{name}", setting, "jax", "accumulated", found, wanted,
                refusal,
            )  # fmt: skip


def _sum(np: Any, tree: Any) -> Any:
    """Return the sum of sines of all results."""
    parts = tree if isinstance(tree, (tuple, list)) else [tree]
    return sum(np.sum(np.sin(part)) for part in parts)


def _gradient(library: Any, np: Any, function: Callable[..., Any]) -> Any:
    """Return the gradient function of the summed results."""
    return library.grad(lambda *xs: _sum(np, function(*xs)), (0, 1))


def _second(library: Any, np: Any, function: Callable[..., Any]) -> Any:
    """Return the second-derivative function."""

    def slope(*xs):
        return _sum(np, _gradient(library, np, function)(*xs))

    return library.grad(slope, (0, 1))


def _tangent(library: Any, np: Any, function: Callable[..., Any]) -> Any:
    """Return the function of the directional derivative."""
    return lambda *xs: library.jvp(function, xs, xs)[1]


def _pullback(library: Any, np: Any, function: Callable[..., Any]) -> Any:
    """Return the function that pulls back its own results."""

    def pulled(*xs):
        results, pull = library.vjp(function, *xs)
        return pull(results)

    return pulled


def _mapped(library: Any, np: Any, function: Callable[..., Any]) -> Any:
    """Return the function vmapped over two inputs."""

    def stacked(x, w):
        return library.vmap(function)(np.stack([x, -x]), np.stack([w, 2 * w]))

    return stacked


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "function": lambda library, np, function: function,
    "grad": _gradient,
    "grad²": _second,
    "jvp": _tangent,
    "vjp": _pullback,
    "vmap": _mapped,
}
REVERSE = ("grad", "grad²", "vjp")
