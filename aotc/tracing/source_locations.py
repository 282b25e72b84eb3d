"""Source locations in the model: the user's file and line, and the layer path.

Every op and every message carries the line of the model that caused it. It is found by
walking the Python stack past aotc's own frames.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from aotc.errors import AotcError, InputError

if TYPE_CHECKING:
    from aotc.mlir import ir

Place = tuple[str, int]  # file and line

_scopes: ContextVar[tuple[str, ...]] = ContextVar("aotc_scopes", default=())
_root: ContextVar[str | None] = ContextVar("aotc_source_root", default=None)
_pinned: ContextVar[Place | None] = ContextVar("aotc_pinned", default=None)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Append `name` to the layer path of op locations within the `with` block."""
    token = _scopes.set((*_scopes.get(), name))
    try:
        yield
    finally:
        _scopes.reset(token)


@contextmanager
def source_root(folder: Path) -> Iterator[None]:
    """Show file names relative to the model's `folder` within the `with` block."""
    token = _root.set(str(folder.resolve()))
    try:
        yield
    finally:
        _root.reset(token)


@contextmanager
def at_location(place: Place | None, path: str | None = None) -> Iterator[None]:
    """Fix the location of ops and errors to one line, and layer, within the `with`
    block.

    For what concerns an entry as a whole, while no line of it is being executed, and
    for models of other frameworks, which were written at lines that no longer run.
    With None, the stack is looked at again.
    """
    token = _pinned.set(place)
    layers = _scopes.set(_scopes.get() if path is None else (path,))
    try:
        yield
    finally:
        _scopes.reset(layers)
        _pinned.reset(token)


def location() -> ir.Location:
    """Return the user's current line and layer path as an MLIR location."""
    from aotc.mlir import ir  # messages are about lines without MLIR, too

    place = user_place()
    if place is None:
        return ir.Location.unknown()
    at = ir.Location.file(relative_path(place[0]), place[1], 0)
    path = "/".join(_scopes.get())
    return ir.Location.name(path, at) if path else at


def user_line() -> str | None:
    """Return the user's current line for messages: `file:line (layer/path)`."""
    place = user_place()
    if place is None:
        return None
    path = "/".join(_scopes.get())
    line = f"{relative_path(place[0])}:{place[1]}"
    return f"{line} ({path})" if path else line


def calling_place(module: str) -> Place | None:
    """Return the user's line that called into a module of aotc; None if aotc called.

    None where other code of aotc calls it, whose line says nothing about a model.
    """
    frame = sys._getframe(1)
    while frame.f_back and _name(frame) in (module, "dataclasses"):
        frame = frame.f_back
    return None if is_own(_name(frame)) else (frame.f_code.co_filename, frame.f_lineno)


def _name(frame: FrameType) -> str:
    """Return the name of a frame's module."""
    return str(frame.f_globals.get("__name__", ""))


def line_of(place: Place | None) -> str:
    """Return `file:line` of a place for messages; "" for None."""
    return f"{relative_path(place[0])}:{place[1]}" if place else ""


def relative_path(filename: str) -> str:
    """Return a file's path relative to the model, or its bare name."""
    return _relative_to(_root.get(), filename)


@cache  # every op asks
def _relative_to(root: str | None, filename: str) -> str:
    """Return a file's path relative to a folder, or its bare name."""
    path = Path(filename)
    if root is not None and path.is_absolute() and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return path.name


def fail(code: str, message: str, hint: str | None = None) -> NoReturn:
    """Raise an InputError at the user's current line."""
    raise InputError(code, message, where=user_line(), hint=hint)


@contextmanager
def at_user_line() -> Iterator[None]:
    """Add the user's line to errors that the `with` block raises without one."""
    try:
        yield
    except AotcError as error:
        error.where = error.where or user_line()
        raise


def user_place() -> Place | None:
    """Return file and line of the innermost frame in the model, or else outside of
    aotc.
    """
    if _pinned.get() is not None:
        return _pinned.get()
    first = None
    frame = sys._getframe(1)
    while frame is not None:
        if not is_own(frame.f_globals.get("__name__", "")):
            place = (frame.f_code.co_filename, frame.f_lineno)
            if is_in_model(place[0]):
                return place
            first = first or place
        frame = frame.f_back  # type: ignore[assignment]
    return first


def is_in_model(filename: str) -> bool:
    """Return whether a file is in the model's folder; True if that is unknown.

    A library in a virtual environment in that folder does not.
    """
    return _is_within(_root.get(), filename)


@cache
def _is_within(root: str | None, filename: str) -> bool:
    """Return whether a file is in a folder, outside of its site-packages."""
    path = Path(filename)
    if root is None:
        return True
    return path.is_relative_to(root) and "site-packages" not in path.parts


@cache
def is_own(module: str) -> bool:
    """Return whether a module, by its name, is aotc's or contextlib."""
    return module == "aotc" or module.startswith(("aotc.", "contextlib"))
