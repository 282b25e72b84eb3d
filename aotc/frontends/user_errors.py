"""What the user's code raises, told apart from bugs of aotc."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from aotc.errors import AotcError, InputError
from aotc.frontends.places import is_own, relative


@contextmanager
def user_errors() -> Iterator[None]:
    """Whatever the user's code raises becomes one message at the user's line.

    What aotc itself raises without a diagnosis is a bug, and stays what it is.
    """
    try:
        yield
    except AotcError as error:
        error.where = error.where or _line_of(error)
        raise
    except SyntaxError as error:
        raise _diagnosed(error) from error
    except (Exception, SystemExit) as error:
        if _is_bug(error):
            raise
        raise _diagnosed(error) from error


def _diagnosed(error: BaseException) -> InputError:
    said = error.msg if isinstance(error, SyntaxError) else error
    hint = "the model itself raised this while it was loaded or traced"
    if _is_inside(error):
        hint = "this line gives aotc something of a kind that it does not take"
    message = f"{type(error).__name__}: {said}"
    return InputError("model-raised", message, where=_line_of(error), hint=hint)


def _is_bug(error: BaseException) -> bool:
    """Whether code of aotc raised, other than to say that it was called wrongly.

    A TypeError is how Python answers arguments of a wrong kind, and a special method
    such as `__getattr__` raises what the language asks it to.
    """
    return _is_inside(error) and not isinstance(error, TypeError)


def _is_inside(error: BaseException) -> bool:
    """Whether the innermost function is one of aotc, and no special method."""
    frames = list(_frames(error))
    if not frames or isinstance(error, SyntaxError):
        return False
    special = frames[-1].f_code.co_name.startswith("__")
    return is_own(frames[-1].f_globals.get("__name__", "")) and not special


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def _line_of(error: BaseException) -> str | None:
    """The innermost line of the user's that led to `error`."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{relative(error.filename)}:{error.lineno}"
    lines = [
        f"{relative(frame.f_code.co_filename)}:{number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not is_own(frame.f_globals.get("__name__", ""))
    ]
    return lines[-1] if lines else None
