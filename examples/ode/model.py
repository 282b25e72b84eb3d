"""Rates of a chemical reaction, found by differentiating its stiff simulation.

    aotc build examples/ode/model.py

Robertson's reaction, A → B, 2 B → B + C, B + C → A + C, has rates from 1e-2 to 1e7, so
each step in time is implicit: Newton's method solves an equation, and the derivative of
the solution is that of the equation, not of the iteration (`aotc.solvers`). Times grow
by a factor, and all numbers are f64.

Robertson, "The solution of a set of reaction rate equations", 1966. Two implicit stages
a step, of order 2 and L-stable: Alexander, "Diagonally implicit Runge–Kutta methods for
stiff O.D.E.'s", SIAM Journal on Numerical Analysis 14 (1977).
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import control, optim, solvers

aotc.bundle(name="ode", version="1.0.0")

TIMES = numpy.logspace(-4, 3, 36)
GUESS = (0.1, 1e7, 3e4)  # the rates to start from
GAMMA = 1 - 0.5**0.5
BATCH = 8


def change(rates, y):
    """The time derivative of the concentrations y [3]."""
    a, b, c = y[0], y[1], y[2]
    first, second, third = rates[0] * a, rates[1] * b * b, rates[2] * b * c
    return np.stack([third - first, first - second - third, second])


def implicit(rates, y, step):
    """The x that is y + step * change(x)."""

    def residual(x, rates, y, step):
        return x - y - step * change(rates, x)

    return solvers.root(residual, y, rates, y, step, tol=1e-9)


def simulated(params, start):
    """Concentrations [times, 3] after the start [3]."""
    rates = np.exp(params["logs"])

    def advance(y, step):
        stage = implicit(rates, y, GAMMA * step)
        y = y + (1 - GAMMA) * step * change(rates, stage)
        y = implicit(rates, y, GAMMA * step)
        return y, y

    steps = numpy.diff(TIMES, prepend=0.0)
    return control.scan(advance, start, steps)[1]


def loss(params, starts, observed):
    """Mean squared relative error of the concentrations [batch, times, 3]."""
    found = aotc.vmap(lambda start: simulated(params, start))(starts)
    return np.mean((found / observed - 1) ** 2)


params = {"logs": np.log(numpy.array(GUESS))}
optimizer = optim.adam(0.1)
state = aotc.State({"params": params, "moments": optimizer.init(params)})

starts = aotc.Spec((BATCH, 3), "f64")
observed = aotc.Spec((BATCH, len(TIMES), 3), "f64")


@aotc.entry(starts=starts, observed=observed)
def train_step(state, starts, observed):
    """One step of Adam; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, starts, observed)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen)
def rates(state):
    """The rates found so far."""
    return np.exp(state["params"]["logs"])
