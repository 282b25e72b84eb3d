"""The generator behind `aotc.random`: Threefry-2x32 with 20 rounds, and its keys.

It maps a key and a counter of two words to two words. The counter's first word says
what for, so that draws, `split` and `fold_in` of one key never meet.

Algorithm: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011.
"""

from __future__ import annotations

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Shape, element_count
from aotc.numpy.broadcasting import ShapeLike, as_shape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["bits", "fold_in", "key", "split"]

_DRAW, _SPLIT, _FOLD = 0, 1, 2  # the counter's first word
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key(seed: int) -> Array:
    """Return the random key (u32[2]) of a seed.

    Args:
        seed: an integer, of which the low 64 bits count.

    Returns:
        u32[2].
    """
    words = [(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF]
    return lift(numpy.array(words, numpy.uint32))


def split(key: ArrayLike, num: int = 2) -> Array:
    """Return `num` independent keys, derived from one, as an array [num, 2].

    They differ from those of `jax.random.split`.
    """
    return np.stack(_words_of(key, _SPLIT, _counter((num,))), axis=1)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """Return a new key, derived from a key and an integer such as a step count.

    Args:
        key: u32[2].
        data: an integer scalar.

    Returns:
        u32[2].
    """
    word = np.reshape(np.astype(data, "u32"), (1,))
    return np.concatenate(_words_of(key, _FOLD, word))


def bits(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "u32") -> Array:
    """Draw uniform unsigned integers: every bit is 0 or 1 alike."""
    name = dtypes.canonical_dtype(dtype)
    if name not in dtypes.UNSIGNED:
        fail("bad-dtype", f"expected dtype u8, u16, u32 or u64; got {name}")
    first, second = words(key, as_shape(shape))
    if name != "u64":
        return np.astype(first, name)
    return (np.astype(first, name) << 32) | np.astype(second, name)


def words(key: ArrayLike, shape: Shape) -> tuple[Array, Array]:
    """Draw two random u32 for each element of `shape`, which depend on the flat index
    only.
    """
    if any(isinstance(size, int) and size < 0 for size in shape):
        fail("bad-shape", f"expected sizes of 0 or more; got {shape}")
    first, second = _words_of(key, _DRAW, _counter((element_count(shape),)))
    return np.reshape(first, shape), np.reshape(second, shape)


def _counter(shape: Shape) -> Array:
    """Return 0, 1, 2, … as u32."""
    return emit("iota", shape=shape, axis=0, dtype="u32")


def _words_of(key: ArrayLike, purpose: int, counter: Array) -> list[Array]:
    """Return the two random u32 that a key gives for each number of `counter`."""
    key = _behind_barrier(lift(key))
    if key.dtype != "u32" or key.type.shape != (2,):
        fail(
            "bad-key",
            f"expected a random key, u32[2]; got {key.type}",
            "make one with aotc.random.key(seed) or split",
        )
    return list(threefry((key[0], key[1]), np.full_like(counter, purpose), counter))


def _behind_barrier(key: Array) -> Array:
    """Return a constant key behind an optimization barrier, against constant folding.

    IREE 3.13 evaluates what follows from constants while it compiles, each op on its
    own, and what it does not evaluate it copies into all that reads it: 12 normal
    numbers of a known key took minutes, and take a second of a key that comes in.
    """
    return key if key._data is None else emit("barrier", key)


def threefry(key: tuple[Array, Array], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Apply the hash Threefry-2x32-20 to counters `x0`, `x1` under a key; all are
    u32.
    """
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
