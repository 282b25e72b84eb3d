"""A hybrid function → a Python package: its Python, and a bundle of its regions."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc import __version__
from aotc.artifacts import Signer, development_key
from aotc.errors import InputError
from aotc.hybrid_programs.breaks import is_data, is_own, island
from aotc.hybrid_programs.names import reads, stores
from aotc.hybrid_programs.regions import STATIC, Region
from aotc.hybrid_programs.runs import Run
from aotc.hybrid_programs.slicing import statements_for
from aotc.just_in_time.compiling import write_bundle
from aotc.just_in_time.signature import CallSignature
from aotc.program import Title, source_of
from aotc.runtime.regions import array_token, value_token
from aotc.target import Target
from aotc.tracing.assembly import trace
from aotc.writing import make_folder, write_text

if TYPE_CHECKING:
    from aotc.hybrid_programs.function import HybridFunction

_PLAIN = (int, float, complex, bool, str, bytes)
_HEAD = '''"""{name}: {regions} compiled regions, and the Python between them.

Written by aotc {version} from {file}. `load(trust=…)` says whose signature of the
bundle to accept; without it, the first call loads the bundle as `aotc.load` does.
"""
'''


def export_package(
    function: HybridFunction,
    path: Path,
    *,
    key: Path | None = None,
    targets: Sequence[Target] = (),
) -> Path:
    """Write a Python package that computes a hybrid function on a device.

    It needs `aotc` without a compiler, and what the islands import. The regions are
    compiled for the calls that there were: sizes that have varied are symbols.

    Args:
        function: which was called.
        path: of the package, a folder that does not exist yet.
        key: to sign with; by default the user's development key.
        targets: to compile for; by default `Target.default()`.

    Raises:
        InputError: `no-call`: some of it was not reached by a call; `bad-hybrid`: its
            Python needs what a device does not have.
    """
    if not path.name.isidentifier():
        raise InputError(
            "bad-option",
            f"expected the name of a module, such as retrieval; got {path.name!r}",
        )
    if path.exists():
        raise InputError("file-exists", f"'{path}' exists", hint="remove it first")
    text = _module_text(function, f"{path.name}-1.0.0.aotc")
    codes = _codes(function)
    program = trace([entry for entry, _ in codes], {})
    program.title = Title(path.name, "1.0.0")
    program.source = source_of(Path(_file_of(function)), "hybrid")
    signer = Signer.from_file(key) if key else development_key()
    boundaries = [each.to_json() for each in function.boundaries]
    found = {
        "hybrid": {
            "function": function.name,
            "graph_breaks": len(boundaries),
            "boundaries": boundaries,
            "regions": [row for _, row in codes],
        }
    }
    chosen = tuple(targets) or Target.default()
    with TemporaryDirectory(dir=make_folder(path.parent), prefix=".") as work:
        folder = make_folder(Path(work) / path.name)
        write_bundle(program, chosen, folder, signer, found)
        write_text(folder / "__init__.py", text)
        os.rename(folder, path)
    return path


def _file_of(function: HybridFunction) -> str:
    return function.function.__code__.co_filename


# ---- the bundle


def _codes(function: HybridFunction) -> list[tuple[Any, dict[str, Any]]]:
    """The entries of all regions, and what the manifest says of each."""
    found = []
    for region in function.workshop.regions:
        place = _place(function, region)
        entries = region.jit.entries()
        if not entries:
            raise InputError(
                "no-call",
                f"{function.name}: expected calls that reach each line; none has "
                f"reached {place}",
                where=place,
                hint="call it so that it does, or leave the line out",
            )
        for call, entry in entries:
            row = {"region": region.name, "entry": entry.name, "place": place}
            found.append((entry, {**row, "inputs": _inputs(region, call)}))
    return found


def _place(function: HybridFunction, region: Region) -> str:
    return f"{Path(_file_of(function)).name}:{region.body[0].lineno}"


def _inputs(region: Region, call: CallSignature) -> dict[str, Any]:
    """What code is made for of the inputs of a call, as manifests spell it."""
    form: Any = dict(call.static)[STATIC].value
    leaves, found = iter(form.leaves), dict[str, Any]()
    arrays = zip(call.dtypes, call.shapes, strict=True)
    for name, structure in form.structures:
        tokens = []
        for _ in range(structure.leaf_count):
            leaf = next(leaves)
            if leaf is None:
                dtype, shape = next(arrays)
                tokens.append(array_token(dtype, len(shape)))
            else:
                tokens.append(_token(region, name, leaf.value))
        found[name] = {"tree": structure.to_json(), "leaves": tokens}
    return found


def _token(region: Region, name: str, value: Any) -> str:
    if type(value) not in _PLAIN:
        raise InputError(
            "bad-hybrid",
            f"{region.name}: expected numbers, texts and arrays to compile for calls "
            f"of; got {type(value).__name__} in '{name}'",
            hint="read what is needed of the object before, in Python",
        )
    return value_token(value)


# ---- the module


def _module_text(function: HybridFunction, bundle: str) -> str:
    """The source of the package."""
    body = _Expanding(function.workshop.runs).expanded(function.rewritten_body)
    definition = _definition(function, body)
    file = _file_of(function)
    module = ast.parse("".join(linecache.getlines(file)))
    scope = function.function.__globals__
    _require_edge(function, body)
    arguments = definition.args
    defaults = [*arguments.defaults, *(x for x in arguments.kw_defaults if x)]
    outside = {name for each in function.workshop.regions for name in each.outside}
    free = reads(*body, *defaults) - stores(*body)
    names = (free | outside) - {*dir(builtins), "_aotc"}
    needed = statements_for(
        names,
        module,
        lambda name: _can_change(scope.get(name)),
        lambda node: _stays(node, scope),
    )
    future = [each for each in needed if getattr(each, "module", "") == "__future__"]
    rest = [_without_island(each, scope) for each in needed if each not in future]
    head = _HEAD.format(
        name=function.name,
        regions=len(function.workshop.regions),
        version=__version__,
        file=Path(file).name,
    )
    tools = ast.parse(
        "from aotc.runtime.regions import Regions\n"
        f"_aotc = Regions(__file__, {bundle!r})\nload = _aotc.load\n"
        f"__all__ = [{function.name!r}, 'load']"
    )
    whole = ast.Module([*future, *tools.body, *rest, definition], [])
    return head + "\n" + ast.unparse(ast.fix_missing_locations(whole)) + "\n"


def _definition(function: HybridFunction, body: list[ast.stmt]) -> ast.FunctionDef:
    """The function with another body, of the parameters that calls give."""
    if function.function.__code__.co_freevars:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected a function at the top of a module to export; "
            "it is defined in another one",
        )
    arguments = deepcopy(function.definition.args)
    stored = {*function.workshop.options["sources"]}
    plain = [*arguments.posonlyargs, *arguments.args]
    first = len(plain) - len(arguments.defaults)
    kept = [each for each in plain if each.arg not in stored]
    arguments.defaults = [
        default
        for each, default in zip(plain[first:], arguments.defaults, strict=True)
        if each.arg not in stored
    ]
    arguments.posonlyargs = [x for x in arguments.posonlyargs if x in kept]
    arguments.args = [x for x in arguments.args if x in kept]
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg):
            each.annotation = None
    text = inspect.getdoc(function.function)
    first_lines = [ast.Expr(ast.Constant(text))] if text else []
    return ast.FunctionDef(function.name, arguments, [*first_lines, *body], [])


def _can_change(value: Any) -> bool:
    """Whether code that reads a value may change it. Arrays are taken as they are."""
    plain = (*_PLAIN, tuple, type(None), np.ndarray, np.generic)
    return is_data(value) and not isinstance(value, plain)


def _stays(node: ast.stmt, scope: Mapping[str, Any]) -> bool:
    """Whether a statement needs the compiler's side of aotc."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = stores(node)
        return any(
            is_own(scope[name])
            and scope[name] is not sys.modules["aotc"]
            and scope[name] is not island
            for name in names & scope.keys()
        )
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return False
    return any(is_own(scope[name]) for name in reads(node) & scope.keys())


