"""Buckets for recorded traffic: the sizes to pad calls to that pad them least.

What padding costs is counted in elements: a call of 3 by 100 in a bucket of 4 by 128
has 512 of them where 300 were given. Of one size the best buckets are found exactly, by
dynamic programming over the distinct sizes in order, as for the optimal quantization of
a distribution (Bruce, "Optimum quantization", MIT, 1965). Of several, the better is
taken of two ways, neither of which is always the best: the two buckets that cost least
to merge become one, until there are few enough, as in Ward's clustering ("Hierarchical
grouping to optimize an objective function", 1963); or all combinations of the best
buckets of each size by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.dialects.sizes.contracts import Contract
from aotc.errors import InputError
from aotc.traffic import Traffic, names_text

Sizes = tuple[int, ...]
_MOST_MERGED = 1000  # distinct sizes of several symbols; more are rounded up first


@dataclass(frozen=True)
class Buckets:
    """The bucket sizes that calls are padded to, and the traffic they were chosen for.

    Args:
        traffic: that they are for.
        sizes: of the buckets, in the order of the symbols of the traffic.
    """

    traffic: Traffic
    sizes: tuple[Sizes, ...]

    @property
    def coverage(self) -> float:
        """The fraction of calls that fit into a bucket."""
        counts = self.traffic.counts
        found = sum(n for sizes, n in counts.items() if self._bucket(sizes))
        return found / self.traffic.calls

    @property
    def overhead(self) -> float:
        """Added elements per element of the padded calls: 0.25 is a quarter more."""
        given = padded = 0
        for sizes, count in self.traffic.counts.items():
            bucket = self._bucket(sizes)
            if bucket is not None:
                given += count * prod(sizes)
                padded += count * prod(bucket)
        return padded / given - 1 if given else 0.0

    def _bucket(self, sizes: Sizes) -> Sizes | None:
        """Return the smallest bucket that a call fits into; None if none does."""
        fitting = (each for each in self.sizes if _fits(sizes, each))
        return min(fitting, key=prod, default=None)

    def by_name(self) -> list[dict[str, int]]:
        """Return each bucket as sizes by symbol name."""
        symbols = self.traffic.symbols
        return [dict(zip(symbols, each, strict=True)) for each in self.sizes]

    def to_json(self) -> JsonObject:
        """Return the buckets as the build report holds them."""
        return {
            "calls": self.traffic.calls,
            "buckets": self.by_name(),
            "coverage": self.coverage,
            "overhead": self.overhead,
        }

    def __str__(self) -> str:
        listed = "; ".join(
            names_text(self.traffic.symbols, each) for each in self.sizes
        )
        return (
            f"buckets {listed}: {self.coverage:.1%} of {self.traffic.calls} calls have "
            f"one, padding adds {self.overhead:.1%} to their elements"
        )


def choose_buckets(
    traffic: Traffic, most: int, contracts: Mapping[str, Contract]
) -> Buckets:
    """Choose up to `most` buckets that add the least padding to recorded calls.

    Args:
        traffic: calls; those that contracts refuse are of no account.
        most: how many buckets there may be.
        contracts: of its symbols. A max is the size of the largest bucket; without one
            that is the largest size of the traffic.

    Raises:
        InputError: `bad-traffic`: contracts refuse all calls.
    """
    allowed = [contracts[name] for name in traffic.symbols]
    counts = {
        sizes: count
        for sizes, count in traffic.counts.items()
        if all(x.allows(size) for x, size in zip(allowed, sizes, strict=True))
    }
    if not counts:
        raise InputError(
            "bad-traffic",
            f"expected calls of {', '.join(map(str, allowed))}; got none that the "
            "model takes",
        )
    seen = np.array(list(counts), np.int64).max(0)
    pairs = zip(allowed, seen, strict=True)
    top = tuple(int(x.largest or largest) for x, largest in pairs)
    steps = tuple(each.multiple_of for each in allowed)
    if len(top) == 1:
        found = _best_of_one(counts, most, top[0])
    else:
        rounded = _round_up(counts, top, steps)
        ways = [_merge_buckets(rounded, most, top), *_grids(counts, most, top)]
        found = min(ways, key=lambda way: _padded_elements(rounded, way))
    return Buckets(traffic, tuple(sorted(found)))


def _fits(sizes: Sizes, bucket: Sizes) -> bool:
    """Return whether a call of these sizes fits into a bucket."""
    return all(size <= most for size, most in zip(sizes, bucket, strict=True))


def _best_of_one(calls_of: Mapping[Sizes, int], most: int, top: int) -> list[Sizes]:
    """Return the best buckets of one symbol by dynamic programming; `top` is the last.

    cost[i] is that of the calls of the first i distinct sizes in k buckets: the k-th
    begins behind j of them, and all of its calls have size i.
    """
    counts = {(top,): 0, **calls_of}
    sizes = np.array(sorted(size for (size,) in counts), np.int64)
    calls = np.array([counts[int(size),] for size in sizes], np.float64)
    before = np.concatenate([[0.0], np.cumsum(calls)])
    cost = np.concatenate([[0.0], sizes * before[1:]])
    starts: list[Any] = []
    for _ in range(min(most, len(sizes)) - 1):
        ways = [
            cost[: i + 1] + sizes[i] * (before[i + 1] - before[: i + 1])
            for i in range(len(sizes))
        ]
        starts.append([0, *(int(np.argmin(way)) for way in ways)])
        cost = np.array([0.0, *(way.min() for way in ways)])
    found: list[Sizes] = []
    end = len(sizes)
    for start in reversed([[0] * (len(sizes) + 1), *starts]):
        if end:
            found.append((int(sizes[end - 1]),))
            end = start[end]
    return found


def _grids(counts: Mapping[Sizes, int], most: int, top: Sizes) -> Iterator[list[Sizes]]:
    """Yield grids of buckets: the products of each symbol's own best buckets."""
    for shares in product(range(1, most + 1), repeat=len(top)):
        if prod(shares) <= most < prod(shares) + min(shares):
            lines = [
                [size for (size,) in _best_of_one(_counts_along(counts, axis), *each)]
                for axis, each in enumerate(zip(shares, top, strict=True))
            ]
            yield list(product(*lines))


