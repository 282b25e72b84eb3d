"""`aotc.hybrid`: a function compiled as far as it can be."""

from __future__ import annotations

import ast
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.core import options
from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.python.making import compile_function
from aotc.hybrid_programs.python.names import late_bound, stores
from aotc.hybrid_programs.python.regions import JitOptions
from aotc.hybrid_programs.python.runs import Island, Workshop
from aotc.hybrid_programs.python.statements import without_changes_of_constants
from aotc.hybrid_programs.python.syntax import definition_of
from aotc.just_in_time.tracing import stored_parameters
from aotc.tracing.array import Array
from aotc.tracing.entry import StoredParameter, Weights
from aotc.tracing.scopes import current_scope
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from aotc.artifacts import Signer
    from aotc.machine.target import Target

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REFUSED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.AsyncFor,
    ast.AsyncWith,
)  # fmt: skip


def hybrid(
    function: Callable[..., object] | None = None,
    /,
    *,
    dynamic: str = "auto",
    max_variants: int = 8,
    max_compiles: int = 32,
    target: str | None = None,
    threads: int | None = None,
    **sources: StoredParameter,
) -> Any:
    """Return a function with its compilable parts compiled, and the rest left to
    Python.

    The function is split into regions, each compiled by `aotc.jit`, and islands, which
    Python computes between them: calls of functions that are not aotc's (retrieval,
    tools, libraries), what decides on values, what changes objects. Where the islands
    are is found when the function is called, by tracing; nothing is executed twice or
    in another order. `boundaries` lists them.

    Args:
        function: of arrays and other things. As a decorator, it is left out.
        dynamic: as for `aotc.jit`.
        max_variants: likewise, of each region.
        max_compiles: likewise, of each region.
        target: likewise.
        threads: likewise.
        sources: Weights by the names of parameters, where the module has none under
            these names.

    Raises:
        InputError: `bad-hybrid`: the function has no source, or is a generator or
            coroutine, or takes a State.
    """
    asked = JitOptions(dynamic, max_variants, max_compiles, target, threads)

    def declare(function: Callable[..., object]) -> HybridFunction:
        return HybridFunction(function, asked, sources)

    return declare if function is None else declare(function)


