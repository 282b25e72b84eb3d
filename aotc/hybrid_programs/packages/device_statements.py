"""The statements of a user's module as a package can have them."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from copy import deepcopy
from importlib.util import resolve_name
from typing import TYPE_CHECKING

from aotc.errors import InputError
from aotc.hybrid_programs.packages.current_values import UNKNOWN
from aotc.hybrid_programs.packages.slicing import chains, global_reads, resolve
from aotc.hybrid_programs.python.breaks import is_own, island
from aotc.hybrid_programs.python.names import reads

if TYPE_CHECKING:
    from aotc.hybrid_programs.function import HybridFunction

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
# of aotc, what is there without a compiler
_AVAILABLE = ("artifacts", "counting", "errors", "runtime", "streaming")


def statements_for_device(
    module: ast.Module, function: HybridFunction, definition: ast.FunctionDef
) -> list[ast.stmt]:
    """Return a module's statements for a package, with `definition` for a hybrid
    function's.

    Marks of islands are left out, and what is for a module that is run as a program. An
    import is a statement for each name, and names its package.

    Raises:
        InputError: `bad-hybrid`: the function is not defined at the top.
    """
    scope = function.function.__globals__
    maker = _Preparing(scope, _has_texts_for_annotations(module))
    found: list[ast.stmt] = []
    for each in _without_main_blocks(module.body):
        if _is_same(each, function.definition):
            found.append(definition)
        elif not _is_alias(each, function, scope):
            found += _split_import(maker.visit(deepcopy(each)))
    if definition not in found:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected a function at the top of a module to export; "
            "it is defined in a block",
        )
    return found


def _without_main_blocks(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements without blocks of `if __name__ == "__main__"`."""
    for each in body:
        if isinstance(each, ast.If) and _is_main(each.test):
            yield from _without_main_blocks(each.orelse)
        else:
            yield each


def _is_main(test: ast.expr) -> bool:
    """Return whether a test is `__name__ == "__main__"`."""
    match test:
        case ast.Compare(left, [ast.Eq()], [right]):
            sides = {ast.unparse(left), ast.unparse(right)}
            return sides == {"__name__", "'__main__'"}
    return False


def _is_same(node: ast.stmt, other: ast.FunctionDef) -> bool:
    """Return whether a statement is a given function definition: by name and line."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return (node.name, node.lineno) == (other.name, other.lineno)


def _is_alias(
    node: ast.stmt, function: HybridFunction, scope: Mapping[str, object]
) -> bool:
    """Return whether a statement assigns the hybrid function to its own name."""
    match node:
        case ast.Assign([ast.Name(name)]):
            return name == function.name and scope.get(name) is function
    return False


def _split_import(node: ast.stmt) -> list[ast.stmt]:
    """Split an import into a statement for each name, leaving out plain imports of the
    compiler; return other statements as a list of one.
    """
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return [node]
    found: list[ast.stmt] = []
    for each in node.names:
        part = deepcopy(node)
        part.names = [each]
        is_of_compiler = isinstance(part, ast.Import) and needs_compiler(part, {})
        if each.asname or not is_of_compiler:  # else it only adds to `aotc`
            found.append(part)
    return found


def _has_texts_for_annotations(module: ast.Module) -> bool:
    """Return whether a module imports `annotations` from `__future__`."""
    return any(
        isinstance(each, ast.ImportFrom)
        and each.module == "__future__"
        and any(name.name == "annotations" for name in each.names)
        for each in module.body
    )


class _Preparing(ast.NodeTransformer):
    """A transformer that removes `island` decorators and unused annotations from
    statements.

    Args:
        scope: what the names of the module stand for now.
        has_texts: whether annotations are not evaluated.
    """

    def __init__(self, scope: Mapping[str, object], has_texts: bool) -> None:
        self._scope, self._has_texts = scope, has_texts

    def visit_FunctionDef(self, node: _Definition) -> ast.AST:
        """Remove `island` decorators and, where allowed, the annotations of a
        definition.
        """
        self.generic_visit(node)
        node.decorator_list = [x for x in node.decorator_list if not self._is_island(x)]
        if self._is_without_annotations(node):
            node.returns = None
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    each.annotation = None
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _is_without_annotations(self, node: _Definition) -> bool:
        """Return whether to remove a definition's annotations: unread, or naming aotc's
        classes.
        """
        if self._has_texts and not node.decorator_list:
            return True
        arguments = [x for x in ast.walk(node.args) if isinstance(x, ast.arg)]
        annotations = [x.annotation for x in arguments if x.annotation]
        annotations += [node.returns] if node.returns else []
        names = reads(*annotations) & self._scope.keys()
        return any(is_own(self._scope[name]) for name in names)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `island(function)` by `function`."""
        self.generic_visit(node)
        is_mark = self._is_island(node.func) and len(node.args) == 1
        return node.args[0] if is_mark else node

    def _is_island(self, node: ast.expr) -> bool:
        """Return whether an expression refers to `aotc.island`."""
        return resolve(ast.unparse(node), self._scope) is island

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        """Make a relative import absolute."""
        package = self._scope.get("__package__")
        if node.level and isinstance(package, str) and package:
            relative = "." * node.level + (node.module or "")
            node.module, node.level = resolve_name(relative, package), 0
        return node


# ---- what devices do not have


def needs_compiler(node: ast.stmt, scope: Mapping[str, object]) -> bool:
    """Return whether a statement, or a definition in it, uses aotc's compiler, absent
    on devices.

    Args:
        node: the statement.
        scope: what the names of its module stand for now.
    """
    if any(map(_imports_compiler, ast.walk(node))):
        return True
    used = [resolve(dotted, scope) for dotted in chains([node])]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        used += [scope[name] for name in global_reads(node) & scope.keys()]
    return any(x is not UNKNOWN and is_own(x) and not _is_available(x) for x in used)


def _imports_compiler(node: ast.AST) -> bool:
    """Return whether a node imports modules of aotc that devices lack."""
    match node:
        case ast.Import(names):
            modules = [each.name for each in names]
            return any(not _is_available_module(name) for name in modules)
        case ast.ImportFrom(module=str(module), names=names) if _is_of_aotc(module):
            if module != "aotc":
                return not _is_available_module(module)
            package = importlib.import_module("aotc")
            found = [getattr(package, each.name, None) for each in names]
            found = [
                sys.modules.get(f"aotc.{name.name}") if value is None else value
                for name, value in zip(names, found, strict=True)
            ]
            return not all(map(_is_available, found))
    return False


def _is_of_aotc(module: str) -> bool:
    """Return whether a module name is in the package `aotc`."""
    return module.partition(".")[0] == "aotc"


def _is_available_module(name: str) -> bool:
    """Return whether devices have a module: not aotc's, or of aotc's runtime
    packages.
    """
    if not _is_of_aotc(name) or name == "aotc":
        return True
    return name.split(".")[1] in _AVAILABLE


def _is_available(value: object) -> bool:
    """Return whether devices have the module that an object of aotc is from."""
    if isinstance(value, (types.ModuleType, str)):
        return _is_available_module(getattr(value, "__name__", "aotc"))
    module = getattr(value, "__module__", None) or type(value).__module__
    return _is_available_module(str(module))
