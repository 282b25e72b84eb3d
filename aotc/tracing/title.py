"""Title of a model.py's bundle: `aotc.bundle(name="digits", version="1.0.0")`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from aotc.errors import InputError
from aotc.programs.program import TITLE_EXAMPLES, Title, is_title, title_form
from aotc.tracing.source_locations import fail, user_line

# in the globals of the file that calls `bundle`: what that file imports has its own
_VARIABLE = "__aotc_bundle__"


def bundle(*, name: str | None = None, version: str | None = None) -> None:
    """Declare the name and the version of the bundle that this file becomes.

        aotc.bundle(name="digits", version="1.0.0")

    `aotc build --name … --version …` come before them. A file that declares no name
    gives its own without the suffix, and 1.0.0 is the version where nothing says one.
    States that a model saved can be loaded into a bundle of the same name alone.

    Raises:
        InputError: `bad-bundle-name`; or `name-clash` if the file declares it twice.
    """
    for what, value in (("name", name), ("version", version)):
        if value is not None:
            require_title(what, value, user_line())
    declared = sys._getframe(1).f_globals
    first = declared.get(_VARIABLE)
    if first is not None:
        fail(
            "name-clash",
            f"the bundle is declared twice, first at {first.line}",
            "keep one of the two calls of aotc.bundle",
        )
    declared[_VARIABLE] = Title(name, version, user_line())


def declared_title(namespace: Mapping[str, object]) -> Title:
    """Return the bundle title declared in a module's globals; an empty one if none."""
    title = namespace.get(_VARIABLE)
    return title if isinstance(title, Title) else Title()


def require_title(what: str, value: object, where: str | None = None) -> None:
    """Refuse a `name` or `version` that is invalid in a bundle.

    Raises:
        InputError: `bad-bundle-name`.
    """
    if not is_title(what, value):
        raise InputError(
            "bad-bundle-name",
            f"expected {title_form(what)}; got {value!r}",
            where=where,
            hint=f"for example '{TITLE_EXAMPLES[what]}'",
        )
