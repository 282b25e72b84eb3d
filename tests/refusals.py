"""Refusals of calls: the error, of the kind and code that it must have."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.errors import AotcError, InputError


def refusal(
    kind: type[AotcError],
    code: str,
    call: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> AotcError:
    """The error of a call that is to fail with this kind and code."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


def refused(
    kind: type[AotcError],
    code: str,
    call: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> str:
    """The text of the error of a call that is to fail with this kind and code."""
    return str(refusal(kind, code, call, *args, **kwargs))


def refused_here(
    code: str, call: Callable[..., Any], *args: Any, **kwargs: Any
) -> AotcError:
    """The error of a call; it must name the line that calls, here or in the test."""
    error = refusal(InputError, code, call, *args, **kwargs)
    callers = (__file__, sys._getframe(1).f_code.co_filename)
    lines = tuple(f"{Path(file).name}:" for file in callers)
    assert error.where.startswith(lines), error.where
    return error
