"""Values of a call that a trace may look at, for `aotc.specialize`.

While `aotc.jit` traces a function for a call, it says what arrays are in that call; a
guard then holds later calls to the same value. An entry of a model has no call yet when
it is traced, and so no values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from aotc.dialects.types import SymbolicDim
    from aotc.tracing.array import Array
    from aotc.tracing.call_sizes import SizeCondition

LARGEST_VALUE = 1024  # elements of an array that a guard compares


class Specializer(Protocol):
    """An interface to the values of the call that a function is traced for."""

    @property
    def guards_branches(self) -> bool:
        """Return whether Python may branch on traced values without
        `aotc.specialize`.
        """

    def value_of(self, array: Array) -> np.ndarray:
        """Return a traced array's value in the call, and guard it."""

    def decide(self, condition: SizeCondition) -> bool:
        """Return whether a size condition holds in the call, and guard the answer."""

    def pin(self, size: SymbolicDim) -> int:
        """Return a symbolic size's value in the call, and specialize the code to it."""


_current: ContextVar[Specializer | None] = ContextVar("aotc_specializer", default=None)


@contextmanager
def specializing(specializer: Specializer) -> Iterator[None]:
    """Set the specializer of the call that is traced for, within the `with` block."""
    token = _current.set(specializer)
    try:
        yield
    finally:
        _current.reset(token)


def current_specializer() -> Specializer | None:
    """Return the specializer of the call that is traced for; None for an entry."""
    return _current.get()


def branch_value(array: Array) -> np.ndarray | None:
    """Return an array's value for a branch in Python, and guard it; None if not
    allowed.
    """
    current = _current.get()
    if current is None or not current.guards_branches:
        return None
    return guarded_value(array)


def guarded_value(array: Array) -> np.ndarray:
    """Return a traced array's value in the call, and guard it; refuse large arrays.

    Raises:
        InputError: `no-call`, `large-guard`; see `aotc.specialize`.
    """
    current = _current.get()
    if current is None:
        fail(
            "no-call",
            f"the value of an array ({array.type}) is known in calls only, and an "
            "entry of a model is traced before there is one",
            "use aotc.jit, or make an entry for each value and choose outside of it",
        )
    count = array.size
    if not isinstance(count, int) or count > LARGEST_VALUE:
        fail(
            "large-guard",
            f"expected an array of at most {LARGEST_VALUE} elements to specialize for; "
            f"got {array.type}",
            "specialize for what you decide on, such as its maximum",
        )
    return current.value_of(array)
