"""A hybrid function → a Python package: its Python, and a bundle of its regions."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from aotc import __version__
from aotc.artifacts import Signer
from aotc.artifacts.signers import signer_of
from aotc.core.json_values import JsonObject
from aotc.core.pytree import Structure
from aotc.core.writing import make_folder, write_text
from aotc.errors import InputError
from aotc.hybrid_programs.packages.device_statements import (
    needs_compiler,
    statements_for_device,
)
from aotc.hybrid_programs.packages.slicing import ProgramSlice
from aotc.hybrid_programs.packages.values import digests, fresh_values
from aotc.hybrid_programs.python.names import reads, stores
from aotc.hybrid_programs.python.regions import STATIC, StatementRegion, ValueForm
from aotc.hybrid_programs.python.runs import Island, Run
from aotc.hybrid_programs.python.statements import (
    AUGMENTED,
    AUGMENTED_ATTRIBUTE,
    AUGMENTED_PART,
    without_changes_of_constants,
)
from aotc.just_in_time.compiling import write_bundle
from aotc.just_in_time.signature import CallSignature
from aotc.machine.target import Target
from aotc.programs.program import Title, source_of
from aotc.runtime.regions import array_token, value_token
from aotc.tracing.assembly import trace
from aotc.tracing.entry import EntryFunction

if TYPE_CHECKING:
    from aotc.hybrid_programs.function import HybridFunction

_PLAIN = (int, float, complex, bool, str, bytes)
_HEAD = """{name}: {regions} compiled regions, and the Python between them.

Written by aotc {version} from {file}. `load(trust=…)` says whose signature of the
bundle to accept; without it, the first call loads the bundle as `aotc.load` does.