def _require_edge(function: HybridFunction, body: list[ast.stmt]) -> None:
    """Refuse Python that reads Weights, which are in the bundle."""
    used = reads(*body) & function.workshop.options["sources"].keys()
    if used:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected that only compiled code reads the Weights "
            f"'{min(used)}'; Python does, too",
            hint="`boundaries` lists what is Python; give it what it needs as arrays",
        )


def _without_island(node: ast.stmt, scope: dict[str, Any]) -> ast.stmt:
    """A statement without the mark of islands, which devices do not need."""
    if not isinstance(node, ast.FunctionDef):
        return node
    made = deepcopy(node)
    made.decorator_list = [
        each for each in node.decorator_list if not _is_island(each, scope)
    ]
    return made


def _is_island(node: ast.expr, scope: dict[str, Any]) -> bool:
    if isinstance(node, ast.Name):
        return scope.get(node.id) is island
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return is_attribute and getattr(scope.get(node.value.id), node.attr, 0) is island  # type: ignore[attr-defined]


class _Expanding(ast.NodeTransformer):
    """Has pieces in place of calls of runs.

    Args:
        runs: by their numbers.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def expanded(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements in which regions are calls of the bundle."""
        found: list[ast.stmt] = []
        for each in body:
            made = self.visit(deepcopy(each))
            found += made if isinstance(made, list) else [made]
        return found

    def visit_Expr(self, node: ast.Expr) -> Any:
        if "_aotc_python" in reads(node):  # it only counts
            return []
        return self._pieces(node.value) or node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._pieces(node.value) or node

    def _pieces(self, value: ast.expr) -> list[ast.stmt]:
        match value:
            case ast.Call(
                func=ast.Subscript(
                    value=ast.Name("_aotc_runs"), slice=ast.Constant(int(number))
                )
            ):
                pieces = self._runs[number].pieces
                return [part for each in pieces for part in self._piece(each)]
            case _:
                return []

    def _piece(self, piece: Any) -> list[ast.stmt]:
        if not isinstance(piece, Region):
            return self.expanded(piece.inside)
        given = "".join(f", {name}={name}" for name in piece.given)
        targets = "".join(f"{name}, " for name in sorted(piece.outputs))
        return ast.parse(f"({targets}) = _aotc({piece.name!r}{given})").body
