"""What a call is like: names, structure, dtypes and sizes of what it is given."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import numpy as np

from aotc.artifacts.guards import (
    dtype_guard,
    rank_guard,
    structure_guard,
    value_guard,
)
from aotc.errors import InputError
from aotc.pytree import Structure, flatten, leaf_names
from aotc.runtime.host_arrays import Array, Described, host_array

Rows = tuple[tuple[str, Any], ...]  # by name, in order
_NUMBERS = {bool: np.bool_, int: np.int32, float: np.float32}  # as traced numbers


class CallForm(NamedTuple):
    """All of a call but its sizes: calls that differ in these alone may share symbols.

    Args:
        structures: of the arguments that are arrays, by name.
        dtypes: of their leaves, in order.
        ranks: of these.
        static: the values of arguments that are none, by name.
    """

    structures: tuple[tuple[str, Structure], ...]
    dtypes: tuple[np.dtype[Any], ...]
    ranks: tuple[int, ...]
    static: tuple[tuple[str, Hashable], ...]

    @property
    def names(self) -> list[str]:
        """Of the leaves."""
        return [n for name, tree in self.structures for n in leaf_names(tree, name)]

    def differences(self, other: CallForm) -> list[str]:
        """The guards that keep calls of one form from code for the other."""
        found = [
            *map(structure_guard, _unequal(self.structures, other.structures)),
            *map(value_guard, _unequal(self.static, other.static)),
        ]
        if self.structures == other.structures:
            for guard, mine, others in (
                (dtype_guard, self.dtypes, other.dtypes),
                (rank_guard, self.ranks, other.ranks),
            ):
                rows = zip(self.names, mine, others, strict=True)
                found += [guard(name) for name, one, two in rows if one != two]
        return found


def _unequal(one: Rows, two: Rows) -> list[str]:
    """The names that have another value in one of two lists, or none."""
    mine, others = dict(one), dict(two)
    names = {**mine, **others}
    return [name for name in names if mine.get(name) != others.get(name)]


@dataclass(frozen=True)
class CallSignature:
    """What makes calls alike: each has the same code, if guards hold.

    Args:
        structures: of the arguments that are arrays, by name.
        dtypes: of their leaves, in order.
        shapes: of these.
        static: the values of arguments that are none, by name.
    """

    structures: tuple[tuple[str, Structure], ...]
    dtypes: tuple[np.dtype[Any], ...]
    shapes: tuple[tuple[int, ...], ...]
    static: tuple[tuple[str, Hashable], ...]

    @property
    def form(self) -> CallForm:
        """All but the sizes."""
        ranks = tuple(map(len, self.shapes))
        return CallForm(self.structures, self.dtypes, ranks, self.static)

    @property
    def names(self) -> list[str]:
        """Of the leaves."""
        return self.form.names

    def __str__(self) -> str:
        rows = zip(self.names, self.dtypes, self.shapes, strict=True)
        arrays = [f"{name}: {kind}{[*shape]}" for name, kind, shape in rows]
        return ", ".join(
            [*arrays, *(f"{name}={value!r}" for name, value in self.static)]
        )


class Binder:
    """Takes the arguments of a call apart.

    Args:
        owner: how messages call the function.
        signature: of it.
        stored: names of parameters that no call gives.
        static: names of those whose values are known when it is traced.
    """

    def __init__(
        self,
        owner: str,
        signature: Signature,
        stored: frozenset[str],
        static: frozenset[str],
    ) -> None:
        kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        given = [p for p in signature.parameters.values() if p.name not in stored]
        unknown = [str(p) for p in given if p.kind not in kinds]
        if unknown:
            raise InputError(
                "bad-entry",
                f"{owner}: expected parameters that can be given by name; got "
                f"'{unknown[0]}'",
                hint="wrap it in a function whose parameters have names",
            )
        missing = static - signature.parameters.keys()
        if missing:
            raise InputError(
                "bad-option",
                f"{owner}: static_argnames has {', '.join(sorted(missing))}, which are "
                "no parameters",
            )
        self._owner = owner
        self._signature = signature.replace(parameters=given)
        self._static = static
        # whether each argument of a call by position alone is a leaf, in order
        self.is_flat = not static

    def __call__(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[CallSignature, list[Array]]:
        """The signature of a call, and its leaves.

        Raises:
            InputError: `bad-call`: arguments are missing, or more than there are;
                `input-type`: a leaf is no array of an element type that there is.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError("bad-call", f"{self._owner}: {error}") from None
        bound.apply_defaults()
        structures, leaves, static = [], list[Array](), []
        for name, value in bound.arguments.items():
            if name in self._static:
                static.append((name, self._hashable(name, value)))
            else:
                found, structure = flatten(value)
                structures.append((name, structure))
                leaves += (
                    self._array(name, structure, number, leaf)
                    for number, leaf in enumerate(found)
                )
        dtypes = tuple(leaf.dtype for leaf in leaves)
        shapes = tuple(leaf.shape for leaf in leaves)
        made = CallSignature(tuple(structures), dtypes, shapes, tuple(static))
        return made, leaves

    def _number(self, name: str, number: bool | int | float) -> Array:
        try:
            return np.asarray(number, _NUMBERS[type(number)])
        except OverflowError:
            raise InputError(
                "bad-call",
                f"{self._owner}: expected a number of 32 bits in '{name}'; got "
                f"{number}",
                hint="give it as an array: numpy.int64(…)",
            ) from None

    def _hashable(self, name: str, value: Any) -> Hashable:
        if not isinstance(value, Hashable):
            raise InputError(
                "bad-call",
                f"{self._owner}: expected a static argument '{name}' that can be "
                f"hashed; got {type(value).__name__}",
            )
        return value

    def _array(self, name: str, structure: Structure, number: int, leaf: Any) -> Array:
        """The leaf with this number of an argument."""
        if type(leaf) in _NUMBERS:
            return self._number(name, leaf)
        if type(leaf) is np.ndarray:
            return leaf

        def describe() -> Described:
            title = f"{self._owner}: argument '{name}'"
            place = leaf_names(structure, name)[number]
            static = f" (in static_argnames=['{name}'] it may be anything)"
            return Described(title, place, f"arrays or numbers{static}")

        return host_array(leaf, describe)
