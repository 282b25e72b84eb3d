"""A run of statements that is traced and compiled: one `aotc.jit` function for each."""

from __future__ import annotations

import ast
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

import numpy as np

from aotc.core.contents import ContainerTooLarge, content_key
from aotc.core.pytree import PyTree, Structure, flatten, flatten_in_order
from aotc.errors import InputError
from aotc.hybrid_programs.python.breaks import (
    Break,
    Inside,
    OuterValue,
    identities,
    inside_region,
    is_data,
)
from aotc.hybrid_programs.python.instrumenting import TOOLS, note_positions
from aotc.hybrid_programs.python.making import make_function, value_outside
from aotc.hybrid_programs.python.names import reads, stores
from aotc.just_in_time import JitFunction, jit
from aotc.runtime import regions
from aotc.tracing.array import Array
from aotc.tracing.entry import Weights


@dataclass(frozen=True)
class JitOptions:
    """The options of `aotc.jit` for all regions of one function; see there."""

    dynamic: str
    max_variants: int
    max_compiles: int
    target: str | None
    threads: int | None


STATIC = "_aotc_static"  # the argument with all that is no array


class Broken(BaseException):
    """Raised by a region that cannot be compiled: tracing ended at one of its
    statements.

    Args:
        position: of the statement; None where it is to be no region at all.
        reason: what kept it from being compiled.
    """

    def __init__(self, position: int | None, reason: str) -> None:
        super().__init__(position, reason)
        self.position, self.reason = position, reason


def _reason_of(error: BaseException) -> str:
    """Return an error's reason, or the first line of its message."""
    if isinstance(error, Break):
        return error.reason
    text = error.message if isinstance(error, InputError) else str(error)
    return text.partition("\n")[0] or type(error).__name__


class StaticValue:
    """A value that code is specialized on; equal to any of the same contents."""

    def __init__(self, value: object) -> None:
        self.value = value
        try:
            self._key = content_key(value)
        except ContainerTooLarge:
            self._key = object()  # equal to nothing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticValue) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class ValueForm:
    """The structure of named pytrees without their arrays, and their static leaves.

    Args:
        structures: of the values, by name.
        leaves: in the order of these; None stands for an array.
        in_place: of the arrays, whether Python could change them in place.
        outside: functions of the module that it knows, and the epoch of what these
            have read.
    """

    structures: tuple[tuple[str, Structure], ...]
    leaves: tuple[StaticValue | None, ...]
    in_place: tuple[bool, ...]
    outside: Hashable = ()

    def __repr__(self) -> str:
        return repr([each for each in self.leaves if each is not None])

    def values(self, arrays: Mapping[str, Sequence[object]]) -> dict[str, PyTree]:
        """Return the named pytrees rebuilt with these arrays."""
        leaves, found = iter(self.leaves), dict[str, PyTree]()
        for name, structure in self.structures:
            rest = iter(arrays[name])
            kinds = [next(leaves) for _ in range(structure.leaf_count)]
            found[name] = structure.unflatten(
                [next(rest) if each is None else each.value for each in kinds]
            )
        return found


_LEAF = flatten(0)[1]


def split_arrays(
    values: Mapping[str, PyTree], outside: Hashable = ()
) -> tuple[dict[str, list[object]], ValueForm]:
    """Split named pytrees into their arrays, by name, and the form of the rest."""
    arrays, structures = dict[str, list[object]](), []
    rest, in_place = list[StaticValue | None](), list[bool]()
    for name, value in values.items():
        leaves, structure = flatten_in_order(value)
        arrays[name] = [leaf for leaf in leaves if is_array(leaf)]
        rest += (None if is_array(leaf) else StaticValue(leaf) for leaf in leaves)
        in_place += map(_can_change_in_place, arrays[name])
        structures.append((name, structure))
    return arrays, ValueForm(tuple(structures), tuple(rest), tuple(in_place), outside)


def is_array(value: object) -> bool:
    """Return whether a value is an array that compiled code can take."""
    return isinstance(value, Array) or regions.is_array(value)


def _can_change_in_place(array: object) -> bool:
    """Return whether a value is a writeable NumPy array."""
    return isinstance(array, np.ndarray) and array.flags.writeable


