"""The current `OpScope`, which ops are applied in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aotc.tracing.array import Array


class OpScope(Protocol):
    """An interface of scopes, which decide how an op is applied: traced or computed."""

    @property
    def is_recording(self) -> bool:
        """Return whether ops are being recorded for a derivative."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array]:
        """Apply an op by name; return its results."""


class Interceptor(Protocol):
    """An interface of hooks that may apply ops instead of the current scope."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array] | None:
        """Apply an op; return its results, or None to leave it to the scope."""


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
    """Make `scope` the current one within the `with` block."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def without_tracing() -> Iterator[None]:
    """Compute ops at once, without a scope, within the `with` block."""
    with enter_scope(None):
        yield


@contextmanager
def intercepted_by(interceptor: Interceptor | None) -> Iterator[None]:
    """Install a hook for the ops of the current scope within the `with` block.

    Those of functions within (bodies of loops, functions with rules) are not.
    """
    found = None if interceptor is None else (interceptor, current_scope())
    token = _interceptor.set(found)
    try:
        yield
    finally:
        _interceptor.reset(token)


def current_interceptor() -> Interceptor | None:
    """Return the hook installed for the current scope, or None."""
    found = _interceptor.get()
    return found[0] if found is not None and found[1] is current_scope() else None
