"""Output of a running model as text: printed values and failed assertions.

The compiler writes these texts into the module, the loader reads them back. Edge-safe.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from aotc.errors import InputError

_is_silent: ContextVar[bool] = ContextVar("aotc_is_silent", default=False)


class _Value:
    """An array in a format string: a format such as `.3f` applies to its elements."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __format__(self, spec: str) -> str:
        if not self._array.ndim:
            return format(self._array.item(), spec) if spec else str(self._array[()])
        if not spec:
            return np.array2string(self._array)
        by_element: Any = {"all": lambda element: format(element.item(), spec)}
        return np.array2string(self._array, formatter=by_element)


def render(text: str, array: np.ndarray) -> str:
    """Return a format string with an array in the place of its `{}`.

    Raises:
        ValueError: the format in the braces does not fit the dtype.
    """
    return text.format(_Value(array))


def show(text: str, array: np.ndarray) -> None:
    """Write a format string with an array in it to standard error, unless silenced."""
    if _is_silent.get():
        return
    sys.stderr.write(render(text, array))
    sys.stderr.flush()


@contextmanager
def silence() -> Iterator[None]:
    """Suppress `show` within the `with` block, in this thread."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def key(text: str, dtype: str) -> str:
    """Return the key that IREE knows a print by: its text, with aotc's dtype."""
    return f"{text}({dtype})"


def parse_key(text: str) -> tuple[str, str]:
    """Return the text and the dtype in a key: the inverse of `key`."""
    text, _, dtype = text.rpartition("(")
    return text, dtype.removesuffix(")")


_ASSERTION = re.compile(
    r"assertion failed: (?P<message>.*) <at (?P<where>.*?)>", re.DOTALL
)


def assertion(message: str, where: str | None) -> str:
    """Return the text of a failed assertion in compiled code: message and source
    line.
    """
    return f"assertion failed: {message} <at {where or ''}>"


def failed_assertion(text: str) -> InputError | None:
    """Return the InputError for IREE's message of a failed assertion, or None."""
    found = _ASSERTION.search(text)
    if found is None:
        return None
    where = found["where"] or None
    return InputError("assertion-failed", found["message"], where=where)
