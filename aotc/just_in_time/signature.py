"""Signatures of calls: names, structure, dtypes and sizes of the arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import NamedTuple

import numpy as np

from aotc.artifacts.call_guards import (
    dtype_guard,
    kind_guard,
    rank_guard,
    structure_guard,
    value_guard,
)
from aotc.core.pytree import Structure, flatten, leaf_names
from aotc.errors import InputError
from aotc.just_in_time.live_signatures import LiveSignature
from aotc.runtime.host_arrays import Array, Described, host_array
from aotc.tracing.entry import StoredTree

Rows = tuple[tuple[str, object], ...]  # by name, in order
NumberDtypes = Mapping[type, type[np.generic]]  # by Python's type of number
# as traced numbers
_NUMBERS: NumberDtypes = {bool: np.bool_, int: np.int32, float: np.float32}
_WIDE: NumberDtypes = {int: np.int64, float: np.float64}  # beside such arrays


class StaticArgument:
    """A static argument by its value and type, as a hashable key; -0.0 is not 0.0."""

    def __init__(self, value: Hashable) -> None:
        self.value = value
        self._key = _static_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticArgument) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _static_key(value: Hashable) -> Hashable:
    """Return a hashable key of a value that distinguishes types and signs of zero."""
    if type(value) in (tuple, frozenset):
        return type(value), type(value)(map(_static_key, value))  # type: ignore[call-overload, call-arg]
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    return type(value), value


class CallForm(NamedTuple):
    """The signature of a call without sizes: structures, dtypes, ranks, static values.

    Args:
        structures: of the arguments that are arrays, by name.
        dtypes: of their leaves, in order.
        are_numbers: which of these are Python numbers.
        ranks: of the leaves.
        static: the values of arguments that are none, by name.
    """

    structures: tuple[tuple[str, Structure], ...]
    dtypes: tuple[np.dtype, ...]
    are_numbers: tuple[bool, ...]
    ranks: tuple[int, ...]
    static: tuple[tuple[str, StaticArgument], ...]

    @property
    def names(self) -> list[str]:
        """The names of the leaves."""
        return [n for name, tree in self.structures for n in leaf_names(tree, name)]

    def differences(self, other: CallForm) -> list[str]:
        """Return the names of the guards by which two forms of calls differ."""
        found = [
            *map(structure_guard, _unequal(self.structures, other.structures)),
            *map(value_guard, _unequal(self.static, other.static)),
        ]
        if self.structures == other.structures:
            for guard, mine, others in (
                (dtype_guard, self.dtypes, other.dtypes),
                (kind_guard, self.are_numbers, other.are_numbers),
                (rank_guard, self.ranks, other.ranks),
            ):
                rows = zip(self.names, mine, others, strict=True)
                found += [guard(name) for name, one, two in rows if one != two]
        return found


def _unequal(one: Rows, two: Rows) -> list[str]:
    """Return the names whose values differ between two lists, or are in one only."""
    mine, others = dict(one), dict(two)
    names = {**mine, **others}
    return [name for name in names if mine.get(name) != others.get(name)]


@dataclass(frozen=True)
class CallSignature:
    """The signature of a call: calls of equal ones share code, if its guards hold.

    Args:
        structures: of the arguments that are arrays, by name.
        dtypes: of their leaves, in order.
        are_numbers: which of these are Python numbers, that adapt to other dtypes.
        shapes: of the leaves.
        static: the values of arguments that are none, by name.
    """

    structures: tuple[tuple[str, Structure], ...]
    dtypes: tuple[np.dtype, ...]
    are_numbers: tuple[bool, ...]
    shapes: tuple[tuple[int, ...], ...]
    static: tuple[tuple[str, StaticArgument], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, cached because each call asks for it several times."""
        return hash((self.structures, self.dtypes, self.shapes, self.static))

    @cached_property
    def form(self) -> CallForm:
        """The signature without the sizes."""
        ranks = tuple(map(len, self.shapes))
        return CallForm(
            self.structures, self.dtypes, self.are_numbers, ranks, self.static
        )

    @property
    def names(self) -> list[str]:
        """The names of the leaves."""
        return self.form.names

    def __str__(self) -> str:
        rows = zip(self.names, self.dtypes, self.shapes, self.are_numbers, strict=True)
        arrays = [
            f"{name}: {kind} number" if is_number else f"{name}: {kind}{[*shape]}"
            for name, kind, shape, is_number in rows
        ]
        return ", ".join(
            [*arrays, *(f"{name}={value!r}" for name, value in self.static)]
        )


class _Parameters(NamedTuple):
    """The parameters of a function that callers pass: all but Weights and States.

    Args:
        whole: the signature of the function.
        signature: without Weights and States.
        positional: all names, where a call can give them by position; else None.
    """

    whole: Signature
    signature: Signature
    positional: list[str] | None


