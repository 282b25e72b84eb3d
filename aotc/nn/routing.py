"""Mixtures of experts: each token is computed by a few of many networks.

Tokens come in groups, and an expert has a fixed number of places for each group, so
that all shapes are known. Tokens are gathered into the places and back: products with
one-hot tensors do the same with much more arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.nn.layers import one_hot
from aotc.nn.normalizing import softmax
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["Routing", "mixture_of_experts"]


class Routing(NamedTuple):
    """Statistics of a mixture of experts: balance loss, choices per expert, dropped
    ones.
    """

    balance: Array  # a loss, 1 where all experts are chosen alike
    fractions: Array  # of the choices, for each expert
    dropped: Array  # the fraction of the choices that found no place


def mixture_of_experts(
    experts: Callable[[Array], Array],
    x: ArrayLike,
    logits: ArrayLike,
    *,
    k: int,
    capacity: int,
) -> tuple[Array, Routing]:
    """Apply the `k` experts with the largest logits to each token, weighted by softmax.

    Shazeer et al., "Outrageously large neural networks: the sparsely-gated
    mixture-of-experts layer", ICLR 2017; capacity and groups: Lepikhin et al.,
    "GShard", ICLR 2021; the balance, experts Σ fraction · mean probability: Fedus, Zoph
    and Shazeer, "Switch transformers", JMLR 23 (2022).

    Args:
        experts: of experts, tokens, features; what each expert makes of its tokens.
        x: groups, tokens, features.
        logits: groups, tokens, experts; softmax is computed in their dtype.
        k: how many experts compute each token. The weights of the chosen sum to 1 but
            for k = 1, whose weight is the probability, or the router would not learn.
        capacity: how many tokens of a group an expert takes. Earlier tokens come first,
            so a choice depends on nothing later; one that finds no place adds zeros.

    Returns:
        groups, tokens, features of the result; and the routing.
    """
    x, logits = lift(x), lift(logits)
    count = _expert_count(x, logits, k, capacity)
    groups, tokens, features = x.shape
    probabilities = softmax(logits)
    weights, chosen = np.top_k(probabilities, k)
    if k > 1:
        weights = np.divide(weights, np.sum(weights, -1, keepdims=True))
    fits, places = _assign_places(chosen, count, capacity)
    rows = np.reshape(x, (groups * tokens, features))
    taken = _rows(rows, _sources(places, count * groups * capacity))
    ys = experts(np.reshape(taken, (count, groups * capacity, features)))
    ys = np.reshape(ys, (count * groups * capacity, ys.shape[-1]))
    back = _rows(ys, places)
    weights = np.astype(np.expand_dims(weights, -1), ys.dtype)
    y = np.sum(np.multiply(back, weights), -2)
    return y, _routing(probabilities, chosen, fits, count)


def _expert_count(x: Array, logits: Array, k: int, capacity: int) -> int:
    """Return the number of experts; raise if shapes or counts do not fit."""
    if x.ndim != 3 or logits.ndim != 3 or x.type.shape[:2] != logits.type.shape[:2]:
        fail(
            "shape-mismatch",
            "expected x as groups, tokens, features and logits as groups, tokens, "
            f"experts; got {x.type} and {logits.type}",
        )
    count = static_size(logits.shape[2], "row of logits")
    if not 1 <= k <= count:
        fail("bad-count", f"expected k from 1 to {count}, the experts; got {k}")
    if capacity < 1:
        fail("bad-count", f"expected a capacity of at least 1; got {capacity}")
    return count


def _rows(x: Array, numbers: Array) -> Array:
    """Gather rows by index; an index beyond the end gives zeros."""
    return np.take(x, numbers, 0, mode="fill", fill_value=0)


def _assign_places(chosen: Array, count: int, capacity: int) -> tuple[Array, Array]:
    """Assign choices [groups, tokens, k] to expert slots; return which fit, and the
    slots.

    Places are numbered as experts, groups, capacity. The number after the last one
    stands for none.
    """
    groups, tokens, k = chosen.shape
    marks = np.reshape(one_hot(chosen, count, "i32"), (groups, tokens * k, count))
    before = np.multiply(np.subtract(np.cumsum(marks, 1), 1), marks)
    turn = np.reshape(np.sum(before, -1), chosen.shape)
    group = emit("iota", shape=chosen.shape, axis=0, dtype="i32")
    block = np.add(np.multiply(chosen, groups), group)
    fits = np.less(turn, capacity)
    place = np.add(np.multiply(block, capacity), turn)
    return fits, np.where(fits, place, count * groups * capacity)


def _sources(places: Array, total: Size) -> Array:
    """Return the token in each expert slot; the number of tokens for an empty slot."""
    groups, tokens, _ = places.shape
    numbers = emit("iota", shape=(groups * tokens, 1), axis=0, dtype="i32")
    numbers = np.broadcast_to(np.reshape(numbers, (groups, tokens, 1)), places.shape)
    nothing = np.full((total,), groups * tokens, "i32")
    return nothing.at[places].set(numbers, mode="drop")


def _routing(probabilities: Array, chosen: Array, fits: Array, count: int) -> Routing:
    """Return the statistics of a routing; only the balance loss has a derivative."""
    dtype = probabilities.dtype
    fractions = np.mean(one_hot(chosen, count, dtype), (0, 1, 2))
    shares = np.mean(probabilities, (0, 1))
    balance = np.multiply(np.sum(np.multiply(fractions, shares)), count)
    dropped = np.subtract(1.0, np.mean(np.astype(fits, dtype)))
    return Routing(balance, fractions, dropped)
