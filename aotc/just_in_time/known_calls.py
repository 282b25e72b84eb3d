"""Calls whose code is known at a glance: by a key that is quick to make.

The key of a call says less of how it was written than its signature does, and takes a
microsecond where that takes ten: arrays count with dtype and shape, Python numbers with
their type, and dicts, lists and tuples with their form.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aotc.core.pytree import PyTree
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.variants import CodeVariant

_LONGEST = 10_000  # what contains itself has no end
_INT32 = range(-(2**31), 2**31)  # others may have another dtype


class SignatureCallCount:
    """A mutable count of the calls of one signature."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class KnownCode:
    """The compiled code for calls of one signature, callable on leaves.

    Args:
        variant: the code.
        call: the signature.
        count: of its calls.
    """

    __slots__ = ("_count", "_numbers", "captured", "variant")

    def __init__(
        self, variant: CodeVariant, call: CallSignature, count: SignatureCallCount
    ) -> None:
        self.variant, self._count = variant, count
        self.captured = variant.specialization.captured
        marks = zip(call.are_numbers, call.dtypes, strict=True)
        self._numbers = [(n, kind) for n, (mark, kind) in enumerate(marks) if mark]

    def run(self, leaves: Sequence[object]) -> PyTree:
        """Compute a call from its leaves, and count it."""
        self._count.calls += 1
        return self.variant.run(leaves)

    def run_given(self, given: Sequence[object]) -> PyTree:
        """Compute a call from the leaves of `quick_key`; Python numbers become
        arrays.
        """
        self._count.calls += 1
        if self._numbers:
            leaves = [*given]
            for number, dtype in self._numbers:
                leaves[number] = np.asarray(given[number], dtype)
            return self.variant.run(leaves)
        return self.variant.run(given)


def quick_key(args: Sequence[object]) -> tuple[Hashable | None, Sequence[object]]:
    """Return a cheap key of a call's signature, or None, and the call's leaves.

    Returns:
        None as the key where there is anything but arrays, Python numbers, dicts, lists
        and tuples.
    """
    key = []
    for each in args:
        if type(each) is not np.ndarray:
            return _key_of_trees(args)
        key.append((each.dtype, each.shape))
    return tuple(key), args


def _key_of_trees(args: Sequence[object]) -> tuple[Hashable | None, Sequence[object]]:
    """Return a cheap key of a call with trees and numbers, or None, and its leaves."""
    key: list[object] = []
    leaves: list[object] = []
    left: list[Any] = [*reversed(args)]  # by `kind` each is of one type
    while left:
        each = left.pop()
        kind = type(each)
        if kind is np.ndarray:
            key.append((each.dtype, each.shape))
            leaves.append(each)
        elif kind is dict:
            try:
                names = sorted(each)  # as `flatten` has them
            except TypeError:
                return None, args
            key.append((dict, *names))
            left += [each[name] for name in reversed(names)]
        elif kind is list or kind is tuple:
            key.append((kind, len(each)))
            left += reversed(each)
        elif kind is float or kind is bool or (kind is int and each in _INT32):
            key.append(kind)
            leaves.append(each)
        else:
            return None, args
        if len(key) > _LONGEST:
            return None, args
    return tuple(key), leaves


def are_leaves(
    given: Sequence[object], call: CallSignature, leaves: Sequence[object]
) -> bool:
    """Return whether the leaves of `quick_key` are those of the call's signature.

    Args:
        given: the leaves of `quick_key`.
        call: the signature of the call.
        leaves: its leaves.
    """
    if call.static or len(given) != len(leaves):
        return False
    rows = zip(given, leaves, call.are_numbers, strict=True)
    return all(one is other or is_number for one, other, is_number in rows)