class OuterValueTracker:
    """The globals and attributes that traced functions of a region have read.

    Code is made for it: each set of values has a number, an epoch, and code of one is
    not taken for calls of another.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, str], OuterValue] = {}
        self._epoch = 0
        self._lock = threading.Lock()

    def add(self, found: Mapping[tuple[object, str], OuterValue]) -> None:
        """Store the outer values that a trace has read."""
        with self._lock:
            self._known = {**self._known, **found}

    def epoch(self) -> int:
        """Return the current epoch, a number that is incremented when a read value has
        changed.
        """
        if any(each.has_changed() for each in self._known.values()):
            with self._lock:
                self._known = {}  # the next trace reads anew
                self._epoch += 1
        return self._epoch


class StatementRegion:
    """Consecutive statements of a function that are compiled by `aotc.jit`.

    Args:
        body: the statements.
        inputs: names that they read.
        outputs: names that are read after them.
        owner: the user's function.
        name: of the function that is compiled.
        options: of `aotc.jit`.
        sources: Weights by the names of parameters.
    """

    def __init__(
        self,
        body: Sequence[ast.stmt],
        inputs: Sequence[str],
        outputs: Sequence[str],
        owner: FunctionType,
        name: str,
        options: JitOptions,
        sources: Mapping[str, Weights],
    ) -> None:
        self.body, self.inputs, self.outputs = [*body], [*inputs], [*outputs]
        self.name, self._owner = name, owner
        self.stored = [each for each in inputs if each in sources]
        # data of the module is given at each call, as it may change
        self.outside, self._functions = self._names_outside()
        self.given = [*(n for n in inputs if n not in self.stored), *self.outside]
        self._names = [*self.inputs, *self.outside]
        parameters = ["_aotc_at", *self._names]
        self._run = make_function(
            owner, name, parameters, note_positions(body), self.outputs, TOOLS
        )
        self._python = make_function(
            owner, name, self.inputs, self.body, self.outputs, {}
        )
        self._scalar_forms = set[ValueForm]()
        self._most_forms = options.max_variants
        self._forms = set[Hashable]()
        self._readings = OuterValueTracker()
        self.jit = self._jit_function(options, sources)

    def _names_outside(self) -> tuple[list[str], list[str]]:
        """Return the free names of the statements: those of data, and all others."""
        data, functions = list[str](), list[str]()
        for name in sorted(reads(*self.body) - stores(*self.body) - {*self.inputs}):
            try:
                value = value_outside(self._owner, name)
            except NameError:  # Python will say so
                continue
            (data if is_data(value) else functions).append(name)
        return data, functions

    def _jit_function(
        self, options: JitOptions, sources: Mapping[str, Weights]
    ) -> JitFunction:
        """Return the `aotc.jit` function that traces the statements."""

        def traced(**values: PyTree) -> dict[str, PyTree]:
            return self._trace(values)

        kind = Parameter.POSITIONAL_OR_KEYWORD
        names = [*self.stored, *self.given, STATIC]
        traced.__name__ = traced.__qualname__ = self.name
        vars(traced)["__signature__"] = Signature([Parameter(n, kind) for n in names])
        # keywords of any name, which mypy takes for those of jit's own
        stored: dict[str, Any] = {name: sources[name] for name in self.stored}
        made: JitFunction = jit(
            traced,
            static_argnames=[STATIC],
            dynamic=options.dynamic,
            max_variants=options.max_variants,
            max_compiles=options.max_compiles,
            target=options.target,
            threads=options.threads,
            **stored,
        )
        return made

    def __call__(self, env: dict[str, object]) -> None:
        """Compute the statements by compiled code; store their outputs in `env`.

        Raises:
            Broken: it cannot be compiled.
        """
        values = {name: env[name] for name in self.given if name in env}
        values |= {name: value_outside(self._owner, name) for name in self.outside}
        functions = [value_outside(self._owner, name) for name in self._functions]
        outside = self._readings.epoch(), tuple(map(StaticValue, functions))
        arrays, form = split_arrays(values, outside)
        if form in self._scalar_forms:
            self._compute_in_python(env)
            return
        try:
            self._require_room_for(form)
            env.update(self.jit(**arrays, **{STATIC: form}))
        except Broken:
            if any(arrays.values()):
                raise
            self._scalar_forms.add(form)  # calls of arrays are compiled all the same
            self._compute_in_python(env)
        except InputError as error:
            if error.code == "recompile-storm":
                raise Broken(None, _reason_of(error)) from error
            raise

    @property
    def is_python(self) -> bool:
        """Return whether no call has given the region an array, so that Python computed
        all.
        """
        return bool(self._scalar_forms) and not self.jit.variants

    def _compute_in_python(self, env: dict[str, object]) -> None:
        """Compute the statements by Python; store their outputs in `env`."""
        values = [env[name] for name in self.inputs]
        env.update(zip(self.outputs, self._python(*values), strict=True))

    def _require_room_for(self, form: ValueForm) -> None:
        """Refuse a call whose static values would need one variant more than allowed.

        Raises:
            Broken: there were many already.
        """
        kind = form.structures, tuple(each is None for each in form.leaves)
        seen = form.leaves, form.outside, form.in_place
        if (kind, seen) in self._forms:
            return
        self._forms.add((kind, seen))
        if len(self._forms) > self._most_forms:
            raise Broken(
                None,
                f"its values that are no arrays, {form}, were others in "
                f"{self._most_forms} calls: as arrays they could be compiled",
            )

    def _trace(self, values: Mapping[str, Any]) -> dict[str, PyTree]:
        """Trace the statements on arrays and static values; return the outputs by
        name.
        """
        form: ValueForm = values[STATIC]
        lists = {name: values[name] for name in self.given}
        given = form.values(lists)
        stored = {name: values[name] for name in self.stored}
        leaves = [leaf for each in lists.values() for leaf in each]
        pairs = zip(leaves, form.in_place, strict=True)
        in_place = {id(leaf) for leaf, can_change in pairs if can_change}
        inside = Inside(identities({**given, **stored}), in_place, {*map(id, leaves)})
        is_exact = all(isinstance(n, int) for leaf in leaves for n in leaf.shape)
        at = [0]
        token = inside_region.set(inside)
        try:
            env = {**given, **stored}
            found = self._run(at, *(env[name] for name in self._names))
            checked = self._checked(at, inside, zip(self.outputs, found, strict=True))
        except (Exception, Break) as error:
            if is_exact:
                raise Broken(at[0], _reason_of(error)) from error
            # code for the sizes of this call alone may do
            raise InputError("bad-entry", _reason_of(error)) from error
        finally:
            inside_region.reset(token)
        self._readings.add(inside.readings)
        return checked

    def _checked(
        self,
        position: list[int],
        inside: Inside,
        named_values: Iterable[tuple[str, PyTree]],
    ) -> dict[str, PyTree]:
        """Return the outputs by name; raise `Break` if compiled code cannot return one,
        with the number of its statement in `position[0]`.

        Raises:
            Break: one is no array, or is an object that has another name, too.
        """
        outputs, containers = dict(named_values), set[int]()
        arrays = set[int]()
        for name, value in outputs.items():
            position[0] = max(n for n, x in enumerate(self.body) if name in stores(x))
            leaves, structure = flatten_in_order(value)
            if not leaves or not all(isinstance(each, Array) for each in leaves):
                raise Break(f"'{name}' is no array")
            if _has_non_text_keys(structure):
                raise Break(f"'{name}' has keys that are no texts")
            if structure != flatten(value)[1] or _has_named_tuple(structure):
                raise Break(f"'{name}' is a named tuple, or a dict in another order")
            objects = identities({name: value})
            if objects & (containers | inside.given):
                raise Break(f"'{name}' is an object that has another name, too")
            own = {id(leaf) for leaf in leaves}
            if own & (inside.arrays | arrays) or len(own) < len(leaves):
                raise Break(f"'{name}' has an array that has another name, too")
            if _has_twins(value):
                raise Break(f"'{name}' has one object in two places")
            containers |= objects
            arrays |= own
        return outputs


def _has_twins(value: PyTree) -> bool:
    """Return whether a list or dict occurs twice in a tree."""
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        if isinstance(each, (list, dict)):
            if id(each) in seen:
                return True
            seen.add(id(each))
        if isinstance(each, (list, tuple)):
            left += each
        elif isinstance(each, dict):
            left += each.values()
    return False


def _has_non_text_keys(structure: Structure) -> bool:
    """Return whether a dict in a structure has keys that are no strings."""
    is_dict = structure.kind == "dict"
    if is_dict and not all(isinstance(key, str) for key in structure.keys):
        return True
    return any(map(_has_non_text_keys, structure.children))


def _has_named_tuple(structure: Structure) -> bool:
    """Return whether a structure has a named tuple in it."""
    if structure.kind == "namedtuple":
        return True
    return any(map(_has_named_tuple, structure.children))
