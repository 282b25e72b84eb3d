"""IR as text: for a build to go on with, or for people."""

from __future__ import annotations

from aotc.dialects.functions.functions import lowered_op
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.printer import format_module
from aotc.errors import InputError
from aotc.mlir import Function, Module
from aotc.programs.files import ir_text


def text_of(module: Module, readable: bool = False) -> str:
    """Return a module as MLIR text that can be read back, or in the readable form.

    In that, behind a region stands its term (`aotc.kernels.terms`).

    Raises:
        InputError: `not-graph-ir`: a module that is lowered has no such form.
    """
    if not readable:
        return ir_text(module)
    if lowered_op(module) is not None:
        raise InputError(
            "not-graph-ir",
            "only graph IR has a form for people; this is lowered",
            hint="leave out --readable",
        )
    return format_module(module, _term)


def _term(function: Function) -> str:
    """Return the term (loop nest) of a region's function, for the readable form."""
    from aotc.kernels.term_builder import term_of  # which few builds ask for

    term = term_of(function) if is_region(function) else None
    return "" if term is None else str(term)
