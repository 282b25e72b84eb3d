"""Random numbers as pure functions of a key: Threefry-2x32 with 20 rounds.

A key is an array of two u32. It is a value like any other: split it, pass it on, keep it
in `State`; the same key gives the same numbers in the reference evaluator, on every
target, and in forward and backward passes.

Algorithm: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011.
"""

from __future__ import annotations

import math
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import element_count
from aotc.errors import InputError
from aotc.frontends.tracing import Array, emit, lift, user_line

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key(seed: int) -> Array:
    """The key of a seed: its high and low 32 bits."""
    import numpy

    words = [(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF]
    return lift(numpy.array(words, numpy.uint32))


def split(key: Any, count: int = 2) -> Array:
    """`count` independent keys, as an array [count, 2]."""
    first, second = _threefry(key, (count,))
    return np.stack([first, second], axis=1)


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer, such as a step count."""
    data = lift(data)
    word = np.reshape(np.astype(data, "u32"), (1,))
    first, second = _rounds(_words(key), np.zeros((1,), "u32"), word)
    return np.concatenate([first, second])


def bits(key: Any, shape: Any) -> Array:
    """Uniform u32."""
    shape = _shape(shape)
    first, _ = _threefry(key, (element_count(shape),))
    return np.reshape(first, shape)


def uniform(key: Any, shape: Any = (), low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform f32 in [low, high), in steps of 2**-24 of the range."""
    unit = np.astype(np.right_shift(bits(key, shape), 8), "f32") * (2.0**-24)
    return unit * (high - low) + low


def normal(key: Any, shape: Any = ()) -> Array:
    """Standard normal f32, by the method of Box and Muller (1958)."""
    shape = _shape(shape)
    first, second = _threefry(key, (element_count(shape),))
    # (0, 1], so that the logarithm is finite
    radius = (np.astype(np.right_shift(first, 8), "f32") + 1.0) * (2.0**-24)
    angle = np.astype(np.right_shift(second, 8), "f32") * (2 * math.pi * 2.0**-24)
    values = np.sqrt(-2.0 * np.log(radius)) * np.cos(angle)
    return np.reshape(values, shape)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = ()) -> Array:
    """True with probability `p`."""
    return np.less(uniform(key, shape), p)


def _shape(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _words(key: Any) -> tuple[Array, Array]:
    key = lift(key)
    if key.dtype != "u32" or key.shape != (2,):
        raise InputError(
            "bad-key",
            f"expected a random key, u32[2]; got {key.type}",
            where=user_line(),
            hint="make one with aotc.random.key(seed) or split",
        )
    return key[0], key[1]


def _threefry(key: Any, shape: Any) -> tuple[Array, Array]:
    """Two words per counter 0, 1, … of `shape` (one axis)."""
    counter = emit("iota", shape=shape, axis=0, dtype="u32")
    return _rounds(_words(key), np.zeros(shape, "u32"), counter)


def _rounds(words: tuple[Array, Array], x0: Array, x1: Array) -> tuple[Array, Array]:
    first, second = words
    schedule = (first, second, first ^ second ^ _PARITY)
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + (group + 1)
    return x0, x1