Loading checks the signature of the bundle, not this file, which Python executes before.
`aotc verify` of the folder compares this file with its digest in the signed manifest.
"""


class RegionCode(NamedTuple):
    """An entry that computes a region for one call signature, and its row in the
    manifest.

    Args:
        entry: that computes it.
        row: its row in the manifest.
    """

    entry: EntryFunction
    row: JsonObject


def export_package(
    function: HybridFunction,
    path: Path,
    *,
    key: Signer | Path | str | None = None,
    targets: str | Sequence[Target | str] = (),
) -> Path:
    """Write a Python package that computes a hybrid function on a device.

    It needs `aotc` without a compiler, and what the islands import. The regions are
    compiled for the calls that there were: sizes that have varied are symbols.

    Args:
        function: which was called.
        path: of the package, a folder that does not exist yet.
        key: to sign with; by default AOTC_SIGNING_KEY, else the user's development
            key.
        targets: to compile for; by default `Target.default()`.

    Raises:
        InputError: `no-call`: some of it was not reached by a call; `bad-hybrid`: its
            Python needs what a device does not have.
    """
    _require_name(path.name)
    if path.exists():
        raise InputError("file-exists", f"'{path}' exists", hint="remove it first")
    package = _package_of(function, f"{path.name}-1.0.0.aotc")
    codes = _codes(function)
    signer = signer_of(key)
    chosen = Target.listed(targets) or Target.default()
    with TemporaryDirectory(dir=make_folder(path.parent), prefix=".") as work:
        folder = make_folder(Path(work) / path.name)
        write_text(folder / "__init__.py", package.text)
        _require_same_values(function, package, folder)
        program = trace([each.entry for each in codes], {})
        program.title = Title(path.name, "1.0.0")
        program.source = source_of(Path(_file_of(function)), "hybrid")
        found = _findings(function, codes, package.text)
        write_bundle(program, chosen, folder, signer, found)
        os.rename(folder, path)
    return path


def _require_name(name: str) -> None:
    """Refuse a package name that is no ASCII identifier or is a keyword."""
    if not name.isidentifier() or not name.isascii() or iskeyword(name):
        raise InputError(
            "bad-option",
            f"expected the name of a module, such as retrieval; got {name!r}",
        )


def _findings(
    function: HybridFunction, codes: Sequence[RegionCode], text: str
) -> JsonObject:
    """Return the manifest's section on the hybrid function: boundaries and regions."""
    boundaries = [each.to_json() for each in function.boundaries]
    return {
        "hybrid": {
            "function": function.name,
            "graph_breaks": len(boundaries),
            "boundaries": boundaries,
            "regions": [each.row for each in codes],
            "module_sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    }


def _file_of(function: HybridFunction) -> str:
    """Return the path of the source file of a hybrid function."""
    return function.function.__code__.co_filename


# ---- the bundle


def _codes(function: HybridFunction) -> list[RegionCode]:
    """Return an entry and a manifest row for each region and call signature so far."""
    found = []
    for region in function.workshop.regions:
        place = _location_of(function, region)
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
            inputs = _inputs(region, call)
            found.append(RegionCode(entry, {**row, "inputs": inputs}))
    return found


def _location_of(function: HybridFunction, region: StatementRegion) -> str:
    """Return `file:line` of a region's first statement."""
    return f"{Path(_file_of(function)).name}:{region.body[0].lineno}"


def _inputs(region: StatementRegion, call: CallSignature) -> JsonObject:
    """Return a region's input structures and leaf types as JSON for the manifest."""
    form = dict(call.static)[STATIC].value
    assert isinstance(form, ValueForm)
    leaves, found = iter(form.leaves), dict[str, object]()
    arrays = zip(call.dtypes, call.shapes, strict=True)
    for name, structure in form.structures:
        _require_text_keys(region, name, structure)
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


def _require_text_keys(
    region: StatementRegion, name: str, structure: Structure
) -> None:
    """Refuse dicts with keys that are no strings, which JSON cannot have."""
    if structure.kind == "dict" and not all(isinstance(x, str) for x in structure.keys):
        raise InputError(
            "bad-hybrid",
            f"{region.name}: expected texts as the keys of dicts; '{name}' has others",
            hint="read what is needed of the dict before, in Python",
        )
    for each in structure.children:
        _require_text_keys(region, name, each)


def _token(region: StatementRegion, name: str, value: object) -> str:
    """Return a static value as text for the manifest; refuse other than plain
    values.
    """
    if type(value) not in _PLAIN or not isinstance(value, _PLAIN):
        raise InputError(
            "bad-hybrid",
            f"{region.name}: expected numbers, texts and arrays to compile for calls "
            f"of; got {type(value).__name__} in '{name}'",
            hint="read what is needed of the object before, in Python",
        )
    return value_token(value)


# ---- the module


@dataclass
class _Package:
    """The generated Python source of a package, and facts for checking it.

    Args:
        text: its source.
        compared: names whose values it must have in common with the user's module.
        lines: of the user's module that give names their values.
    """

    text: str
    compared: list[str]
    lines: dict[str, int]


def _package_of(function: HybridFunction, bundle: str) -> _Package:
    """Return the Python source of a package that computes a hybrid function by a
    bundle.
    """
    body = _Expanding(function.workshop.runs).expanded(function.rewritten_body)
    _require_weights_unread(function, body)
    file = _file_of(function)
    scope = function.function.__globals__
    definition = _definition(function, body)
    module = ast.parse("".join(linecache.getlines(file)))
    statements = statements_for_device(module, function, definition)
    found = ProgramSlice(
        statements, scope, [definition], lambda node: needs_compiler(node, scope)
    )
    _require_free_names(function, found)
    future = [x for x in found.statements if getattr(x, "module", "") == "__future__"]
    rest = [each for each in found.statements if each not in future]
    head = _HEAD.format(
        name=function.name,
        regions=len(function.workshop.regions),
        version=__version__,
        file=Path(file).name.encode("utf-8", "backslashreplace").decode(),
    )
    tools = ast.parse(
        f"from aotc.runtime.in_place import augmented as {AUGMENTED}\n"
        "from aotc.runtime.in_place import augmented_attribute as "
        f"{AUGMENTED_ATTRIBUTE}\n"
        f"from aotc.runtime.in_place import augmented_part as {AUGMENTED_PART}\n"
        "from aotc.runtime.regions import Regions\n"
        f"_aotc = Regions(__file__, {bundle!r})\nload = _aotc.load\n"
        f"__all__ = [{function.name!r}, 'load']"
    )
    described = ast.Expr(ast.Constant(head))
    whole = ast.Module([described, *future, *tools.body, *rest], [])
    text = ast.unparse(ast.fix_missing_locations(whole)) + "\n"
    lines = {name: x.lineno for x in found.statements for name in stores(x)}
    return _Package(text, found.compared(function.name), lines)


def _definition(function: HybridFunction, body: list[ast.stmt]) -> ast.FunctionDef:
    """Return a hybrid function's definition with another body, without Weights as
    parameters.
    """
    if "." in function.function.__qualname__:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected a function at the top of a module to export; "
            "it is defined in another one, or in a class",
        )
    if not function.name.isascii():
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected a name of ASCII letters, as entries have",
        )
    text = inspect.getdoc(function.function)
    first_lines = [ast.Expr(ast.Constant(text))] if text else []
    arguments = _without_stored(function.definition.args, {*function.workshop.sources})
    made = ast.FunctionDef(function.name, arguments, [*first_lines, *body], [])
    return ast.copy_location(made, function.definition)


