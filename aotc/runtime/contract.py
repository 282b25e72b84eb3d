"""The contract of a call: dtypes, shapes and symbols of all its inputs.

A `Contract` is made once per entry point. Its checks name the entry, the input, what
was expected and what came; which shapes are allowed is remembered, so that a call with
shapes seen before does not check them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aotc.artifacts.conditions import Condition
from aotc.artifacts.manifest import Guard, Leaf, Symbol
from aotc.artifacts.shapes import ADDRESSABLE, Dim, Undefined, deciding_sizes
from aotc.dtypes import to_numpy
from aotc.errors import InputError

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]  # of all inputs of a call
Array = np.ndarray[Any, np.dtype[Any]]

_REMEMBERED = 256
_ndarray = np.ndarray


class Input:
    """One input array: its place in messages, and its exact dtype."""

    def __init__(self, owner: str, leaf: Leaf) -> None:
        self.leaf = leaf
        self.where = f"{owner}: input {leaf.name!r}"
        self.dtype = to_numpy(leaf.dtype)
        self.dims = [Dim.parse(d) if isinstance(d, str) else d for d in leaf.shape]

    def array(self, value: Any) -> Array:
        """`value` as an array of exactly the declared dtype.

        Arrays are never cast. Python's own numbers have no width, so they take the
        declared dtype if it can hold them.
        """
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            return self._from_number(value)
        if not hasattr(value, "__array__"):
            raise self.error(
                "input-type",
                type(value).__name__,
                hint="pass a NumPy array: numpy.asarray(value, dtype)",
            )
        if isinstance(value, np.ma.MaskedArray) and value.mask.any():
            raise self.error(
                "input-type",
                "a masked array, whose masked elements have no values",
                hint=f"give them values: {self.leaf.name}.filled(0)",
            )
        array = np.asarray(value)
        if array.dtype != self.dtype:
            raise self.error(
                "dtype-mismatch",
                f"an array of {array.dtype}",
                hint=f"cast it: {self.leaf.name}.astype({self.dtype.name!r})",
            )
        return array

    def _from_number(self, value: bool | int | float) -> Array:
        kind = self.dtype.kind
        fits = isinstance(value, bool) if kind == "b" else not isinstance(value, bool)
        if isinstance(value, float) and kind in "iu":
            fits = False
        if fits:
            try:
                with np.errstate(over="ignore"):
                    array = np.asarray(value, self.dtype)
            except OverflowError:
                fits = False
            else:
                # A float may round, but neither overflow nor lose part of an integer.
                exact = isinstance(value, int) or not np.isfinite(value)
                fits = array.item() == value if exact else bool(np.isfinite(array))
                fits = fits or value != value
        if not fits:
            raise self.error("dtype-mismatch", f"the Python number {value!r}")
        return array

    def error(self, code: str, got: str, hint: str | None = None) -> InputError:
        """An error about this input."""
        return InputError(
            code, f"{self.where}: expected {self.leaf}, got {got}", hint=hint
        )


class _Place(NamedTuple):
    """Where a symbolic size stands: input number, axis, and what it has to be."""

    number: int
    axis: int
    dim: Dim


class Contract:
    """What the shapes of all inputs of an entry point have to agree on."""

    def __init__(
        self,
        owner: str,
        leaves: Sequence[Leaf],
        symbols: Mapping[str, Symbol],
        guards: Sequence[Guard] = (),
        computed: Sequence[Leaf] = (),
    ) -> None:
        self._owner = owner
        self._guards = [(each, Condition.parse(each.condition)) for each in guards]
        self.inputs = [Input(owner, leaf) for leaf in leaves]
        self._dtypes = [spec.dtype for spec in self.inputs]
        self._symbols = symbols
        self._places = [
            _Place(number, axis, dim)
            for number, spec in enumerate(self.inputs)
            for axis, dim in enumerate(spec.dims)
            if isinstance(dim, Dim)
        ]
        order = deciding_sizes([place.dim for place in self._places])
        self._solved = [
            (self._places[index], symbol)
            for index, symbol in order
            if not self._places[index].dim.is_symbol
        ]
        # Static sizes were right for the compiler, or it would not have made code.
        self._computed = [leaf for leaf in computed if not _is_static(leaf)]
        self._allowed: set[Shapes] = set()

    def arrays(self, values: Sequence[Any]) -> tuple[list[Array], Shapes]:
        """The arrays of a call, and the shapes of these.

        Raises:
            InputError: a value, or the shapes of all together, break the contract.
        """
        arrays = [
            value
            if type(value) is _ndarray and value.dtype is dtype
            else spec.array(value)
            for value, dtype, spec in zip(
                values, self._dtypes, self.inputs, strict=True
            )
        ]
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._allowed:
            self._check(shapes)
            if len(self._allowed) >= _REMEMBERED:
                self._allowed.clear()
            self._allowed.add(shapes)
        return arrays, shapes

    def _check(self, shapes: Shapes) -> None:
        for spec, shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(spec.dims):
                raise spec.error("rank-mismatch", f"shape {_text(shape)}")
        values = self.sizes(shapes)
        for spec, shape in zip(self.inputs, shapes, strict=True):
            for dim, size in zip(spec.dims, shape, strict=True):
                if isinstance(dim, int):
                    wanted, means = dim, ""
                else:
                    wanted = self._size(spec, dim, values)
                    means = f" (where {dim.text} is {wanted})"
                if size != wanted:
                    raise spec.error("shape-mismatch", f"shape {_text(shape)}{means}")
        self._check_guards(values)
        self._check_bytes(values)

    def _check_bytes(self, values: Mapping[str, int]) -> None:
        """Refuse sizes that the runtime's 64-bit arithmetic gets wrong, or nearly."""
        for leaf in self._computed:
            needed = _bytes(leaf, values)
            if needed > ADDRESSABLE:
                got = ", ".join(f"{name} = {size}" for name, size in values.items())
                what = f"the output {leaf.name!r}" if leaf.name else "a value"
                raise InputError(
                    "size-limit",
                    f"{self._owner}: expected {what}, {leaf}, to take at most 2**47 "
                    f"bytes, got {needed} (where {got})",
                    hint="call it with smaller inputs",
                )

    def _check_guards(self, values: Mapping[str, int]) -> None:
        """Hold the sizes to what the model was traced for."""
        for guard, condition in self._guards:
            if not condition.holds(values):
                used = sorted(condition.symbols)
                got = ", ".join(f"{name} = {values[name]}" for name in used)
                line = f" ({guard.where})" if guard.where else ""
                raise InputError(
                    "shape-guard",
                    f"{self._owner}: expected {condition}, got {got}: "
                    f"{guard.message}{line}",
                    hint="the condition is part of the model; call it with other sizes",
                )

    def _size(self, spec: Input, dim: Dim, values: Mapping[str, int]) -> int:
        try:
            return dim.value(values)
        except Undefined as error:
            raise spec.error("shape-mismatch", f"sizes for which {error}") from None

    def sizes(self, shapes: Shapes) -> dict[str, int]:
        """What the sizes say that each symbol is: those that are just one, then others.

        A size such as `n * 2 + m` decides n once m is known.
        """
        bound: dict[str, tuple[int, Input]] = {}
        for place in self._places:
            if place.dim.is_symbol:
                name = place.dim.text.strip()
                size = shapes[place.number][place.axis]
                self._bind(bound, self.inputs[place.number], name, size)
        for place, name in self._solved:
            self._solve(bound, place, name, shapes[place.number][place.axis])
        return {name: value for name, (value, _) in bound.items()}

    def _solve(
        self, bound: dict[str, tuple[int, Input]], place: _Place, name: str, size: int
    ) -> None:
        """Bind the symbol that this size decides."""
        spec, dim = self.inputs[place.number], place.dim
        known = {other: value for other, (value, _) in bound.items()}
        value = dim.solve(name, size, known)
        if value is None:
            raise spec.error(
                "shape-mismatch", f"the size {size}: '{dim.text}' is that for no {name}"
            )
        self._bind(bound, spec, name, value)

    def _bind(
        self, bound: dict[str, tuple[int, Input]], spec: Input, name: str, size: int
    ) -> None:
        if name not in bound:
            self._check_symbol(spec, name, size)
            bound[name] = size, spec
        first, other = bound[name]
        if size != first:
            raise spec.error(
                "shape-mismatch",
                f"{name} = {size} (input {other.leaf.name!r} has {name} = {first})",
            )

    def _check_symbol(self, spec: Input, name: str, size: int) -> None:
        symbol = self._symbols[name]
        largest = symbol.max if symbol.max is not None else size
        if symbol.min <= size <= largest and size % symbol.multiple_of == 0:
            return
        rules = [f"{name} at least {symbol.min}"]
        if symbol.max is not None:
            rules.append(f"at most {symbol.max}")
        if symbol.multiple_of > 1:
            rules.append(f"a multiple of {symbol.multiple_of}")
        raise InputError(
            "shape-contract",
            f"{spec.where}: expected {', '.join(rules)}, got {size}",
            hint="the range was declared when the model was built",
        )


def _is_static(leaf: Leaf) -> bool:
    return all(isinstance(size, int) for size in leaf.shape)


def _bytes(leaf: Leaf, values: Mapping[str, int]) -> int:
    """What a tensor takes; nothing where a size has no meaning, such as 1 // 0."""
    try:
        sizes = [
            size if isinstance(size, int) else Dim.parse(size).value(values)
            for size in leaf.shape
        ]
    except Undefined:
        return 0
    return math.prod(max(size, 0) for size in sizes) * to_numpy(leaf.dtype).itemsize


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"
