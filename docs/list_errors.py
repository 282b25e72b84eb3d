"""Write docs/errors.md: the exit codes, and every error code that the source can raise.

    python docs/list_errors.py --write

The codes are read from the syntax trees of the sources, so the page cannot lag; what
cannot be read from them (a code that is computed) ends the command with its place.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aotc import errors
from aotc.cli import failure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
FOLDERS = {
    "aotc": "aotc",
    "dialects": "aotc.dialects",
    "passes": "aotc.passes",
    "artifacts": "aotc.artifacts",
    "cli": "aotc.cli",
}
# class → exit code
CLASSES = {
    name: value.exit_code
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.AotcError)
}
_CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")
_PLACEHOLDER = "…"

_HEAD = """\
# Errors

Every error has a code that stays, a message with what was expected and what came, the
place, and what to do next. The command prints them on standard error and, with
`--format json`, as a document of schema `aotc.error/1` on standard output; in Python
they are attributes of `aotc.errors.AotcError`. One failure has one code in both.

## Exit codes

{exit_codes}

Scripts branch on these; `aotc.errors` has a class for each.

## Codes

Written by `python docs/list_errors.py --write` from the sources. The message is that of
one place that raises the code, with … for what the call puts in.
"""
_KINDS = {
    1: ("The answer is no", "Finding"),
    2: ("Usage, model or input", "InputError"),
    3: ("Compile failed", "CompileError"),
    4: ("Verification failed", "VerificationError"),
    5: ("Environment", "SetupError"),
    70: ("Bugs of aotc", "AotcError"),
}


@dataclass
class Module:
    """One source file: its tree, and where the names that it imports come from."""

    name: str
    path: Path
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, path: Path) -> Module:
        """Parse a file."""
        module = cls(name, path, ast.parse(path.read_text(encoding="utf-8")))
        for node in ast.walk(module.tree):
            for child in ast.iter_child_nodes(node):
                module.parents[child] = node
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    module.imports[alias.asname or alias.name] = (
                        f"{node.module}.{alias.name}"
                    )
        return module

    def function_of(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function around a node."""
        return self._around(node, ast.FunctionDef)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class around a node."""
        return self._around(node, ast.ClassDef)

    def _around(self, node: ast.AST, kind: type) -> ast.AST | None:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kind):
                return node
        return None

    def calls(self) -> Iterator[ast.Call]:
        """Every call in the file."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


@dataclass
class Entry:
    """The facts on a code: its class's exit code, messages and modules."""

    exit_code: int
    messages: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)


def modules() -> list[Module]:
    """All sources of the package."""
    found = []
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found.append(Module.read(name, path))
    return found