def _without_stored(all_of: ast.arguments, stored: set[str]) -> ast.arguments:
    """Return parameters without those that are Weights, and without annotations."""
    found = deepcopy(all_of)
    plain = [*found.posonlyargs, *found.args]
    first = len(plain) - len(found.defaults)
    found.defaults = [
        default
        for each, default in zip(plain[first:], found.defaults, strict=True)
        if each.arg not in stored
    ]
    found.kw_defaults = [
        default
        for each, default in zip(found.kwonlyargs, found.kw_defaults, strict=True)
        if each.arg not in stored
    ]
    for kind in ("posonlyargs", "args", "kwonlyargs"):
        kept = [each for each in getattr(found, kind) if each.arg not in stored]
        setattr(found, kind, kept)
    for each in ast.walk(found):
        if isinstance(each, ast.arg):
            each.annotation = None
    return found


def _require_weights_unread(function: HybridFunction, body: list[ast.stmt]) -> None:
    """Refuse a function whose Python parts read Weights, which are in the bundle."""
    used = reads(*body) & function.workshop.sources.keys()
    if used:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: expected that only compiled code reads the Weights "
            f"'{min(used)}'; Python does, too",
            hint="`boundaries` lists what is Python; give it what it needs as arrays",
        )


def _require_free_names(function: HybridFunction, program_slice: ProgramSlice) -> None:
    """Refuse statements that assign the package's own names, `load` and `_aotc`."""
    for each in program_slice.statements:
        if used := stores(each) & {"load", "_aotc"}:
            raise InputError(
                "bad-hybrid",
                f"{function.name}: line {each.lineno} gives '{min(used)}' a value, "
                "which is the package's own name for what loads its bundle",
                hint="give it another name",
            )


# ---- the values of the module


def _require_same_values(
    function: HybridFunction, package: _Package, path: Path
) -> None:
    """Import the package in a new process; refuse it if values differ from the module's
    now.

    A new process imports it: this one executes nothing twice.
    """
    found = fresh_values(path.parent, path.name, package.compared)
    if "error" in found:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: the package cannot be imported: {found['error']}",
            hint="it has those statements of the module that Python needs, and is "
            "imported from another folder; put what they do into a module of its own",
        )
    if found["compiler"]:
        raise InputError(
            "bad-hybrid",
            f"{function.name}: what Python imports on a device imports the compiler "
            f"of aotc ({found['compiler'][0]}), which devices do not have",
            hint="put what Python needs into a module of its own, in a package that "
            "does not import the model",
        )
    now = digests(function.function.__globals__, package.compared)
    for name, ours in now.items():
        theirs = found["digests"][name]
        if ours != theirs and None not in (ours, theirs):
            line = package.lines.get(name.partition(".")[0], 0)
            raise InputError(
                "bad-hybrid",
                f"{function.name}: the package would compute with another value of "
                f"'{name}' than the module has now: it was changed since line {line} "
                "of the module, or is another one at each import",
                hint="export before it is changed; give the function what varies as "
                "an argument",
            )


class _Expanding(ast.NodeTransformer):
    """A transformer that replaces calls of a `Run` by its Python and calls of the
    bundle.

    Args:
        runs: by their numbers.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def expanded(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements in which calls of runs are their Python and calls of the
        bundle.
        """
        found: list[ast.stmt] = []
        for each in body:
            made = self.visit(deepcopy(each))
            found += made if isinstance(made, list) else [made]
        return found

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt] | ast.stmt:
        """Expand a call of a run; remove a statement that only counts calls."""
        if "_aotc_python" in reads(node):  # it only counts
            return []
        return self._pieces(node.value) or node

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt] | ast.stmt:
        """Expand a call of a run whose outputs are assigned."""
        return self._pieces(node.value) or node

    def _pieces(self, value: ast.expr) -> list[ast.stmt]:
        """Return the statements of a run that an expression calls; empty for others."""
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

    def _piece(self, piece: StatementRegion | Island) -> list[ast.stmt]:
        """Return the statements that compute an island or a region in the package."""
        if not isinstance(piece, StatementRegion):
            return self.expanded(piece.inside)
        if piece.is_python:
            return self.expanded([*map(without_changes_of_constants, piece.body)])
        given = "".join(f", {name}={name}" for name in piece.given)
        targets = "".join(f"{name}, " for name in sorted(piece.outputs))
        return ast.parse(f"({targets}) = _aotc({piece.name!r}{given})").body
