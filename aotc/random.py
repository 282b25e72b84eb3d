"""Random numbers as pure functions of a key: Threefry-2x32 with 20 rounds.

A key is an array of two u32. It is a value like any other: split it, pass it on, keep
it in `State`; the same key gives the same numbers in the reference evaluator, on every
target, and in forward and backward passes. Use a key once: split it for more.

The generator maps a key and a counter of two words to two words. The counter's first
word says what for, so that draws, `split` and `fold_in` of one key never meet.

Algorithm: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from aotc import numpy as np
from aotc.dialects.types import Shape, element_count
from aotc.frontends.array import Array
from aotc.frontends.broadcasting import as_shape
from aotc.frontends.conversion import ArrayLike, lift
from aotc.frontends.places import fail
from aotc.frontends.tracing import emit

_DRAW, _SPLIT, _FOLD = 0, 1, 2  # the counter's first word
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key(seed: int) -> Array:
    """The key of a seed: its high and low 32 bits."""
    words = [(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF]
    return lift(numpy.array(words, numpy.uint32))


def split(key: ArrayLike, count: int = 2) -> Array:
    """`count` independent keys, as an array [count, 2]."""
    return np.stack(_words_of(key, _SPLIT, _counter((count,))), axis=1)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as a step count."""
    word = np.reshape(np.astype(data, "u32"), (1,))
    return np.concatenate(_words_of(key, _FOLD, word))


def bits(key: ArrayLike, shape: Any = ()) -> Array:
    """Uniform u32."""
    return np.reshape(_drawn(key, as_shape(shape))[0], shape)


def uniform(
    key: ArrayLike, shape: Any = (), low: float = 0.0, high: float = 1.0
) -> Array:
    """Uniform f32 in [low, high), in steps of 2**-24 of the range."""
    unit = np.astype(np.right_shift(bits(key, shape), 8), "f32") * (2.0**-24)
    if (low, high) == (0.0, 1.0):
        return unit
    # the sum may round up to `high`, which is not in the range
    last = float(numpy.nextafter(numpy.float32(high), numpy.float32(low)))
    return np.minimum(unit * (high - low) + low, last)


def normal(key: ArrayLike, shape: Any = ()) -> Array:
    """Standard normal f32, by the method of Box and Muller (1958)."""
    first, second = _drawn(key, as_shape(shape))
    # (0, 1], so that the logarithm is finite
    radius = (np.astype(np.right_shift(first, 8), "f32") + 1.0) * (2.0**-24)
    angle = np.astype(np.right_shift(second, 8), "f32") * (2 * math.pi * 2.0**-24)
    return np.reshape(np.sqrt(-2.0 * np.log(radius)) * np.cos(angle), shape)


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Any = ()) -> Array:
    """True with probability `p`."""
    return np.less(uniform(key, shape), p)


# ---- the generator ------------------------------------------------------------------


def _drawn(key: ArrayLike, shape: Shape) -> list[Array]:
    """Two words for each element of `shape`, in a row."""
    return _words_of(key, _DRAW, _counter((element_count(shape),)))


def _counter(shape: Shape) -> Array:
    return emit("iota", shape=shape, axis=0, dtype="u32")


def _words_of(key: ArrayLike, purpose: int, counter: Array) -> list[Array]:
    """The two words that the key gives for each number of `counter`."""
    key = lift(key)
    if key.dtype != "u32" or key.shape != (2,):
        fail(
            "bad-key",
            f"expected a random key, u32[2]; got {key.type}",
            "make one with aotc.random.key(seed) or split",
        )
    return list(threefry((key[0], key[1]), np.full_like(counter, purpose), counter))


def threefry(key: tuple[Array, Array], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32-20 of a counter `x0, x1` under a key; all words are u32."""
    first, second = key
    schedule = (first, second, first ^ second ^ _PARITY)
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + (group + 1)
    return x0, x1
