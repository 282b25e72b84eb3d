"""Places in the sources: where they speak of a release of IREE, and what is there.

A place is `path: anchor`, with the path from the root of the project. The anchor of a
text is the `Note [title]` that its paragraph begins with; else the function, class or
constant whose docstring or comment it is (`Class.method`), or `module`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

_RELEASE = re.compile(r"IREE 3\.\d+")
_NOTE = re.compile(r"Note \[(.*?)\]:")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def mentions(path: str) -> set[str]:
    """Return where a source file's docstrings and comments mention a release of
    IREE.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    found = {
        _anchor(paragraph, owner)
        for paragraph, owner in _paragraphs(text)
        if _RELEASE.search(paragraph)
    }
    return {f"{path}: {anchor}" for anchor in found}


def exists(place: str) -> bool:
    """Return whether the file and anchor of a place, `path: anchor`, exist."""
    path, _, anchor = place.partition(": ")
    file = ROOT / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return re.search(rf"^#+ {re.escape(anchor)}$", text, re.MULTILINE) is not None
    if anchor.startswith("Note ["):
        return any(_anchor(words, "") == anchor for words, _ in _paragraphs(text))
    tree = ast.parse(text)
    if anchor == "module":
        return ast.get_docstring(tree) is not None
    return anchor in {name for name, _ in _named(tree.body)}


def _anchor(paragraph: str, owner: str) -> str:
    """Return a paragraph's `Note [title]`, or else the name it belongs to."""
    note = _NOTE.match(paragraph)
    return f"Note [{note[1]}]" if note else owner


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of docstrings and comments, each with its owner's name."""
    tree, lines = ast.parse(text), text.splitlines()
    yield from _docstrings(tree)
    named = list(_named(tree.body))
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        code, mark, comment = line.partition("#")
        if mark and not code.strip():
            block.append(comment.strip())
            continue
        if block:
            owner = _owner(named, number)
            yield from ((each, owner) for each in _joined(block))
            block = []
        if mark:
            yield comment.strip(), _owner(named, number)


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of docstrings, each with its owner's name."""
    named = [("module", tree), *_named(tree.body)]
    for name, node in named:
        if isinstance(node, _DOCUMENTED) and (said := ast.get_docstring(node)):
            yield from ((each, name) for each in _joined(said.splitlines()))


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs, each joined into one line."""
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        yield " ".join(paragraph.split())


def _named(body: Sequence[ast.stmt], outer: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield name and node of functions, classes and constants, nested ones too."""
    for node in body:
        if isinstance(node, _Named):
            yield outer + node.name, node
            is_class = isinstance(node, ast.ClassDef)
            inner = [each for each in node.body if is_class or isinstance(each, _Named)]
            yield from _named(inner, f"{outer}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (each.id for each in targets if isinstance(each, ast.Name))
            yield from ((outer + name, node) for name in names)


def _owner(named: Sequence[tuple[str, ast.stmt]], line: int) -> str:
    """Return the innermost named node that contains a line."""
    found = "module"
    for name, node in named:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            found = name
    return found
