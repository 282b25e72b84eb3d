"""Conditions on sizes that importers find: decided now, or guards of the entry."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from aotc.artifacts.conditions import COMPARISONS, Condition
from aotc.dialects.functions.entry_guards import EntryGuard
from aotc.dialects.types import Size
from aotc.errors import InputError
from aotc.importers.common.known_sizes import is_different, is_equal
from aotc.tracing.source_locations import fail, user_line
from aotc.tracing.tracing import current_trace


def require_sizes(condition: Condition, sizes: Mapping[str, Size], why: str) -> None:
    """Require a condition on sizes: decide it now, or add it to the entry's guards.

    One that the contracts decide costs nothing; any other becomes a guard of the entry,
    which the loader checks before anything runs.

    Args:
        condition: over names.
        sizes: what the names stand for, in the symbols of the current function.
        why: what the reader of the error is told.

    Raises:
        InputError: the sizes of the current function break it; `shape-guard`.
    """
    used = {name: sizes[name] for name in condition.symbols}
    holds = _decide(condition, used)
    if holds:
        return
    shown = condition.substitute({name: str(size) for name, size in used.items()})
    if holds is False:
        got = ", ".join(f"{name} = {size}" for name, size in sorted(used.items()))
        fail("shape-guard", f"expected {condition}, got {got}: {why}")
    trace = current_trace()
    assert trace is not None, "sizes without a trace are numbers"
    trace.root.guards.setdefault(
        shown.text, EntryGuard(shown.text, why, user_line() or "")
    )


def _decide(condition: Condition, sizes: Mapping[str, Size]) -> bool | None:
    """Return whether contracts make a condition true or false; None if calls differ."""
    try:
        return condition.holds(sizes, _compare)
    except (InputError, TypeError):  # of sizes that vary
        return None


def _compare(sign: type[ast.cmpop], left: object, right: object) -> bool:
    """Return whether a comparison of two sizes holds; refuse if contracts leave it
    open.
    """
    if sign is ast.Eq:
        return is_equal(left, right)
    if sign is ast.NotEq:
        return is_different(left, right)
    return COMPARISONS[sign](left, right)
