"""The part of a module that some of its names need: a static slice.

Mark Weiser, "Program slicing", 1981; here of whole statements at the top of a module. A
statement belongs to it if it gives a needed name its value, or executes code that may
change an object that a needed name stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from aotc.errors import InputError
from aotc.hybrid_programs.names import reads, stores

# statements that execute nothing of what they define
_DEFINING = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom,
)  # fmt: skip


def statements_for(
    names: Iterable[str],
    module: ast.Module,
    can_change: Callable[[str], bool],
    stays: Callable[[ast.stmt], bool],
) -> list[ast.stmt]:
    """The statements of a module that give names their values, in order.

    Args:
        names: that are needed.
        module: its syntax.
        can_change: whether what a name stands for is an object that may be changed.
        stays: whether a statement cannot be executed elsewhere.

    Raises:
        InputError: `bad-hybrid`: one that is needed cannot.
    """
    needed = {*names}
    taken: set[int] = set()
    body = [each for each in module.body if not _is_main(each)]
    while True:
        changing = {name for name in needed if can_change(name)}
        found = {
            number
            for number, each in enumerate(body)
            if number not in taken and _is_for(each, needed, changing)
        }
        if not found:
            return [body[number] for number in sorted(taken)]
        for number in sorted(found):
            if stays(body[number]):
                _refuse(body[number], needed, changing)
        taken |= found
        needed |= reads(*(body[number] for number in found))


def _is_for(node: ast.stmt, needed: set[str], changing: set[str]) -> bool:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    if stores(node) & needed:
        return True
    return not isinstance(node, _DEFINING) and bool(reads(node) & changing)


def _refuse(node: ast.stmt, needed: set[str], changing: set[str]) -> None:
    used = (stores(node) & needed) | (reads(node) & changing)
    raise InputError(
        "bad-hybrid",
        f"line {node.lineno} belongs to '{min(used)}', which Python needs on a device, "
        "and uses functions of aotc, which devices do not have: "
        + ast.unparse(node).partition("\n")[0],
        hint="define what Python needs in a module of its own, and import it; "
        "`boundaries` lists what is Python",
    )


def _is_main(node: ast.stmt) -> bool:
    """Whether a statement is for a module that is run as a program."""
    return isinstance(node, ast.If) and "__name__" in reads(node.test)
