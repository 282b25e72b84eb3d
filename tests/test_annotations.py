"""Types are part of the words: annotations say what functions take and return."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("aotc", "artifacts", "cli", "dialects", "passes")
MOST = 0.05  # of the parameters and results that are annotated
# A document of JSON: its values are of any type until they are read.
DOCUMENTS = {"JsonObject"}


class Module(NamedTuple):
    """What the annotations of a module say.

    Args:
        file: it is in.
        name: of it, by which others import from it.
        annotations: the line, the name, and the names in the annotation of each
            parameter and result.
        aliases: the names in each type that has a name.
        imported: module and name of what has a name here.
    """

    file: Path
    name: str
    annotations: list[tuple[int, str, set[str]]]
    aliases: dict[str, set[str]]
    imported: dict[str, tuple[str, str]]


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


def _alias(node):
    """The name and the type of an assignment; None for others than of types."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and "TypeAlias" in _names(node.annotation):
        target, value = node.target, node.value
    else:
        return None
    is_type = isinstance(value, (ast.Name, ast.Subscript, ast.BinOp))
    return (target.id, value) if is_type and isinstance(target, ast.Name) else None


def _annotated(node):
    """The line, the name and the annotation of each parameter and the result."""
    given = node.args
    single = [each for each in (given.vararg, given.kwarg) if each]
    for each in [*given.posonlyargs, *given.args, *given.kwonlyargs, *single]:
        if each.annotation is not None:
            yield each.lineno, f"{node.name}({each.arg})", each.annotation
    if node.returns is not None:
        yield node.lineno, f"{node.name}()", node.returns


def _read(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    own = parts if parts[0] == "aotc" else ("aotc", *parts)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = Module(file, ".".join(own).removesuffix(".__init__"), [], {}, {})
    for name, value in filter(None, map(_alias, tree.body)):
        found.aliases[name] = {*_names(value)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for line, name, annotation in _annotated(node):
                found.annotations.append((line, name, {*_names(annotation)}))
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                found.imported[each.asname or each.name] = (node.module, each.name)
    return found


def _packages():
    """The modules of each package."""
    found = defaultdict(list)
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[parts[1] if folder == "aotc" else folder].append(_read(file))
    return found


def _unsaid(module, aliases):
    """The names by which a module says that something is of any type."""
    own = (name for name in module.aliases if (module.name, name) in aliases)
    taken = (name for name, source in module.imported.items() if source in aliases)
    return {"Any", *own, *taken}


def _aliases_of_any(modules):
    """Module and name of each type that mentions `Any`, and says as little."""
    found, before = set(), -1
    while len(found) > before:  # types that mention such types
        before = len(found)
        for module in modules:
            nothing = _unsaid(module, found)
            found |= {
                (module.name, name)
                for name, names in module.aliases.items()
                if name not in DOCUMENTS and nothing & names
            }
    return found


def test_few_parameters_and_results_are_of_any_type():
    packages = _packages()
    aliases = _aliases_of_any([each for own in packages.values() for each in own])
    nothing = {
        each.name: _unsaid(each, aliases) for own in packages.values() for each in own
    }
    found = []
    for package, modules in packages.items():
        count = sum(len(each.annotations) for each in modules)
        unsaid = [
            f"  {each.file.relative_to(ROOT)}:{line} {name}"
            for each in modules
            for line, name, names in each.annotations
            if nothing[each.name] & names
        ]
        share = len(unsaid) / max(count, 1)
        if package != "__init__" and share > MOST:
            found += [f"{package}: {share:.1%} of {count}", *unsaid]
    assert not found, "say what they are, not Any:\n" + "\n".join(found)
