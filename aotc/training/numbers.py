"""Arguments that count something."""

from __future__ import annotations

from operator import index

from aotc.errors import InputError
from aotc.training import wording


def require_whole(least: int, **numbers: int | None) -> None:
    """Raise for arguments that are neither integers of at least `least` nor None.

    Raises:
        InputError: `bad-number`.
    """
    for name, number in numbers.items():
        if number is not None and not _is_whole(number, least):
            raise InputError(
                "bad-number",
                f"expected {wording.current().option(name)} to be a whole number of "
                f"{least} or more, got {number!r}",
            )


def _is_whole(number: int, least: int) -> bool:
    """Return whether a value is an integer, of NumPy or a bool too, of at least
    `least`.
    """
    try:
        return index(number) >= least
    except TypeError:
        return False
