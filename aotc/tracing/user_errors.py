"""Errors that the user's code raises, told apart from bugs of aotc."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aotc.errors import AotcError, InputError
from aotc.errors.system import no_memory
from aotc.tracing.advice import explanation
from aotc.tracing.constructs import replacement
from aotc.tracing.libraries import called_library
from aotc.tracing.source_locations import is_own, relative_path
from aotc.tracing.user_code import UserFrame, innermost_frame, user_calls

# codes of errors that a construct of Python met → it can say what to write instead
_ASKED_FOR_A_VALUE = {"traced-value", "symbolic-size"}

_MOST_CALLERS = 4  # lines that led to the one that failed


@contextmanager
def translate_user_errors() -> Iterator[None]:
    """Turn errors of user code within the `with` block into InputErrors with its line.

    What aotc itself raises without a diagnosis is a bug, and stays what it is.
    """
    try:
        yield
    except AotcError as error:
        _complete(error, user_calls(error.__traceback__))
        raise
    except SyntaxError as error:
        raise _user_error(error, []) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and classes of the model's own
        if (refused := no_memory(error)) is not None:
            _complete(refused, user_calls(error.__traceback__))
            raise refused from error
        if _is_bug(error):
            raise
        raise _user_error(error, user_calls(error.__traceback__)) from error


def _complete(error: AotcError, calls: list[UserFrame]) -> None:
    """Add the line, its callers and advice to an error."""
    if not calls:
        return
    error.where = error.where or _line(calls[-1])
    error.callers = error.callers or _callers(error.where, calls)
    if error.code in _ASKED_FOR_A_VALUE:
        of_size = error.code == "symbolic-size"
        error.hint = replacement(calls[-1], of_size=of_size) or error.hint
        error.call = error.call or called_library(calls[-1])


def _callers(where: str, calls: list[UserFrame]) -> tuple[str, ...]:
    """Return the source lines that led to an error, nearest first, at most four."""
    lines = [f"{_line(call)}, in {call.function}" for call in reversed(calls[:-1])]
    at_innermost = where.partition(" ")[0] == _line(calls[-1])
    distinct = tuple(dict.fromkeys(lines)) if at_innermost else ()
    if len(distinct) <= _MOST_CALLERS:
        return distinct
    return (*distinct[: _MOST_CALLERS - 1], distinct[-1])


def _user_error(error: BaseException, calls: list[UserFrame]) -> InputError:
    """Return an InputError for an error that user code raised."""
    found = explanation(error, calls[-1]) if calls else None
    found = found or _model_error(error)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        found.where = f"{relative_path(error.filename)}:{error.lineno}"
    _complete(found, calls)
    return found


def _model_error(error: BaseException) -> InputError:
    """Return an InputError that quotes an error of the model's code."""
    said = error.msg if isinstance(error, SyntaxError) else error
    hint = "the model itself raised this while it was loaded or traced"
    if _is_inside(error):
        hint = "this line gives aotc something of a kind that it does not take"
    return InputError("model-raised", f"{type(error).__name__}: {said}", hint=hint)


def _is_bug(error: BaseException) -> bool:
    """Return whether aotc's own code raised, other than a TypeError for a wrong call.

    A TypeError is how Python answers arguments of a wrong kind, and a special method
    such as `__getattr__` raises what the language asks it to.
    """
    return _is_inside(error) and not isinstance(error, TypeError)


def _is_inside(error: BaseException) -> bool:
    """Return whether aotc's code raised the error, outside of special methods."""
    frame = innermost_frame(error)
    if frame is None or isinstance(error, SyntaxError):
        return False
    special = frame.f_code.co_name.startswith("__")
    return is_own(frame.f_globals.get("__name__", "")) and not special


def _line(call: UserFrame) -> str:
    """Return `file:line` of a user frame."""
    return f"{relative_path(call.frame.f_code.co_filename)}:{call.line}"
