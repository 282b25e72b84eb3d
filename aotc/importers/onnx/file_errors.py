"""Errors of files with invalid content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aotc.errors import AotcError
from aotc.errors.system import no_memory
from aotc.tracing.source_locations import fail


@contextmanager
def attribute_to_file(code: str, what: str) -> Iterator[None]:
    """Turn exceptions within this block into errors about the file, at the current
    node.

    A file can say anything: sizes below zero, two pads for three axes, an axis that is
    a text. Functions that import operators do not look for all of that.
    """
    try:
        yield
    except AotcError:
        raise
    except Exception as error:
        if (refused := no_memory(error)) is not None:
            raise refused from error
        why = str(error).partition("\n")[0] or type(error).__name__
        fail(code, f"{what}: {why}")
