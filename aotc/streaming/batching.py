"""Batches: calls of an entry joined to one by rows, and split again.

Batching takes an entry that has a size, its batch, as the first one of inputs and of
all outputs, and that in no other place. Inputs without it are those of all calls of a
batch together, so they must be equal. Whether the rows of a result depend on those of
its own call alone is not written in a manifest: the first batch of a stream is compared
with its calls one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aotc.artifacts.manifest import EntryPoint, Leaf
from aotc.artifacts.shapes import SizeExpression
from aotc.core import dtypes
from aotc.errors import InputError
from aotc.runtime.host_arrays import Array
from aotc.runtime.model import LoadedEntry

# How far results may differ by rounding, of the largest one: code for other sizes adds
# in another order. Rows that depend on each other differ by much more. Results that are
# all smaller than `_SMALL` may be what rounding has left of larger numbers.
_ROUNDING = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-3, "f64": 1e-6}
_SMALL = 1e-3

Leaves = Sequence[Array]


@dataclass(frozen=True)
class Batching:
    """Joins several calls of an entry into one along the batch axis, and splits
    results.

    Args:
        limit: rows of a call at most.
        has_rows: of each input, whether its first size is the batch.
    """

    limit: int
    has_rows: tuple[bool, ...]

    @classmethod
    def of(cls, entry: LoadedEntry, max_rows: int | None, stateful: bool) -> Batching:
        """Return how calls of an entry can be batched; raise if they cannot.

        Args:
            entry: of a loaded model.
            max_rows: of a call; by default the largest batch that the entry takes.
            stateful: whether an entry that updates a state may get one update for the
                rows of several calls.

        Raises:
            InputError: `not-batchable`.
        """
        if entry.spec.updates and not stateful:
            raise _refusal(
                entry,
                f"it updates {', '.join(entry.spec.updates)} in every call",
                "leave out latency, or allow it with batch_stateful=True",
            )
        symbol = _batch_symbol(entry)
        contract = entry.symbols[symbol]
        coded = entry.spec.largest_with_code(symbol)
        limits = [x for x in (contract.max, coded, max_rows) if x is not None]
        if not limits:
            raise _refusal(
                entry, f"{symbol} has no largest size", "give max_rows, rows of a call"
            )
        limit = min(limits) - min(limits) % contract.multiple_of
        leads = (leaf.shape[:1] == (symbol,) for leaf in entry.spec.inputs)
        return cls(limit, tuple(leads))

    def rows(self, leaves: Leaves) -> int:
        """Return the number of rows (batch elements) of a call."""
        return int(leaves[self.has_rows.index(True)].shape[0])

    def fit(self, one: Leaves, other: Leaves) -> bool:
        """Return whether two calls can be joined: equal except in their rows."""
        return all(
            a.shape[1:] == b.shape[1:] if has_rows else _are_equal(a, b)
            for a, b, has_rows in zip(one, other, self.has_rows, strict=True)
        )

    def join_calls(self, calls: Sequence[Leaves]) -> list[Array]:
        """Concatenate the inputs of several calls along their rows."""
        return [
            np.concatenate(arrays) if has_rows else arrays[0]
            for arrays, has_rows in zip(
                zip(*calls, strict=True), self.has_rows, strict=True
            )
        ]

    def split(self, results: Leaves, calls: Sequence[Leaves]) -> list[list[Array]]:
        """Return the results of each joined call, as views."""
        ends = np.cumsum([0, *map(self.rows, calls)])
        return [[x[start:end] for x in results] for start, end in pairwise(ends)]


def require_same_rows(
    entry: LoadedEntry, together: Sequence[Leaves], alone: Sequence[Leaves]
) -> None:
    """Raise if results of a batch differ from those of single calls beyond rounding.

    Args:
        entry: that was called.
        together: results of calls that were one.
        alone: results of the same calls, one by one.

    Raises:
        InputError: `not-batchable`.
    """
    ours, theirs = (
        [np.concatenate(arrays) for arrays in zip(*calls, strict=True)]
        for calls in (together, alone)
    )
    for leaf, one, other in zip(entry.spec.outputs, ours, theirs, strict=True):
        if not _agree(leaf, one, other):
            raise _refusal(
                entry,
                f"rows of {leaf.name!r} change with the rows of other calls",
                "leave out latency: each call then runs by itself",
            )


def _batch_symbol(entry: LoadedEntry) -> str:
    """Return the symbol that is the first axis of inputs and outputs and nothing
    else.
    """
    spec = entry.spec
    leading = {
        leaf.shape[0]: None
        for leaf in spec.inputs
        if leaf.shape and leaf.shape[0] in entry.symbols
    }
    for symbol in map(str, leading):
        leads_all = all(leaf.shape[:1] == (symbol,) for leaf in spec.outputs)
        if leads_all and not _is_used_elsewhere(symbol, spec):
            return symbol
    raise _refusal(
        entry,
        "it has no size that is the first one of inputs and of every output, and "
        "that alone",
        "leave out latency",
    )


def _is_used_elsewhere(symbol: str, spec: EntryPoint) -> bool:
    """Return whether a symbol occurs in a size other than an array's first."""
    sizes = [
        size
        for leaf in (*spec.inputs, *spec.outputs)
        for size in leaf.shape[leaf.shape[:1] == (symbol,) :]
        if isinstance(size, str)
    ]
    return any(symbol in SizeExpression.parse(size).symbols for size in sizes)


def _are_equal(one: Array, other: Array) -> bool:
    """Return whether two arrays are bitwise equal."""
    if one is other:
        return True
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _agree(leaf: Leaf, one: Array, other: Array) -> bool:
    """Return whether two arrays differ by no more than rounding."""
    if not dtypes.is_float(leaf.dtype):
        return np.array_equal(one, other)
    a, b = (each.astype(np.float64) for each in (one, other))
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=_SMALL))
    bound = _ROUNDING[leaf.dtype] * largest
    return np.allclose(a, b, rtol=0, atol=bound, equal_nan=True)


def _refusal(entry: LoadedEntry, why: str, hint: str) -> InputError:
    """Return the error for an entry whose calls cannot be batched."""
    return InputError(
        "not-batchable",
        f"{entry.name}: its calls cannot be put together: {why}",
        hint=hint,
    )