class Binder:
    """Binds a call's arguments to parameters; makes its signature and its leaves.

    Args:
        owner: how messages call the function.
        signature: of it, as it is at each call.
        stored: Weights and States by the names of parameters, which no call gives.
        static: names of those whose values are known when it is traced.
    """

    def __init__(
        self,
        owner: str,
        signature: LiveSignature,
        stored: Mapping[str, StoredTree],
        static: frozenset[str],
    ) -> None:
        self._owner, self._signature, self._static = owner, signature, static
        self._stored = frozenset(stored)
        self._stored_dtypes = {x.dtype for each in stored.values() for x in each.arrays}
        names = ", ".join(f"'{name}'" for name in sorted(stored))
        self._stored_hint = (
            f"calls do not give {names}: the module has Weights or a State of that name"
            if stored
            else None
        )
        self._known = self._parameters_of(signature.read())

    def _parameters_of(self, signature: Signature) -> _Parameters:
        """Return the parameters that callers pass; refuse those that have no name.

        Raises:
            InputError: `bad-entry`, `bad-option`: calls cannot give them by name, or
                names are no parameters.
        """
        owner, stored = self._owner, self._stored
        kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        given = [p for p in signature.parameters.values() if p.name not in stored]
        unknown = [
            str(p.replace(annotation=Parameter.empty))
            for p in given
            if p.kind not in kinds
        ]
        if unknown:
            raise InputError(
                "bad-entry",
                f"{owner}: expected parameters that can be given by name; got "
                f"'{unknown[0]}'",
                hint="wrap it in a function whose parameters have names, such as "
                "aotc.jit(lambda x: aotc.grad(loss)(x))",
            )
        for name in stored - signature.parameters.keys():
            raise InputError(
                "bad-entry",
                f"{owner} has no parameter '{name}'; it has "
                f"{', '.join(signature.parameters) or 'none'}",
                hint="Weights and States are given under the names of parameters",
            )
        missing = self._static - signature.parameters.keys()
        if missing:
            raise InputError(
                "bad-option",
                f"{owner}: static_argnames has {', '.join(sorted(missing))}, which are "
                "no parameters",
            )
        kind = Parameter.POSITIONAL_OR_KEYWORD
        are_positional = all(each.kind == kind for each in given)
        return _Parameters(
            signature,
            signature.replace(parameters=given),
            [p.name for p in given] if are_positional else None,
        )

    def _parameters(self) -> _Parameters:
        """Return the parameters that callers pass, read again if the signature has
        changed.
        """
        signature = self._signature.read()
        known = self._known
        if known.whole is not signature:
            known = self._known = self._parameters_of(signature)
        return known

    def gives_all(self, args: Sequence[object]) -> bool:
        """Return whether positional arguments alone fill all parameters."""
        names = self._known.positional
        return names is not None and len(args) == len(names)

    def __call__(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[CallSignature, list[Array]]:
        """Return the signature of a call, and its leaves as arrays.

        Raises:
            InputError: `bad-call`: arguments are missing, or more than there are;
                `input-type`: a leaf is no array of an element type that there is.
        """
        structures, static = [], list[tuple[str, StaticArgument]]()
        given = list[tuple[str, Structure, int, object]]()
        for name, value in self._arguments(args, kwargs).items():
            if name in self._static:
                static.append((name, StaticArgument(self._hashable(name, value))))
            else:
                found, structure = flatten(value)
                structures.append((name, structure))
                given += (
                    (name, structure, number, leaf) for number, leaf in enumerate(found)
                )
        kinds = self._number_dtypes(leaf for *_, leaf in given)
        leaves = [self._array(kinds, *each) for each in given]
        made = CallSignature(
            tuple(structures),
            tuple([leaf.dtype for leaf in leaves]),
            tuple([type(leaf) in _NUMBERS for *_, leaf in given]),
            tuple([leaf.shape for leaf in leaves]),
            tuple(static),
        )
        return made, leaves

    def _arguments(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Return a call's arguments by parameter name, defaults included."""
        _, signature, names = self._parameters()
        if names is not None and not kwargs and len(args) == len(names):
            return dict(zip(names, args, strict=True))  # quicker, and as a rule
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(
                "bad-call", f"{self._owner}: {error}", hint=self._stored_hint
            ) from None
        bound.apply_defaults()
        return bound.arguments

    def _number(
        self, name: str, number: bool | int | float, dtype: type[np.generic]
    ) -> Array:
        """Return a Python number as an array of a dtype; refuse one that overflows
        it.
        """
        try:
            return np.asarray(number, dtype)
        except OverflowError:
            bits = 8 * np.dtype(dtype).itemsize
            raise InputError(
                "bad-call",
                f"{self._owner}: expected a number of {bits} bits in '{name}'; got "
                f"{number}",
                hint="give it as an array: numpy.int64(…)",
            ) from None

    def _hashable(self, name: str, value: object) -> Hashable:
        """Return a static argument; refuse one that cannot be hashed."""
        if not isinstance(value, Hashable):
            raise InputError(
                "bad-call",
                f"{self._owner}: expected a static argument '{name}' that can be "
                f"hashed; got {type(value).__name__}",
            )
        return value

    def _number_dtypes(self, leaves: Iterable[object]) -> NumberDtypes:
        """Return dtypes for Python numbers: 64 bits where an array has such a dtype."""
        arrays = (x for x in leaves if isinstance(x, (np.ndarray, np.generic)))
        found = {each.dtype for each in arrays} | self._stored_dtypes
        wide = {
            kind: dtype for kind, dtype in _WIDE.items() if np.dtype(dtype) in found
        }
        return {**_NUMBERS, **wide}

    def _array(
        self,
        kinds: NumberDtypes,
        name: str,
        structure: Structure,
        number: int,
        leaf: object,
    ) -> Array:
        """Return an argument's leaf as an array; refuse other than arrays and numbers.

        Args:
            kinds: dtypes of Python numbers.
            name: of the argument.
            structure: of it.
            number: of the leaf.
            leaf: what it is.
        """
        if type(leaf) is np.ndarray:
            return leaf
        if type(leaf) in kinds and isinstance(leaf, (int, float)):
            return self._number(name, leaf, kinds[type(leaf)])

        def describe() -> Described:
            title = f"{self._owner}: argument '{name}'"
            place = leaf_names(structure, name)[number]
            static = f" (in static_argnames=['{name}'] it may be anything)"
            return Described(title, place, f"arrays or numbers{static}")

        return host_array(leaf, describe)
