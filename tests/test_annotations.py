"""Types are part of the words: annotations say what functions take and return."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("aotc", "artifacts", "cli", "dialects", "passes")
MOST = 0.05  # of the parameters and results that are annotated
# Packages that have more, and the most that they may have.
CEILINGS: dict[str, float] = {}
# A document of JSON: its values are of any type until they are read.
DOCUMENTS = {"JsonObject"}


def _names(node):
    """The names in an annotation, also in those that are text."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            try:
                yield from _names(ast.parse(each.value, mode="eval"))
            except SyntaxError:  # a text of `Literal`
                continue


@cache
def _trees():
    """The files of each package."""
    found = defaultdict(list)
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            package = parts[1] if folder == "aotc" else folder
            found[package].append((file, ast.parse(file.read_text(encoding="utf-8"))))
    return dict(found)


def _module(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    own = parts if parts[0] == "aotc" else ("aotc", *parts)
    return ".".join(own).removesuffix(".__init__")


@cache
def _aliases():
    """Module and name of each alias of types that mentions `Any`."""
    files = [each for package in _trees().values() for each in package]
    found, before = set(), -1
    while len(found) > before:  # aliases of aliases
        before = len(found)
        for file, tree in files:
            nothing = _unsaid(_module(file), tree, found)
            for name, value in _assigned(tree):
                if name not in DOCUMENTS and nothing & {*_names(value)}:
                    found.add((_module(file), name))
    return found


def _assigned(tree):
    """The names that a module gives to types."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in _names(node.annotation):
            targets, value = [node.target], node.value
        else:
            continue
        if isinstance(value, (ast.Name, ast.Subscript, ast.BinOp)):
            yield from ((each.id, value) for each in targets if hasattr(each, "id"))


def _unsaid(module, tree, aliases):
    """The names by which a module says that something is of any type."""
    imported = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if (node.module, each.name) in aliases
    }
    return {"Any", *imported, *(name for place, name in aliases if place == module)}


def _annotations(tree):
    """The line, the name and the annotation of each parameter and result."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        given = node.args
        single = [each for each in (given.vararg, given.kwarg) if each]
        for each in [*given.posonlyargs, *given.args, *given.kwonlyargs, *single]:
            if each.annotation is not None:
                yield each.lineno, f"{node.name}({each.arg})", each.annotation
        if node.returns is not None:
            yield node.lineno, f"{node.name}()", node.returns


def _unsaid_in(package):
    """How many annotations a package has, and the places of those of any type."""
    count, unsaid = 0, []
    for file, tree in _trees()[package]:
        nothing = _unsaid(_module(file), tree, _aliases())
        for line, name, annotation in _annotations(tree):
            count += 1
            if nothing & {*_names(annotation)}:
                unsaid.append(f"  {file.relative_to(ROOT)}:{line} {name}")
    return count, unsaid


def test_few_parameters_and_results_are_of_any_type():
    assert CEILINGS.keys() <= _trees().keys()
    assert all(ceiling > MOST for ceiling in CEILINGS.values())
    found = []
    for package in _trees():
        count, unsaid = _unsaid_in(package)
        share = len(unsaid) / max(count, 1)
        if share > CEILINGS.get(package, MOST):
            found += [f"{package}: {share:.1%} of {count}", *unsaid]
    assert not found, "say what they are, not Any:\n" + "\n".join(found)
