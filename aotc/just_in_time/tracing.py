"""Tracing: a function and the signature of a call → a program of one entry.

The dialect is imported when something is traced: calls whose code is kept need it not.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

import aotc.numpy  # noqa: F401  operators of arrays are its functions
from aotc.core import dtypes
from aotc.core.cache import CacheRecipe
from aotc.core.pytree import PyTree, flatten
from aotc.errors import InputError
from aotc.just_in_time.live_signatures import LiveSignature
from aotc.just_in_time.shapes import Sizes, bound_sizes, with_known
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.specialization import Specialization
from aotc.just_in_time.trace_guards import Values
from aotc.programs.parameter_archive import UnevaluatedArray
from aotc.tracing.captures import captures_of
from aotc.tracing.effects import watch_effects
from aotc.tracing.entry import (
    EntryFunction,
    Frozen,
    Spec,
    StoredParameter,
    StoredTree,
    Weights,
)
from aotc.tracing.snapshots import Snapshot
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from aotc.just_in_time.guard_checks import CallValues
    from aotc.programs.program import Program


@dataclass(frozen=True)
class TracedSpecialization(Specialization):
    """A function traced to a program for calls of certain sizes and guarded values.

    Args:
        program: of one entry.
        recipe: what the cache may note its code under, for all calls like these.
    """

    program: Program
    recipe: CacheRecipe | None = field(default=None, kw_only=True)


class Tracer:
    """A callable that traces one function to programs.

    Args:
        function: of arrays.
        signature: of it.
        stored: the Weights and States among its parameters, by name.
        guards_branches: whether Python may decide on values of a call.
    """

    def __init__(
        self,
        function: Callable[..., object],
        signature: LiveSignature,
        stored: Mapping[str, StoredParameter],
        *,
        guards_branches: bool,
    ) -> None:
        code = _code_of(function)
        self.place = code.co_filename, code.co_firstlineno
        self.name = _plain_name(function)
        self._function = function
        self._signature = signature
        self._stored = dict(stored)
        self._guards_branches = guards_branches

    def __call__(
        self, call: CallSignature, sizes: Sizes, values: Values
    ) -> TracedSpecialization:
        """Trace the function for calls of some sizes; pin sizes that Python uses as
        numbers.

        A size that Python uses as a number is one: the function is traced again then,
        for calls of that size.

        Args:
            call: one of them.
            sizes: of the leaves, as Specs take them.
            values: of the arguments of that call.

        Raises:
            InputError: the function cannot be traced for these.
        """
        from aotc.just_in_time.guard_checks import CallValues

        while True:
            bound = bound_sizes(sizes, call.shapes) or {}
            known = CallValues(values, bound, guards_branches=self._guards_branches)
            try:
                traced = self._trace(call, sizes, known)
            except InputError:
                if not known.pinned:
                    raise
            else:
                if not known.pinned:
                    return traced
            sizes = with_known(sizes, known.pinned)

    def _trace(
        self, call: CallSignature, sizes: Sizes, known: CallValues
    ) -> TracedSpecialization:
        """Trace the function once, for a call of known values."""
        from aotc.just_in_time.guard_checks import GuardCheck
        from aotc.programs.program import Title
        from aotc.tracing.assembly import trace
        from aotc.tracing.call_values import specializing

        with (
            watch_effects(f"'{self.name}'", self._function),
            specializing(known),
            warnings.catch_warnings(),
        ):
            # an input that guards alone have looked at is used
            warnings.filterwarnings("ignore", module=r"aotc\.tracing\.assembly")
            program = trace([self.as_entry(call, sizes)], {})
        program.source = self._source()
        program.title = Title(self.name, "1.0.0")
        check = None
        if known.guards:
            kept = program.copy()
            check = GuardCheck(kept.module, self.name, known.guards)
        guards = tuple(known.size_guards.values())
        # once more, where the trace has changed what it reads
        captured = self.captured()
        return TracedSpecialization(
            self.name,
            call.form,
            sizes,
            check,
            program,
            guards=guards,
            captured=captured,
        )

    def captured(self) -> Snapshot | None:
        """Return a snapshot of the outer values that the function reads; None if it
        reads none.

        None if it reads nothing else.
        """
        found = captures_of(self._function)
        return Snapshot(found.reads, found.is_whole) if found.reads else None

    def execute(
        self,
        call: CallSignature,
        leaves: Sequence[np.ndarray],
        states: Mapping[str, PyTree],
    ) -> tuple[PyTree, dict[str, PyTree]]:
        """Compute a call op by op without a trace, so that prints and breakpoints see
        values.

        Args:
            call: what it is like.
            leaves: that it gives.
            states: the values of the States, by name.

        Returns:
            The result, and the new values of the States that the call updates.
        """
        from aotc.tracing.entry_calls import executed_call

        rest = iter(leaves)
        given = {
            name: structure.unflatten([next(rest) for _ in range(structure.leaf_count)])
            for name, structure in call.structures
        }
        return executed_call(self.as_entry(call, call.shapes), {**given, **states})

    def inline(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Call the function inside of another one that is traced, with its own Weights
        if need be.

        Raises:
            InputError: `bad-call`: it keeps a State, which the call does not give.
        """
        signature = self._signature.read()
        if not self._stored or _binds(signature, args, kwargs):
            return self._function(*args, **kwargs)
        kept = [name for name, x in self._stored.items() if not isinstance(x, Weights)]
        if kept:
            fail(
                "bad-call",
                f"{self.name} keeps the State '{kept[0]}' between its calls, and "
                "cannot be a part of another function",
                "give the State to the function around it, and pass its value on",
            )
        parameters = signature.parameters.values()
        given = [each for each in parameters if each.name not in self._stored]
        bound = signature.replace(parameters=given).bind(*args, **kwargs)
        trees = {name: x.tree for name, x in values_of(self._stored).items()}
        return self._function(**{**trees, **bound.arguments})

    def values(
        self,
        call: CallSignature,
        leaves: Sequence[np.ndarray],
        states: Mapping[str, Sequence[np.ndarray]],
    ) -> Values:
        """Return the arrays of all arguments of a call, Weights and States included.

        Args:
            call: what it is like.
            leaves: that it gives.
            states: the arrays of the States, by name.
        """
        rest, found = iter(leaves), list[np.ndarray | UnevaluatedArray]()
        trees = dict(call.structures)
        for name in self._signature.read().parameters:
            if name in states:
                found += states[name]
            elif name in self._stored:
                found += values_of(self._stored)[name].arrays
            elif name in trees:
                found += (next(rest) for _ in range(trees[name].leaf_count))
        return found

    def as_entry(
        self, call: CallSignature, sizes: Sizes, name: str | None = None
    ) -> EntryFunction:
        """Return the function as an entry whose inputs have these sizes."""
        pairs = zip(call.dtypes, sizes, strict=True)
        specs = iter(
            [Spec(shape, dtypes.canonical_dtype(kind)) for kind, shape in pairs]
        )
        trees = {
            name: structure.unflatten(
                [next(specs) for _ in range(structure.leaf_count)]
            )
            for name, structure in call.structures
        }
        numbers = iter(call.are_numbers)
        are_numbers = {
            name: [next(numbers) for _ in range(structure.leaf_count)]
            for name, structure in call.structures
        }
        # what has no leaves, such as None, is known
        empty = {name for name, tree in call.structures if not tree.leaf_count}
        sources = {k: x for k, x in trees.items() if k not in empty} | self._stored
        static = {name: each.value for name, each in call.static}
        static |= {name: trees[name] for name in empty}
        function = self._function

        def entry(**arguments: PyTree) -> PyTree:
            adapting = {
                name: _with_numbers(arguments[name], marks)
                for name, marks in are_numbers.items()
                if any(marks)
            }
            return function(**{**arguments, **adapting}, **static)

        kind = inspect.Parameter.KEYWORD_ONLY
        names = self._signature.read().parameters
        named = [inspect.Parameter(each, kind) for each in names if each in sources]
        entry.__name__ = entry.__qualname__ = name or self.name
        vars(entry)["__signature__"] = inspect.Signature(named)
        return EntryFunction(entry, sources, declared=self.place)

    def _source(self) -> dict[str, str]:
        """Return the manifest's record of the source: file and digest."""
        try:
            text = inspect.getsource(self._function).encode()
        except (OSError, TypeError):  # typed in, or made by other code
            text = _code_of(self._function).co_code
        digest = hashlib.sha256(text).hexdigest()
        return {"kind": "jit", "file": Path(self.place[0]).name, "sha256": digest}