class Reader:
    """Finds what the calls in the sources can say as the code of an error."""

    def __init__(self) -> None:
        self.modules = modules()

    def entries(self) -> dict[tuple[str, int], Entry]:
        """Return what is raised, by code and exit code."""
        found: dict[tuple[str, int], Entry] = {}
        for module in self.modules:
            for call in module.calls():
                name = self._error_class(module, call)
                if name is None or not call.args:
                    continue
                exit_code = CLASSES[name]
                for code, said, where in self._raised(module, call):
                    entry = found.setdefault((code, exit_code), Entry(exit_code))
                    entry.messages.append(said)
                    entry.modules.add(where)
        return found

    def _error_class(self, module: Module, call: ast.Call) -> str | None:
        """The class of `aotc.errors` that a call makes an instance of, if it does."""
        name = called(call)
        if name == "Reason" and call.args:  # of a rule that there is not
            return "CompileError"
        if name in CLASSES and isinstance(call.func, ast.Name):
            return name if module.imports.get(name) == f"aotc.errors.{name}" else None
        if name == "__init__" and isinstance(call.func, ast.Attribute):
            around = module.class_of(call)
            bases = [base.id for base in around.bases if isinstance(base, ast.Name)]
            return next((base for base in bases if base in CLASSES), None)
        return None

    def _raised(self, module: Module, call: ast.Call) -> Iterator[tuple[str, str, str]]:
        """Code, message and module of each way to reach a call that makes an error."""
        function = module.function_of(call)
        message = call.args[1] if len(call.args) > 1 else None
        place = _parameter(function, call.args[0])
        if place is None:
            codes = self._values(module, call.args[0], function, 3)
            if not codes and not isinstance(call.args[0], ast.Attribute):
                line = f"{module.path.relative_to(ROOT)}:{call.lineno}"
                sys.exit(f"{line}: the code of this error cannot be read")
            for code in codes:
                yield code, _text(message), module.name
            return
        position = _parameter(function, message) if message is not None else None
        for user, outer in self._calls_of(module, function):
            argument = _argument(outer, place)
            said = message if position is None else _argument(outer, position)
            if argument is not None:
                around = user.function_of(outer)
                for code in self._values(user, argument, around, 3):
                    yield code, _text(said), user.name

    def _calls_of(
        self, module: Module, function: ast.FunctionDef
    ) -> Iterator[tuple[Module, ast.Call]]:
        """The calls of a function in its own module and in those that import it."""
        full = f"{module.name}.{function.name}"
        package, _, name = module.name.rpartition(".")
        known = {full, f"{package}.{name}.{function.name}"}
        is_method = module.class_of(function) is not None
        for user in self.modules:
            if user is module or user.imports.get(function.name) in known or is_method:
                for call in user.calls():
                    plain = isinstance(call.func, ast.Name)
                    if called(call) == function.name and plain is not is_method:
                        yield user, call

    def _values(
        self,
        module: Module,
        node: ast.AST | None,
        function: ast.FunctionDef | None,
        depth: int,
    ) -> set[str]:
        """The strings that an expression in `function` can be; none if unknown."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return {node.value}
        if isinstance(node, ast.IfExp):
            sides = (node.body, node.orelse)
            return set().union(
                *(self._values(module, side, function, depth) for side in sides)
            )
        if isinstance(node, ast.JoinedStr):
            return self._joined(module, node, function, depth)
        if isinstance(node, ast.Name) and function is not None and depth:
            place = _parameter(function, node)
            if place is None:
                return _assigned(function, node.id)
            found = set()
            for user, call in self._calls_of(module, function):
                around = user.function_of(call)
                given = _argument(call, place)
                found |= self._values(user, given, around, depth - 1)
            return found
        return set()

    def _joined(
        self,
        module: Module,
        node: ast.JoinedStr,
        function: ast.FunctionDef | None,
        depth: int,
    ) -> set[str]:
        parts = [
            self._values(
                module,
                part.value if isinstance(part, ast.FormattedValue) else part,
                function,
                depth,
            )
            for part in node.values
        ]
        return {"".join(each) for each in itertools.product(*parts)}


def called(call: ast.Call) -> str:
    """The last name of what a call calls."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _parameter(
    function: ast.FunctionDef | None, node: ast.AST | None
) -> tuple[int, str] | None:
    """Place and name of the parameter that an expression is, `self` left out."""
    if function is None or not isinstance(node, ast.Name):
        return None
    names = [each.arg for each in function.args.args if each.arg != "self"]
    return (names.index(node.id), node.id) if node.id in names else None


def _argument(call: ast.Call, place: tuple[int, str]) -> ast.AST | None:
    index, name = place
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[index] if len(call.args) > index else None


def _assigned(function: ast.FunctionDef, name: str) -> set[str]:
    """The codes in what a function assigns to a name, and to the names in that."""
    found, todo, seen = set(), [name], set()
    while todo:
        current = todo.pop()
        seen.add(current)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and current in _names(*node.targets):
                strings = (n.value for n in ast.walk(node.value) if _is_code(n))
                found.update(strings)
                todo += _names(node.value) - seen
    return found


def _is_code(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "-" in node.value
        and bool(_CODE.fullmatch(node.value))
    )


def _names(*nodes: ast.AST) -> set[str]:
    walked = itertools.chain.from_iterable(map(ast.walk, nodes))
    return {node.id for node in walked if isinstance(node, ast.Name)}


def _text(node: ast.AST | None) -> str:
    """A message as far as it is written down."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else _PLACEHOLDER
            for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return _PLACEHOLDER


# ---- the page -----------------------------------------------------------------------


def page() -> str:
    """The content of docs/errors.md."""
    rows: dict[int, list[str]] = defaultdict(list)
    for (code, exit_code), entry in sorted(Reader().entries().items()):
        said = min(entry.messages, key=lambda text: (text == _PLACEHOLDER, text))
        said = said.replace("|", "\\|").replace("\n", " ")
        rows[exit_code].append(f"| `{code}` | {said} | {_where(entry.modules)} |")
    table = (failure.__doc__ or "").split("\n\n", 1)[1].strip()
    lines = [_HEAD.format(exit_codes=table)]
    for number, (title, name) in _KINDS.items():
        lines.append(f"### {title}: exit code {number}, `{name}`\n")
        lines.append("| code | message | raised in |\n|---|---|---|")
        lines.append("\n".join(rows.pop(number)) + "\n")
    assert not rows, rows
    return "\n".join(lines)


def _where(names: set[str]) -> str:
    packages = sorted({".".join(name.split(".")[:2]) for name in names})
    shown = ", ".join(f"`{name}`" for name in packages[:3])
    return shown + (", …" if len(packages) > 3 else "")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
