"""What becomes of ops now: the current `Scope`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aotc.tracing.array import Array


class Scope(Protocol):
    """What becomes of ops while it is current: they are traced, or computed."""

    @property
    def is_recording(self) -> bool:
        """Whether its arrays still wait for a derivative, which has to see all ops."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, Any], /
    ) -> list[Array]:
        """The results of an op."""


_current: ContextVar[Scope | None] = ContextVar("aotc_scope", default=None)


def current_scope() -> Scope | None:
    """What ops are given to now; None where they compute, and their results are known.

    Arrays that are made there are constants to whatever is traced later.
    """
    return _current.get()


@contextmanager
def entered(scope: Scope | None) -> Iterator[None]:
    """Within this block, `scope` is what ops are given to."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def without_tracing() -> Iterator[None]:
    """Within this block, operations on arrays compute at once."""
    with entered(None):
        yield
