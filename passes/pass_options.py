"""The options of a pass as text, such as `entry=f,bytes=9`: the fields of its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, get_type_hints

from aotc.errors import InputError
from aotc.passes.base import Pass


def _bool_of(text: str) -> bool:
    """Parse `true` or `false` in any case; KeyError for other texts."""
    return {"true": True, "false": False}[text.lower()]


# type of a field → its value from a text; a ValueError or KeyError is for other texts
_PARSERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: _bool_of,
    str: str,
}


def require_parsable(made: type[Pass]) -> None:
    """Raise TypeError if a pass has an option field of a type that has no parser."""
    for name, kind in _types_of(made).items():
        if kind not in _PARSERS:
            known = ", ".join(each.__name__ for each in _PARSERS)
            raise TypeError(
                f"pass '{made.name}': expected a type of {known} for the option "
                f"'{name}'; got {kind}"
            )


def parse_options(made: type[Pass], text: str) -> dict[str, Any]:
    """Parse `name=value,…` into the keyword arguments of a pass class.

    Raises:
        InputError: `bad-pass-option`.
    """
    types = _types_of(made)
    given: dict[str, Any] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        try:
            name, value = each.split("=", 1)
            given[name] = _PARSERS[types[name]](value)
        except (KeyError, ValueError):
            raise _bad_option(made, f"got option '{each}'") from None
    required = [each.name for each in fields(made) if not _has_default(each)]
    if missing := [name for name in required if name not in given]:
        raise _bad_option(made, f"{', '.join(missing)} is missing")
    return given


def _types_of(made: type[Pass]) -> dict[str, Any]:
    """Return the option fields of a pass class with their resolved types."""
    hints = get_type_hints(made)
    return {each.name: hints[each.name] for each in fields(made)}


def _has_default(field: Field[object]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _bad_option(made: type[Pass], why: str) -> InputError:
    """Return the error for malformed options: the expected spelling, and `why`."""
    kinds = _types_of(made).items()
    options = ",".join(f"{name}=<{kind.__name__}>" for name, kind in kinds)
    optional = [each.name for each in fields(made) if _has_default(each)]
    may = f" ({', '.join(optional)} may be left out)" if optional else ""
    expected = f"'{made.name}{{{options}}}'{may}"
    return InputError("bad-pass-option", f"expected {expected}; {why}")