class HybridFunction:
    """A Python function with compiled regions, as `hybrid` makes it; see there."""

    aotc_is_hybrid = True  # for what cannot import this module

    def __init__(
        self,
        function: Callable[..., object],
        asked: JitOptions,
        sources: Mapping[str, StoredParameter],
    ) -> None:
        if not isinstance(function, types.FunctionType):
            kind = type(function).__name__
            fail(
                "bad-hybrid",
                f"expected a function of Python; got {function!r:.60} ({kind})",
                "what torch.export refuses of a module of PyTorch stays PyTorch's in "
                "aotc.from_torch(module, args, breaks='island')",
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.name = function.__name__
        self.definition = _definition(function)
        self._code = function.__code__
        self._asked, self._sources = asked, sources
        self._lock = threading.Lock()
        self._workshop: Workshop | None = None
        self._made: types.FunctionType | None = None
        self.rewritten_body: list[ast.stmt] = []
        self._is_eager = bool(options.get("AOTC_EAGER"))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Return the function's result; while another function is traced, inline it
        there.

        Raises:
            InputError: `bad-call`; `recompile-storm`, or as a build raises it.
        """
        if current_scope() is not None:  # in another function: a part of that
            return self._call_inline(args, kwargs)
        if self._stored_weights:
            args, kwargs = (), self._with_weights(args, kwargs)
        if self._is_eager:
            return _as_numpy(self.function(*args, **kwargs))
        return _as_numpy(self._rewritten_function(*args, **kwargs))

    def __get__(
        self, instance: object, owner: type | None = None
    ) -> HybridFunction | types.MethodType:
        """Bind the function as a method of an object."""
        return self if instance is None else types.MethodType(self, instance)

    # ---- preparing

    @functools.cached_property
    def _stored_weights(self) -> dict[str, Weights]:
        """The Weights by parameter name, from `sources` and the function's module."""
        found: dict[str, Weights] = {}
        for name, source in stored_parameters(self.function, self._sources).items():
            if not isinstance(source, Weights):
                fail(
                    "bad-hybrid",
                    f"{self.name}: expected Weights; got a State as '{name}'",
                    "keep it in an entry, or in Python: take its value and return "
                    "the new one",
                )
            found[name] = source
        return found

    def _call_inline(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        """Call the original function while another is traced; bind Weights that are not
        given.
        """
        try:
            inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError:
            args, kwargs = (), self._with_weights(args, kwargs)
        return self.function(*args, **kwargs)

    def _with_weights(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the arguments of a call by name, with the Weights added."""
        signature = inspect.signature(self.function)
        given = [
            p
            for p in signature.parameters.values()
            if p.name not in self._stored_weights
        ]
        if any(p.kind not in _NAMED for p in given):
            fail(
                "bad-hybrid",
                f"{self.name}: expected parameters that can be given by name, as "
                "some are Weights",
            )
        try:
            bound = signature.replace(parameters=given).bind(*args, **kwargs)
        except TypeError as error:
            fail("bad-call", f"{self.name}: {error}")
        trees = {name: source.tree for name, source in self._stored_weights.items()}
        return {**trees, **bound.arguments}

    @property
    def _rewritten_function(self) -> Callable[..., object]:
        """The function rewritten to call compiled regions; made anew if its code has
        changed.
        """
        function = self.function
        with self._lock:
            if function.__code__ is not self._code:  # as a module that is reloaded
                self._code, self._made = function.__code__, None
                self.definition = _definition(function)
            if self._made is None:
                self._workshop, self._made = self._prepare()
            made = self._made
            if made.__defaults__ is not function.__defaults__:
                made.__defaults__ = function.__defaults__
            if made.__kwdefaults__ is not function.__kwdefaults__:
                made.__kwdefaults__ = function.__kwdefaults__
            return made

    def _prepare(self) -> tuple[Workshop, types.FunctionType]:
        """Rewrite the function's body to call `Run`s of its statements; return the
        `Workshop` that these share, and the new function.
        """
        function, definition = self.function, self.definition
        body = definition.body
        if ast.get_docstring(definition) is not None:
            body = body[1:]
        nodes = ast.walk(definition.args)
        parameters = {each.arg for each in nodes if isinstance(each, ast.arg)}
        stored = {
            n: x for n, x in self._stored_weights.items() if n not in stores(*body)
        }
        names = parameters | stores(*body)
        changing = late_bound(body, parameters)
        workshop = Workshop(function, names, changing, self._asked, stored)
        parts = workshop.rewriter.rewrite(body, parameters, set())
        rewritten = [*_locals_of(body), *map(without_changes_of_constants, parts)]
        self.rewritten_body = rewritten
        made = compile_function(
            function, self.name, definition.args, rewritten, workshop.tools
        )
        return workshop, made

    # ---- what there is

    @property
    def workshop(self) -> Workshop:
        """The compiled regions and islands of the function, as calls have found them.

        Raises:
            InputError: `no-call`: there was no call yet, which finds them.
        """
        if self._workshop is None:
            raise InputError(
                "no-call",
                f"{self.name}: expected a call, which finds regions and islands; "
                "there was none yet",
            )
        return self._workshop

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries of the islands that Python computes, in source order.

        Raises:
            InputError: `no-call`: there was no call yet.
        """
        pieces = (piece for run in self.workshop.runs for piece in run.pieces)
        found = [x.boundary for x in pieces if isinstance(x, Island) and x.boundary]
        found += self.workshop.listed
        return tuple(sorted(found, key=lambda each: int(each.place.rpartition(":")[2])))

    def report(self) -> JsonObject:
        """Return the boundaries and the regions' statistics: schema `aotc.hybrid/1`.

        Raises:
            InputError: `no-call`: there was no call yet.
        """
        return {
            "schema": "aotc.hybrid/1",
            "function": self.name,
            "graph_breaks": len(self.boundaries),
            "boundaries": [
                {**each.to_json(), "seconds": each.seconds} for each in self.boundaries
            ],
            "regions": [each.report() for each in self.workshop.compiled],
        }

    def export(
        self,
        path: str | Path,
        *,
        key: Signer | Path | str | None = None,
        targets: str | Sequence[Target | str] = (),
    ) -> Path:
        """Write a Python package that computes the function on a device.

        Args:
            path: of the package, which is created; its name is that of a module.
            key: to sign with; see `export_package`.
            targets: to compile for; see there.

        Raises:
            InputError: `no-call`, `bad-hybrid`, `file-exists`.
        """
        from aotc.hybrid_programs.packages.package import (
            export_package,  # with the pipeline
        )

        return export_package(self, Path(path), key=key, targets=targets)


def _definition(function: types.FunctionType) -> ast.FunctionDef:
    """Return the syntax tree of a function, with the line numbers of its file.

    Raises:
        InputError: `bad-hybrid`: it has none, or is of a kind that cannot be split.
    """
    definition = definition_of(function)
    if definition is None:
        fail(
            "bad-hybrid",
            f"{function.__name__}: expected a function whose source is at hand",
            "define it with `def` in a file",
        )
    refused = any(isinstance(each, _REFUSED) for each in _own_nodes(definition))
    if refused or not isinstance(definition, ast.FunctionDef):
        fail(
            "bad-hybrid",
            f"{function.__name__}: expected a function defined with `def`, without "
            "`yield`, `await`, `global` and `nonlocal`",
        )
    looking = next(filter(None, map(_looks_at_frame, ast.walk(definition))), None)
    if looking is not None:
        fail(
            "bad-hybrid",
            f"{function.__name__}: expected no `{looking}`, which looks at the frame "
            "that calls it",
            "call it in a function of its own; instead of super(), super(Class, self)",
        )
    return definition


def _locals_of(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return dead assignments that make the names that a body stores local
    variables.
    """
    names = sorted(stores(*body))
    if not names:
        return [] if body else [ast.Pass()]
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    never = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
    return [ast.fix_missing_locations(ast.copy_location(never, body[0]))]


def _looks_at_frame(node: ast.AST) -> str:
    """Return a call that inspects its caller's frame as text, such as `locals()`; empty
    for other nodes.
    """
    match node:
        case ast.Call(func=ast.Name(id="super" | "locals" | "vars" | "dir" as name)):
            assert isinstance(node, ast.Call)
            return "" if node.args else f"{name}()"
        case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
            return f"{name}(…)"
        case _:
            return ""


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a function's syntax nodes; of the functions nested in it, only themselves
    and their `global` and `nonlocal` statements.
    """
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _own_nodes(each)
        else:
            inner = ast.walk(each)
            yield from (x for x in inner if isinstance(x, (ast.Global, ast.Nonlocal)))


def _as_numpy(tree: PyTree) -> PyTree:
    """Return a pytree with traced and eager Arrays converted to NumPy arrays."""
    return _convert_arrays(tree, {})


def _convert_arrays(tree: PyTree, known: dict[int, PyTree]) -> PyTree:
    """Convert Arrays in a tree to NumPy's; a tree without any stays the same object.

    Args:
        tree: to convert.
        known: what objects have become, by their identities.
    """
    if isinstance(tree, Array):
        return known.setdefault(id(tree), np.asarray(tree))
    if not isinstance(tree, (list, tuple, dict)):
        return tree
    is_named = isinstance(tree, tuple) and hasattr(tree, "_fields")
    if not (is_named or type(tree) in (list, tuple, dict)):
        return tree
    if id(tree) in known:
        return known[id(tree)]
    known[id(tree)] = tree  # for what contains itself
    parts = [*(tree.values() if isinstance(tree, dict) else tree)]
    made = [_convert_arrays(each, known) for each in parts]
    if any(one is not other for one, other in zip(made, parts, strict=True)):
        known[id(tree)] = _rebuild_container(tree, made)
    return known[id(tree)]


def _rebuild_container(
    tree: list[PyTree] | tuple[PyTree, ...] | dict[object, PyTree], parts: list[PyTree]
) -> PyTree:
    """Return a container of the same type as `tree` with other elements."""
    if isinstance(tree, dict):
        return dict(zip(tree, parts, strict=True))
    make: Callable[..., PyTree] = type(tree)
    return make(*parts) if hasattr(tree, "_fields") else make(parts)
