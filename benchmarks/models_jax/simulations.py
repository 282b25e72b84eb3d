"""Differential equations."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .layers import dense

STEP = 0.05
GAMMA, TIMES = 1 - 0.5**0.5, np.logspace(-4, 3, 36)


def ode(params, starts, observed):
    """Return the loss of examples/ode."""
    found = jax.vmap(lambda start: simulated(params, start))(starts)
    return jnp.square(found / observed - 1).mean()


def simulated(params, start):
    """Return concentrations [times, 3] after the start."""
    rates = jnp.exp(params["logs"])

    def advance(y, step):
        stage = implicit(rates, y, GAMMA * step)
        y = y + (1 - GAMMA) * step * change(rates, stage)
        y = implicit(rates, y, GAMMA * step)
        return y, y

    return lax.scan(advance, start, np.diff(TIMES, prepend=0.0))[1]


def change(rates, y):
    """Return the time derivative of concentrations."""
    first, second, third = rates * jnp.stack([y[0], y[1] ** 2, y[1] * y[2]])
    return jnp.stack([third - first, first - second - third, second])


def implicit(rates, y, step):
    """Return the x with x = y + step * change(x), with an implicit derivative."""

    def residual(x):
        return x - y - step * change(rates, x)

    def newton(f, x):
        def improved(x):
            return x - jnp.linalg.solve(jax.jacfwd(f)(x), f(x))

        return lax.while_loop(lambda x: jnp.linalg.norm(f(x)) > 1e-9, improved, x)

    def solve(linear, b):
        return jnp.linalg.solve(jax.jacfwd(linear)(b), b)

    return lax.custom_root(residual, y, newton, solve)


def scan_ode(params, starts, observed):
    """Return the loss of training.sources.SCAN_ODE."""

    def slope(y):
        return dense(jnp.tanh(dense(y, **params["hidden"])), **params["out"])

    def advance(y, _):
        k1 = slope(y)
        k2 = slope(y + STEP / 2 * k1)
        k3 = slope(y + STEP / 2 * k2)
        k4 = slope(y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    found = lax.scan(advance, starts, length=len(observed))[1]
    return jnp.square(found - observed).mean()
