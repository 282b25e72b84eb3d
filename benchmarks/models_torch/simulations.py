"""Differential equations."""

import torch
import torch.nn.functional as F

from .layers import dense

STEP = 0.05


def change(params, y):
    """Return the time derivative of y [batch, 1], given by a network."""
    return dense(torch.tanh(dense(y, **params["hidden"])), **params["out"])


def advanced(params, y):
    """Return y after one Runge-Kutta step."""
    k1 = change(params, y)
    k2 = change(params, y + STEP / 2 * k1)
    k3 = change(params, y + STEP / 2 * k2)
    k4 = change(params, y + STEP * k3)
    return y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def scan_ode(params, starts, observed, advanced=advanced):
    """Return the loss of training.sources.SCAN_ODE."""
    y, found = starts, []
    for _ in range(len(observed)):
        y = advanced(params, y)
        found.append(y)
    return F.mse_loss(torch.stack(found), observed)


def compiled_scan_ode(params, starts, observed):
    """Return the loss of `scan_ode` with compiled steps, as a whole loop would be
    unrolled.
    """
    return scan_ode(params, starts, observed, torch.compile(advanced))
