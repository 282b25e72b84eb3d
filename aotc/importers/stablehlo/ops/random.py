"""Random bits from a state: Threefry and Philox (Salmon et al., SC 2011).

The order in which counters become elements is that of XLA, which StableHLO leaves open;
so is the algorithm of DEFAULT, which is XLA's for CPUs, Philox.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import Value, array
from aotc.random.threefry import threefry
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit

Shape = tuple[int, ...]
Words = list[Array]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # what the keys grow by
_ROUNDS = 10


def rng_bit_generator(op: Op, state: Value) -> tuple[Array, Array]:
    """Return the generator's next state, and random bits in every element."""
    kind = op.kinds[1]
    assert kind is not None
    shape = tuple(n or 0 for n in kind.shape)
    wide = dtypes.bits(kind.dtype) == 64
    chosen = op.word("rng_algorithm")
    generate = _threefry if chosen == "THREE_FRY" else _philox
    after, bits = generate(array(state), shape, wide)
    unsigned = f"u{dtypes.bits(kind.dtype)}"
    bits = np.astype(bits, unsigned)
    return after, bits if unsigned == kind.dtype else np.bitcast(bits, kind.dtype)


def _split_words(x: Array) -> tuple[Array, Array]:
    """Return the lower and upper 32 bits of u64, as u32."""
    return np.astype(x, "u32"), np.astype(np.right_shift(x, 32), "u32")


def _join_words(low: Array, high: Array) -> Array:
    """Return u64 from lower and upper 32 bits."""
    upper = np.left_shift(np.astype(high, "u64"), 32)
    return np.bitwise_or(np.astype(low, "u64"), upper)


def _counters(shape: Shape) -> Array:
    """Return 0, 1, … in row-major order, as u64."""
    numbers = emit("iota", shape=(math.prod(shape),), axis=0, dtype="u64")
    return np.reshape(numbers, shape)


# ---- Threefry -----------------------------------------------------------------------


def _threefry(state: Array, shape: Shape, wide: bool) -> tuple[Array, Array]:
    """Return Threefry's next state and random bits: u64, or u32 in halves along an
    axis.
    """
    key, counter = state[0], state[1]
    axis = _split_axis(shape)
    halves = [-(-n // 2) if i == axis and not wide else n for i, n in enumerate(shape)]
    counters = _counters(tuple(halves)) + counter
    one, other = threefry(_split_words(key), *_split_words(counters))
    after = np.stack([key, counter + max(math.prod(halves), 1)])
    if wide:
        return after, _join_words(one, other)
    if not shape:
        return after, one
    pairs = np.stack([one, other], axis + 1)
    doubled = [2 * n if i == axis else n for i, n in enumerate(halves)]
    return after, np.reshape(pairs, doubled)[tuple(map(slice, shape))]


def _split_axis(shape: Shape) -> int:
    """Return the first axis of even size, else the longest one."""
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    return even[0] if even else shape.index(max(shape)) if shape else 0


# ---- Philox -------------------------------------------------------------------------


def _philox(state: Array, shape: Shape, wide: bool) -> tuple[Array, Array]:
    """Return Philox's next state and random bits, u64 or u32.

    A state of two holds the lower half of the counter; the upper one is the key.
    """
    count = math.prod(shape)
    blocks = -(-count * (2 if wide else 1) // 4)
    whole = state.shape[0] == 3
    key, counter = state[0], (state[1], state[2 if whole else 0])
    low, high = _add_to_counter(counter, _counters((blocks,)))
    words = _philox_words([*_split_words(low), *_split_words(high)], _split_words(key))
    parts = [_join_words(*words[:2]), _join_words(*words[2:])] if wide else words
    after = _add_to_counter(counter, np.full((), blocks, "u64"))[: 2 if whole else 1]
    bits = np.reshape(np.ravel(np.stack(parts, -1))[:count], shape)
    return np.stack([key, *after]), bits


def _add_to_counter(counter: tuple[Array, Array], steps: Array) -> tuple[Array, Array]:
    """Return a 128-bit counter plus `steps`."""
    low, high = counter
    later = low + steps
    carry = np.astype(later < low, "u64")
    return later, high + carry


def _philox_words(x: Words, key: tuple[Array, Array]) -> Words:
    """Return the four u32 words of Philox-4x32-10 for a counter and a key."""
    one, other = key
    for _ in range(_ROUNDS):
        low0, high0 = _split_words(np.astype(x[0], "u64") * _MULTIPLIERS[0])
        low1, high1 = _split_words(np.astype(x[2], "u64") * _MULTIPLIERS[1])
        x = [high1 ^ x[1] ^ one, low1, high0 ^ x[3] ^ other, low0]
        one, other = one + _WEYL[0], other + _WEYL[1]
    return x


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.rng_bit_generator": rng_bit_generator,
}
