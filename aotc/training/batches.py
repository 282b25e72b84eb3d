"""Batches for the inputs of an entry: rows of arrays, or the caller's own.

An input of shape (64, 8, 8, 1) takes its batches from the array of its name, of shape
(N, 8, 8, 1): all rows are shuffled and cut into batches of 64, and the N % 64 rows
that are left over wait for the order of the next epoch. The order depends on the seed
and the number of the epoch alone, so a run can go on anywhere.

Batches of the caller's own are taken as they come.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.errors import InputError
from aotc.training import inputs, wording
from aotc.training.entries import Array
from aotc.training.inputs import Data

_PART = 2**24  # bytes of rows that are copied at a time


class Batches(Protocol):
    """Protocol of a sequence of batches that can be resumed after any step.

    `size` is the number of rows in a batch, 0 if each has its own, and `seed` that of
    the order, 0 if there is none.
    """

    size: int
    seed: int

    @property
    def per_epoch(self) -> int | None:
        """The number of batches in an epoch; None for a stream of unknown length."""

    def epoch(self, step: int) -> int:
        """Return the epoch of a step; both count from 0."""

    def after(self, steps: int) -> Iterator[Mapping[str, object]]:
        """Yield the batches that follow `steps` of them, as arrays by input name."""

    def digest(self) -> str:
        """Return a digest that identifies these batches; empty if there is none."""


class RowBatches:
    """Batches of `size` rows of whole arrays, shuffled in each epoch or in order.

    Args:
        arrays: by name of the input.
        size: rows in a batch.
        seed: of the orders; None takes the rows as they come and, if some are left
            over, a smaller batch of them at the end.
    """

    def __init__(
        self, arrays: Mapping[str, Array], size: int, seed: int | None
    ) -> None:
        self.size = size = int(size)  # also of NumPy's, which JSON does not know
        self.seed = int(seed or 0)
        self._arrays = arrays
        self._in_order = seed is None
        self.rows = len(next(iter(arrays.values())))
        left_over = seed is None and self.rows % size > 0
        self.per_epoch = self.rows // size + left_over

    def epoch(self, step: int) -> int:
        """Return the epoch of a step; both count from 0."""
        return step // self.per_epoch

    def after(self, steps: int) -> Iterator[dict[str, Array]]:
        """Yield the batches that follow `steps` of them, epoch after epoch without
        end.
        """
        first, begin = divmod(steps, self.per_epoch)
        for epoch in itertools.count(first):
            order = self._order_of(epoch)
            for index in range(begin, self.per_epoch):
                rows = order[index * self.size : (index + 1) * self.size]
                yield {n: array.take(rows, axis=0) for n, array in self._arrays.items()}
            begin = 0

    def _order_of(self, epoch: int) -> Array:
        """Return the order of the rows in an epoch."""
        if self._in_order:
            return np.arange(self.rows)
        return np.random.default_rng((self.seed, epoch)).permutation(self.rows)

    def digest(self) -> str:
        """Return the SHA-256 of the arrays with their names, dtypes and shapes."""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays.items()):
            head = json.dumps([name, str(array.dtype), array.shape])
            digest.update(head.encode())
            for part in _contiguous_parts(array):
                digest.update(part.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _contiguous_parts(array: Array) -> Iterator[Array]:
    """Yield the rows of an array in slices that are contiguous in memory."""
    count = max(_PART // max(array[:1].nbytes, 1), 1)
    for start in range(0, len(array), count):
        yield np.ascontiguousarray(array[start : start + count])


class OwnBatches:
    """Batches that the caller made, in the caller's order.

    Args:
        batches: mappings of arrays. What has a length is passed over again in every
            epoch; anything else, such as a generator, is a stream.
        leaves: the inputs that they are for.
    """

    size = seed = 0

    def __init__(self, batches: Iterable[object], leaves: Sequence[Leaf]) -> None:
        self._batches = batches
        self._leaves = leaves
        self.per_epoch: int | None = _length(batches)
        if self.per_epoch == 0:
            raise InputError("too-few-batches", "there are no batches")

    def epoch(self, step: int) -> int:
        """Return the epoch of a step; both count from 0."""
        return step // self.per_epoch if self.per_epoch else 0

    def after(self, steps: int) -> Iterator[dict[str, object]]:
        """Yield the batches that follow `steps` of them, which are read and dropped."""
        skipped = steps % self.per_epoch if self.per_epoch else steps
        while True:
            count = 0
            for count, batch in enumerate(self._pass(), 1):
                if count > skipped:
                    yield self._values_by_input(batch, count)
            self._require_enough(count, skipped)
            if self.per_epoch is None:
                return
            skipped = 0

    def _pass(self) -> Iterator[object]:
        """Return an iterator over the batches of one epoch."""
        return itertools.islice(iter(self._batches), self.per_epoch)

    def _values_by_input(self, batch: object, number: int) -> dict[str, object]:
        """Return a batch as values by input name; raise if it does not fit."""
        try:
            return inputs.values_for(batch, self._leaves)
        except InputError as error:
            error.message = f"batch {number}: {error.message}"
            raise

    def _require_enough(self, count: int, skipped: int) -> None:
        """Raise if an iterator gave fewer batches than its length or the skipped
        ones.
        """
        if self.per_epoch is not None and count < self.per_epoch:
            raise InputError(
                "too-few-batches",
                f"expected {self.per_epoch} batches, as their length says, got {count}",
                hint="every epoch passes over them: what can be passed over only once "
                "must not have a length",
            )
        if not count:
            raise InputError("too-few-batches", "there are no batches")
        if count < skipped:
            raise InputError(
                "too-few-batches",
                f"expected a stream with the {skipped} batches before the checkpoint, "
                f"got {count}",
                hint="give the stream from its start, as the first run got it",
            )

    def digest(self) -> str:
        """Return an empty digest, as future batches cannot be compared."""
        return ""


def shuffled_batches(
    data: Data,
    leaves: Sequence[Leaf],
    size: int | None,
    seed: int | None,
    devices: int = 1,
) -> Batches:
    """Return batches of the data for these inputs, shuffled anew in every epoch.

    Args:
        data: whole arrays, as `arrays_for` takes them, or an iterable of batches,
            which stay in their order.
        leaves: the inputs.
        size: rows in a batch, if the inputs do not say it.
        seed: of the orders, by default 0.
        devices: that each batch is divided among.

    Raises:
        InputError: the data do not fit the inputs.
        SetupError: the machine does not let them be read.
    """
    if not inputs.are_whole_arrays(data):
        return _own_batches(data, leaves, {"batch_size": size, "seed": seed})
    rows = _batch_size(leaves, size, devices)
    arrays = inputs.arrays_for(data, leaves)
    count = len(next(iter(arrays.values())))
    if count < rows:
        raise InputError(
            "too-few-rows",
            f"expected at least one batch of {rows} rows, got {count}",
            where=inputs.place_of(data),
        )
    return RowBatches(arrays, rows, seed or 0)


def batches_in_order(data: Data, leaves: Sequence[Leaf], size: int | None) -> Batches:
    """Return batches of the data for these inputs, with each row once, in order.

    Raises:
        InputError, SetupError: as for `shuffled_batches`.
    """
    if not inputs.are_whole_arrays(data):
        return _own_batches(data, leaves, {"batch_size": size})
    rows = _batch_size(leaves, size)
    arrays = inputs.arrays_for(data, leaves)
    if not len(next(iter(arrays.values()))):
        where = inputs.place_of(data)
        raise InputError("too-few-rows", "there are no rows", where=where)
    return RowBatches(arrays, rows, None)


def _own_batches(
    data: object, leaves: Sequence[Leaf], options: Mapping[str, int | None]
) -> OwnBatches:
    """Return the caller's own batches; raise for options that only whole arrays
    take.
    """
    for name, value in options.items():
        if value is not None:
            raise InputError(
                "usage",
                f"{wording.current().option(name)} belongs to arrays; batches of your "
                "own are taken as they come",
                hint="pass whole arrays by name, or leave it out",
            )
    if not hasattr(data, "__iter__"):
        raise InputError(
            "input-type",
            "expected a mapping of arrays, the path of a file of arrays, or an "
            f"iterable of batches, got {type(data).__name__}",
        )
    _require_leaves(leaves)
    return OwnBatches(data, leaves)


def _length(batches: Any) -> int | None:
    """Return the length of an iterable; None if it has none."""
    try:
        return len(batches)
    except TypeError:
        return None


def _require_leaves(leaves: Sequence[Leaf]) -> None:
    """Raise if an entry has no input to take batches for."""
    if not leaves:
        raise InputError(
            "no-batches", "the entry has no input that batches could be taken for"
        )


def _batch_size(leaves: Sequence[Leaf], size: int | None, devices: int = 1) -> int:
    """Return the number of rows of a batch: the inputs' fixed size, or `size`.

    An input has the rows of one device.
    """
    _require_leaves(leaves)
    words = wording.current()
    for leaf in leaves:
        if not leaf.shape:
            raise InputError(
                "no-batches",
                f"the input {leaf.name!r} is a scalar, which has no rows",
                hint=f"the same value for all steps: {words.constant(leaf.name)}",
            )
    fixed = {
        leaf.name: leaf.shape[0] * devices
        for leaf in leaves
        if isinstance(leaf.shape[0], int)
    }
    sizes = set(fixed.values())
    if size is not None:
        sizes.add(size)
    if not sizes:
        raise InputError(
            "batch-size",
            "the entry takes batches of any size, and none is given",
            hint=words.option("batch_size", 32),
        )
    if len(sizes) > 1 or min(sizes) < 1:
        found = [f"{rows} for {name!r}" for name, rows in fixed.items()]
        found += [f"{size} by {words.option('batch_size')}"] if size is not None else []
        raise InputError(
            "batch-size", f"expected one size for all batches, got {', '.join(found)}"
        )
    rows = sizes.pop()
    if rows % devices:
        raise InputError(
            "batch-size",
            f"expected a number of rows that {devices} devices can divide; got {rows}",
            hint=words.option("batch_size", rows - rows % devices or devices),
        )
    return rows