def _binds(
    signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object]
) -> bool:
    """Return whether a call gives all required arguments of a function."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _with_numbers(tree: PyTree, are_numbers: Sequence[bool]) -> PyTree:
    """Return traced arguments with the marked leaves as Python numbers, which adapt
    dtypes.
    """
    from aotc.tracing.array import as_number

    leaves, structure = flatten(tree)
    pairs = zip(leaves, are_numbers, strict=True)
    return structure.unflatten([as_number(x) if mark else x for x, mark in pairs])


def _code_of(function: Callable[..., object]) -> CodeType:
    """Return the code object behind a function, method, partial or callable object.

    Raises:
        InputError: `bad-entry`: it is not written in Python.
    """
    found: Any = inspect.unwrap(function)
    while isinstance(found, functools.partial):
        found = inspect.unwrap(found.func)
    if not hasattr(found, "__code__"):
        found = vars(type(found)).get("__call__")  # of an object
    code: CodeType | None = getattr(found, "__code__", None)
    if code is None:
        raise InputError(
            "bad-entry",
            f"expected a function that is written in Python; got {function!r}",
            hint="call it in one: lambda x: function(x)",
        )
    return code


def _plain_name(function: Callable[..., object]) -> str:
    """Return the function's name if it is an ASCII identifier, else "function"."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() and name.isascii() else "function"


def stored_parameters(
    function: Callable[..., object], given: Mapping[str, StoredParameter]
) -> dict[str, StoredParameter]:
    """Return the Weights and States by parameter name: given ones and globals.

    Those of `given`, and those of the module whose names are parameters'.
    """
    names = inspect.signature(function).parameters
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    found = {
        name: scope[name]
        for name in names
        if isinstance(scope.get(name), (StoredTree, Frozen))
    }
    return {**found, **given}


def values_of(stored: Mapping[str, StoredParameter]) -> dict[str, StoredTree]:
    """Return the stored trees by name, with the State itself for one that is frozen."""
    return {
        name: source.state if isinstance(source, Frozen) else source
        for name, source in stored.items()
    }
