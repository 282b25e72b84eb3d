"""Reductions: of rows, of columns and of all, and what normalises by them."""

import aotc
import aotc.numpy as np
from aotc import nn

aotc.bundle(name="reduction", version="1.0.0")

matrix = aotc.Spec(("rows", "columns"), "f32")
# the largest of no elements means nothing
filled = aotc.Spec((aotc.Dim("n", min=1), aotc.Dim("m", min=1)), "f32")


@aotc.entry(x=matrix)
def sums(x):
    """Return sums of rows, of columns, and of all elements."""
    return np.sum(x, 1), np.sum(x, 0), np.sum(x)


@aotc.entry(x=filled)
def extremes(x):
    """Return the largest of each row, its index, and the smallest of all."""
    return np.max(x, 1), np.argmax(x, 1), np.min(x)


@aotc.entry(x=filled)
def normalised(x):
    """Return softmax and layer norm of each row, and its variance."""
    return nn.softmax(x), nn.layer_norm(x), np.var(x, 1)


@aotc.entry(x=aotc.Spec(("n", "m"), "i32"), y=aotc.Spec(("n", "m"), "i8"))
def whole(x, y):
    """Return extremes, their indices, and products of signed integers."""
    found = np.max(x, 1), np.min(x, 1), np.argmin(x, 1), np.prod(x, 1)
    return *found, np.max(y, 1), np.min(y, 1), np.argmax(y, 1), np.sum(y, 1)


@aotc.entry(x=matrix)
def ordered(x):
    """Return each row sorted, the sorting indices, and cumulative sums."""
    return np.sort(x, 1), np.argsort(x, 0), np.cumsum(x, 1)
