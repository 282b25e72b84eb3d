"""The current `OpScope`, which ops are applied in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aotc.tracing.array import Array


class OpScope(Protocol):
    """The handling of ops while it is current: tracing, or computing."""

    @property
    def is_recording(self) -> bool:
        """Return whether arrays still wait for a derivative, which has to see all
        ops.
        """

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array]:
        """The results of an op."""


class Interceptor(Protocol):
    """A hook that applies ops in the place of a scope, and may change their
    operands.
    """

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array] | None:
        """The results of an op; None to have it applied as it is."""


_interceptor: ContextVar[tuple[Interceptor, OpScope | None] | None] = ContextVar(
    "aotc_interceptor", default=None
)
_current: ContextVar[OpScope | None] = ContextVar("aotc_scope", default=None)


def current_scope() -> OpScope | None:
    """Return the scope that ops are applied in; None where they compute at once.

    Arrays that are made there are constants to whatever is traced later.
    """
    return _current.get()


@contextmanager
def enter_scope(scope: OpScope | None) -> Iterator[None]:
    """Make `scope` the current one within this block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def without_tracing() -> Iterator[None]:
    """Compute operations on arrays at once within this block."""
    with enter_scope(None):
        yield


@contextmanager
def intercepted_by(interceptor: Interceptor | None) -> Iterator[None]:
    """Give ops of the current scope to an interceptor first, within this block.

    Those of functions within (bodies of loops, functions with rules) are not.
    """
    found = None if interceptor is None else (interceptor, current_scope())
    token = _interceptor.set(found)
    try:
        yield
    finally:
        _interceptor.reset(token)


def current_interceptor() -> Interceptor | None:
    """Return the interceptor of the current scope, if any."""
    found = _interceptor.get()
    return found[0] if found is not None and found[1] is current_scope() else None
