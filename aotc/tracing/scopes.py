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


class Interceptor(Protocol):
    """What applies ops in the place of a scope, and may change what they read."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, Any], /
    ) -> list[Array] | None:
        """The results of an op; None to have it applied as it is."""


_interceptor: ContextVar[tuple[Interceptor, Scope | None] | None] = ContextVar(
    "aotc_interceptor", default=None
)
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


@contextmanager
def intercepted_by(interceptor: Interceptor | None) -> Iterator[None]:
    """Within this block, ops of the current scope are given to an interceptor first.

    Those of functions within (bodies of loops, functions with rules) are not.
    """
    found = None if interceptor is None else (interceptor, current_scope())
    token = _interceptor.set(found)
    try:
        yield
    finally:
        _interceptor.reset(token)


def current_interceptor() -> Interceptor | None:
    """What ops of the current scope are given to first, if anything."""
    found = _interceptor.get()
    return found[0] if found is not None and found[1] is current_scope() else None