def _counts_along(counts: Mapping[Sizes, int], axis: int) -> dict[Sizes, int]:
    """Return the number of calls by the size of one symbol."""
    found: dict[Sizes, int] = {}
    for sizes, count in counts.items():
        found[sizes[axis],] = found.get((sizes[axis],), 0) + count
    return found


def _padded_elements(counts: Mapping[Sizes, int], buckets: Sequence[Sizes]) -> int:
    """Return the number of elements of all calls, padded to the buckets."""
    return sum(
        count * min(prod(each) for each in buckets if _fits(sizes, each))
        for sizes, count in counts.items()
    )


def _merge_buckets(counts: Mapping[Sizes, int], most: int, top: Sizes) -> list[Sizes]:
    """Merge the cheapest pair of buckets, from one for each call, until `most` are
    left.
    """
    rest = [sizes for sizes in counts if sizes != top]
    sizes = np.array(rest, np.int64).reshape(len(rest), len(top))
    calls = np.array([counts[each] for each in rest], np.float64)
    cost = _merging_costs(sizes, calls)
    while len(sizes) > max(most - 1, 0) and len(sizes) > 1:
        one, other = np.unravel_index(np.argmin(cost), cost.shape)
        sizes[one] = np.maximum(sizes[one], sizes[other])
        calls[one] += calls[other]
        sizes, calls = np.delete(sizes, other, 0), np.delete(calls, other)
        cost = np.delete(np.delete(cost, other, 0), other, 1)
        changed = int(one - (other < one))
        row = _costs_with(sizes, calls, changed)
        cost[changed], cost[:, changed] = row, row
    chosen = {tuple(map(int, each)) for each in sizes} if most > 1 else set()
    return [*chosen - {top}, top]


def _merging_costs(sizes: np.ndarray, calls: np.ndarray) -> np.ndarray:
    """Return the matrix of padding that merging each two buckets would add."""
    return np.array([_costs_with(sizes, calls, i) for i in range(len(sizes))]).reshape(
        len(sizes), len(sizes)
    )


def _costs_with(sizes: np.ndarray, calls: np.ndarray, one: int) -> np.ndarray:
    """Return the padding that merging one bucket with each other one would add."""
    merged = np.maximum(sizes, sizes[one]).prod(1).astype(np.float64)
    own = sizes.prod(1).astype(np.float64)
    added: np.ndarray = calls * (merged - own) + calls[one] * (merged - own[one])
    added[one] = np.inf
    return added


def _round_up(
    counts: Mapping[Sizes, int], top: Sizes, steps: Sizes
) -> dict[Sizes, int]:
    """Round the sizes of calls up until there are few distinct ones; return their
    counts.

    Args:
        counts: of calls.
        top: the largest sizes.
        steps: that sizes are multiples of.
    """
    found, bits = dict(counts), 6
    while len(found) > _MOST_MERGED and bits:
        found, bits = {}, bits - 1
        for sizes, count in counts.items():
            rows = zip(sizes, top, steps, strict=True)
            key = tuple(min(_with_bits(n // k, bits) * k, most) for n, most, k in rows)
            found[key] = found.get(key, 0) + count
    return found


def _with_bits(size: int, bits: int) -> int:
    """Round a size up to a number with at most `bits` significant bits."""
    shift = max(size.bit_length() - bits, 0)
    return -(-size >> shift) << shift
