"""Statements that are compiled: one `aotc.jit` function for each run of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

import numpy as np

from aotc.errors import InputError
from aotc.hybrid_programs.breaks import (
    Break,
    Inside,
    identities,
    inside_region,
    is_data,
)
from aotc.hybrid_programs.instrumenting import TOOLS, positioned
from aotc.hybrid_programs.making import make_function, value_outside
from aotc.hybrid_programs.names import reads, stores
from aotc.just_in_time import JitFunction, jit
from aotc.pytree import Structure, flatten
from aotc.tracing.array import Array

STATIC = "_aotc_static"  # the argument with all that is no array
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type, np.dtype)


class Broken(BaseException):
    """A region cannot be traced: it ends before one of its statements.

    Args:
        position: of the statement.
        cause: what kept it from being traced.
    """

    def __init__(self, position: int, cause: BaseException) -> None:
        super().__init__(position, cause)
        self.position = position
        self.reason = cause.reason if isinstance(cause, Break) else _first_line(cause)


def _first_line(error: BaseException) -> str:
    text = error.message if isinstance(error, InputError) else str(error)
    return text.partition("\n")[0] or type(error).__name__


class _Same:
    """A value that is equal to itself alone, or to an equal one of the same type."""

    def __init__(self, value: Any) -> None:
        self.value = value
        plain = isinstance(value, _PLAIN)
        self._key = (type(value), repr(value)) if plain else id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Form:
    """What of some values is no array: how they are built, and their other leaves.

    Args:
        structures: of the values, by name.
        leaves: in the order of these; None stands for an array.
    """

    structures: tuple[tuple[str, Structure], ...]
    leaves: tuple[_Same | None, ...]

    def __repr__(self) -> str:
        return repr([each for each in self.leaves if each is not None])

    def values(self, arrays: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The values, with these arrays."""
        leaves, found = iter(self.leaves), dict[str, Any]()
        for name, structure in self.structures:
            rest = iter(arrays[name])
            kinds = [next(leaves) for _ in range(structure.leaf_count)]
            found[name] = structure.unflatten(
                [next(rest) if each is None else each.value for each in kinds]
            )
        return found


_LEAF = flatten(0)[1]


def parts_of(values: Mapping[str, Any]) -> tuple[dict[str, list[Any]], Form]:
    """The arrays in values, by name, and what else there is to them."""
    arrays, structures, rest = dict[str, list[Any]](), [], list[_Same | None]()
    for name, value in values.items():
        try:
            leaves, structure = flatten(value)
        except InputError:  # a dict whose keys are no strings
            leaves, structure = [value], _LEAF
        arrays[name] = [leaf for leaf in leaves if is_array(leaf)]
        rest += (None if is_array(leaf) else _Same(leaf) for leaf in leaves)
        structures.append((name, structure))
    return arrays, Form(tuple(structures), tuple(rest))


def is_array(value: Any) -> bool:
    """Whether a value can be given to compiled code."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcV" and value.dtype.names is None
    return isinstance(value, Array)


class Region:
    """A run of statements that is compiled.

    Args:
        body: the statements.
        inputs: names that they read.
        outputs: names that are read after them.
        owner: the user's function.
        name: of the function that is compiled.
        options: of `aotc.jit`.
    """

    def __init__(
        self,
        body: Sequence[ast.stmt],
        inputs: Sequence[str],
        outputs: Sequence[str],
        owner: FunctionType,
        name: str,
        options: Mapping[str, Any],
    ) -> None:
        self.body, self.inputs, self.outputs = [*body], [*inputs], [*outputs]
        self.name, self._owner = name, owner
        self.stored = [each for each in inputs if each in options["sources"]]
        # data of the module is given at each call, as it may change
        self.outside = self._names_outside()
        self.given = [*(n for n in inputs if n not in self.stored), *self.outside]
        self._names = [*self.inputs, *self.outside]
        parameters = ["_aotc_at", *self._names]
        self._run = make_function(
            owner, name, parameters, positioned(body), self.outputs, TOOLS
        )
        self.jit = self._compiled(options)

    def _names_outside(self) -> list[str]:
        """The names of data that belongs to the module or the closure."""
        found = []
        for name in sorted(reads(*self.body) - stores(*self.body) - {*self.inputs}):
            try:
                value = value_outside(self._owner, name)
            except NameError:  # Python will say so
                continue
            if is_data(value):
                found.append(name)
        return found

    def _compiled(self, options: Mapping[str, Any]) -> JitFunction:
        def traced(**values: Any) -> Any:
            return self._trace(values)

        kind = Parameter.POSITIONAL_OR_KEYWORD
        names = [*self.stored, *self.given, STATIC]
        traced.__name__ = traced.__qualname__ = self.name
        vars(traced)["__signature__"] = Signature([Parameter(n, kind) for n in names])
        sources = {name: options["sources"][name] for name in self.stored}
        rest = {name: each for name, each in options.items() if name != "sources"}
        made: JitFunction = jit(traced, static_argnames=[STATIC], **rest, **sources)
        return made

    def __call__(self, env: dict[str, Any]) -> None:
        """Compute the outputs, by code that is there or is made for it.

        Raises:
            Broken: it cannot be traced.
        """
        values = {name: env[name] for name in self.given if name in env}
        values |= {name: value_outside(self._owner, name) for name in self.outside}
        arrays, form = parts_of(values)
        env.update(self.jit(**arrays, **{STATIC: form}))

    def _trace(self, values: Mapping[str, Any]) -> dict[str, Any]:
        form: Form = values[STATIC]
        lists = {name: values[name] for name in self.given}
        inside = {**form.values(lists), **{name: values[name] for name in self.stored}}
        is_exact = all(
            isinstance(size, int)
            for leaves in lists.values()
            for leaf in leaves
            for size in leaf.shape
        )
        at = [0]
        token = inside_region.set(Inside(identities(inside)))
        try:
            found = self._run(at, *(inside[name] for name in self._names))
            return self._checked(at, dict(zip(self.outputs, found, strict=True)))
        except (Exception, Break) as error:
            if is_exact:
                raise Broken(at[0], error) from error
            # code for the sizes of this call alone may do
            raise InputError("bad-entry", _first_line(error)) from error
        finally:
            inside_region.reset(token)

    def _checked(self, at: list[int], found: dict[str, Any]) -> dict[str, Any]:
        """The outputs, if compiled code can return them."""
        containers = set[int]()
        for name, value in found.items():
            at[0] = max(n for n, x in enumerate(self.body) if name in stores(x))
            leaves, structure = flatten(value)
            if not leaves or not all(isinstance(each, Array) for each in leaves):
                raise Break(f"'{name}' is no array")
            if _has_named_tuple(structure):
                raise Break(f"'{name}' is a named tuple")
            inside = identities({name: value}) if structure != _LEAF else frozenset()
            if inside & containers:
                raise Break(f"'{name}' is an object that has another name, too")
            containers |= inside
        return found


def _has_named_tuple(structure: Structure) -> bool:
    if structure.kind == "namedtuple":
        return True
    return any(map(_has_named_tuple, structure.children))
