"""The contract of a call: dtypes, shapes and symbols of all its inputs.

A `CallContract` is made once per entry point. Its checks name the entry, the input,
what was expected and what came; which shapes are allowed is remembered, so that a call
with shapes seen before does not check them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from aotc.artifacts.call_guards import (
    bytes_guard,
    dtype_guard,
    equality_guard,
    layout_guard,
    range_guard,
    rank_guard,
    size_guard,
    step_guard,
)
from aotc.artifacts.conditions import Condition
from aotc.artifacts.manifest import Guard, Leaf, Symbol
from aotc.artifacts.shapes import ADDRESSABLE, SizeExpression, Undefined, deciding_sizes
from aotc.core.dtypes import to_numpy
from aotc.errors import InputError
from aotc.runtime.foreign_tensors import DlpackGpu, DlpackTensor
from aotc.runtime.host_arrays import Array, Described, host_array

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]  # of all inputs of a call

_REMEMBERED = 256
_ndarray = np.ndarray


class Input:
    """A declared input array, which converts and checks values given for it."""

    def __init__(self, owner: str, leaf: Leaf, gpu: DlpackGpu | None = None) -> None:
        self.leaf = leaf
        self._gpu = gpu
        self.title = f"{owner}: input {leaf.name!r}"
        self.dtype = to_numpy(leaf.dtype)
        self.dims = [
            SizeExpression.parse(d) if isinstance(d, str) else d for d in leaf.shape
        ]

    def given(self, value: object) -> Array | DlpackTensor:
        """Convert `value` to a tensor on the computing GPU if it is one, else to a host
        array.
        """
        if self._gpu is not None:
            tensor = self._gpu.tensor(value, self._describe)
            if tensor is not None:
                if tensor.dtype != self.dtype:
                    raise self._dtype_error(tensor.dtype, "to(torch.{})")
                return tensor
        return self.array(value)

    def array(self, value: object) -> Array:
        """Convert `value` to a host array; raise unless it has the declared dtype.

        Arrays are never cast. Python's own numbers have no width, so they take the
        declared dtype if it can hold them.
        """
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            return self._from_number(value)
        array = host_array(value, self._describe)
        if array.dtype != self.dtype:
            raise self._dtype_error(array.dtype, "astype('{}')")
        return array

    def _dtype_error(self, dtype: object, cast: str) -> InputError:
        """Return the error for an array of another dtype."""
        return self.error(
            "dtype-mismatch",
            f"an array of {dtype}",
            dtype_guard(self.leaf.name),
            hint=f"cast it: {self.leaf.name}.{cast.format(self.dtype.name)}",
        )

    def _describe(self) -> Described:
        """Return the description of the input for error messages."""
        leaf = self.leaf
        return Described(self.title, leaf.name, str(leaf), leaf.where)

    def _from_number(self, value: bool | int | float) -> Array:
        """Convert a Python number to the declared dtype; raise if it does not fit."""
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
            guard = dtype_guard(self.leaf.name)
            raise self.error("dtype-mismatch", f"the Python number {value!r}", guard)
        return array

    def error(
        self, code: str, got: str, guard: str, hint: str | None = None
    ) -> InputError:
        """Return the error for a violated guard of this input."""
        return InputError(
            code,
            f"{self.title}: expected {self.leaf}, got {got}",
            where=self.leaf.where or None,
            hint=hint,
            guard=guard,
        )


class _SizePosition(NamedTuple):
    """A symbolic size of an input: its axis and the expression it must equal."""

    spec: Input
    number: int
    axis: int
    dim: SizeExpression

    @property
    def guard(self) -> str:
        """The name of the guard on this size."""
        return size_guard(self.spec.leaf.name, self.axis)


class CallContract:
    """Checks the dtypes and shapes of all inputs of an entry, and remembers allowed
    shapes.

    Args:
        owner: how messages call the entry.
        leaves: its inputs.
        symbols: in their shapes, by name.
        guards: conditions on sizes.
        computed: what calls compute, which has to have room.
        gpu: whose tensors are taken where they lie.
    """

    def __init__(
        self,
        owner: str,
        leaves: Sequence[Leaf],
        symbols: Mapping[str, Symbol],
        guards: Sequence[Guard] = (),
        computed: Sequence[Leaf] = (),
        gpu: DlpackGpu | None = None,
    ) -> None:
        self._owner = owner
        self._guards = [(each, Condition.parse(each.condition)) for each in guards]
        self.inputs = [Input(owner, leaf, gpu) for leaf in leaves]
        self._dtypes = [spec.dtype for spec in self.inputs]
        self._symbols = symbols
        self._places = [
            _SizePosition(spec, number, axis, dim)
            for number, spec in enumerate(self.inputs)
            for axis, dim in enumerate(spec.dims)
            if isinstance(dim, SizeExpression)
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

    def arrays(
        self, values: Sequence[object]
    ) -> tuple[list[Array | DlpackTensor], Shapes]:
        """Convert and check the inputs of a call; return the arrays and their shapes.

        Raises:
            InputError: a value, or the shapes of all together, break the contract.
        """
        arrays = [
            value
            if type(value) is _ndarray and value.dtype is dtype
            else spec.given(value)
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
        """Raise if the shapes of a call violate the contract."""
        try:
            values = self._check_shapes(shapes)
        except InputError as error:
            raise self._layout_error(shapes) or error from None
        self._check_guards(values)
        self._check_bytes(values)

    def _check_shapes(self, shapes: Shapes) -> dict[str, int]:
        """Raise for wrong ranks or sizes; return the value of each symbol."""
        for spec, shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(spec.dims):
                guard = rank_guard(spec.leaf.name)
                raise spec.error("rank-mismatch", f"shape {_text(shape)}", guard)
        values = self.sizes(shapes)
        for spec, shape in zip(self.inputs, shapes, strict=True):
            for axis, (dim, size) in enumerate(zip(spec.dims, shape, strict=True)):
                if isinstance(dim, int):
                    wanted, means = dim, ""
                else:
                    wanted = self._size(spec, axis, dim, values)
                    means = f" (where {dim.text} is {wanted})"
                if size != wanted:
                    guard = size_guard(spec.leaf.name, axis)
                    got = f"shape {_text(shape)}{means}"
                    raise spec.error("shape-mismatch", got, guard)
        return values

    def _layout_error(self, shapes: Shapes) -> InputError | None:
        """Return the error for images in the other layout, if their sizes would fit in
        it.
        """
        images = [
            number
            for number, spec in enumerate(self.inputs)
            if spec.leaf.layout and len(shapes[number]) == len(spec.dims)
        ]
        for numbers in (*([number] for number in images), images):
            if numbers and self._fits_swapped(shapes, numbers):
                return self._swapped_error(numbers[0], shapes[numbers[0]])
        return None

    def _fits_swapped(self, shapes: Shapes, numbers: Sequence[int]) -> bool:
        """Return whether the shapes would be right with some images in the other
        layout.
        """
        moved = list(shapes)
        for number in numbers:
            layout = self.inputs[number].leaf.layout
            moved[number] = tuple(
                shapes[number][_other_layout(layout).index(axis)] for axis in layout
            )
        try:
            self._check_shapes(tuple(moved))
        except InputError:
            return False
        return True

    def _swapped_error(self, number: int, shape: Shape) -> InputError:
        """Return the error for an image in the other layout, with the transpose as
        hint.
        """
        spec = self.inputs[number]
        layout = spec.leaf.layout
        other = _other_layout(layout)
        order = ", ".join(str(other.index(axis)) for axis in layout)
        return spec.error(
            "shape-mismatch",
            f"shape {_text(shape)}, which looks like {other}: the bundle was built for "
            f"images in the layout {layout}",
            layout_guard(spec.leaf.name),
            hint=f"transpose it: {spec.leaf.name}.transpose({order})",
        )

    def _check_bytes(self, values: Mapping[str, int]) -> None:
        """Raise if an output or intermediate would exceed the addressable size."""
        for leaf in self._computed:
            needed = leaf_bytes(leaf, values)
            if needed > ADDRESSABLE:
                got = ", ".join(f"{name} = {size}" for name, size in values.items())
                what = f"the output {leaf.name!r}" if leaf.name else "a value"
                raise InputError(
                    "size-limit",
                    f"{self._owner}: expected {what}, {leaf}, to take at most 2**47 "
                    f"bytes, got {needed} (where {got})",
                    hint="call it with smaller inputs",
                    guard=bytes_guard(leaf.name),
                )

    def _check_guards(self, values: Mapping[str, int]) -> None:
        """Raise if a condition of the traced model does not hold for the sizes."""
        for guard, condition in self._guards:
            if not condition.holds(values):
                used = sorted(condition.symbols)
                got = ", ".join(f"{name} = {values[name]}" for name in used)
                raise InputError(
                    "shape-guard",
                    f"{self._owner}: expected {condition}, got {got}: {guard.message}",
                    where=guard.where or None,
                    hint="the condition is part of the model; call it with other sizes",
                    guard=guard.condition,
                )

    def _size(
        self, spec: Input, axis: int, dim: SizeExpression, values: Mapping[str, int]
    ) -> int:
        """Evaluate a size expression; raise an input error if it is undefined."""
        try:
            return dim.value(values)
        except Undefined as error:
            guard = size_guard(spec.leaf.name, axis)
            got = f"sizes for which {error}"
            raise spec.error("shape-mismatch", got, guard) from None

    def sizes(self, shapes: Shapes) -> dict[str, int]:
        """Return the value of each symbol that the shapes of a call determine.

        A size such as `n * 2 + m` decides n once m is known.
        """
        bound: dict[str, tuple[int, _SizePosition]] = {}
        for place in self._places:
            if place.dim.is_symbol:
                name = place.dim.text.strip()
                self._bind(bound, place, name, shapes[place.number][place.axis])
        for place, name in self._solved:
            self._solve(bound, place, name, shapes[place.number][place.axis])
        return {name: value for name, (value, _) in bound.items()}

    def _solve(
        self,
        bound: dict[str, tuple[int, _SizePosition]],
        place: _SizePosition,
        name: str,
        size: int,
    ) -> None:
        """Bind the symbol that a size expression determines; raise if it has no
        solution.
        """
        known = {other: value for other, (value, _) in bound.items()}
        value = place.dim.solve(name, size, known)
        if value is None:
            raise place.spec.error(
                "shape-mismatch",
                f"the size {size}: '{place.dim.text}' is that for no {name}",
                place.guard,
            )
        self._bind(bound, place, name, value)

    def _bind(
        self,
        bound: dict[str, tuple[int, _SizePosition]],
        place: _SizePosition,
        name: str,
        size: int,
    ) -> None:
        """Bind a symbol to a size; raise if another input has given it another
        value.
        """
        if name not in bound:
            self._check_symbol(place.spec, name, size)
            bound[name] = size, place
        first, other = bound[name]
        if size != first:
            raise place.spec.error(
                "shape-mismatch",
                f"{name} = {size} (input {other.spec.leaf.name!r} has {name} = "
                f"{first})",
                equality_guard(place.guard, other.guard),
            )

    def _check_symbol(self, spec: Input, name: str, size: int) -> None:
        """Raise if a symbol's value is outside its declared range or step."""
        symbol = self._symbols[name]
        largest = symbol.max if symbol.max is not None else size
        is_within = symbol.min <= size <= largest
        if is_within and size % symbol.multiple_of == 0:
            return
        rules = [f"{name} at least {symbol.min}"]
        if symbol.max is not None:
            rules.append(f"at most {symbol.max}")
        if symbol.multiple_of > 1:
            rules.append(f"a multiple of {symbol.multiple_of}")
        raise InputError(
            "shape-contract",
            f"{spec.title}: expected {', '.join(rules)}, got {size}",
            where=symbol.where or spec.leaf.where or None,
            hint="the range was declared when the model was built",
            guard=step_guard(name) if is_within else range_guard(name),
        )


def _other_layout(layout: str) -> str:
    """Return `nchw` for `nhwc` and vice versa, for any number of spatial axes."""
    spatial = layout.replace("n", "", 1).replace("c", "", 1)
    return f"nc{spatial}" if layout.endswith("c") else f"n{spatial}c"


def _is_static(leaf: Leaf) -> bool:
    """Return whether all sizes of an array are static."""
    return all(isinstance(size, int) for size in leaf.shape)


def leaf_bytes(leaf: Leaf, values: Mapping[str, int]) -> int:
    """Return the bytes of a tensor for given symbol values; 0 if a size is
    undefined.
    """
    try:
        sizes = [
            size if isinstance(size, int) else SizeExpression.parse(size).value(values)
            for size in leaf.shape
        ]
    except Undefined:
        return 0
    return math.prod(max(size, 0) for size in sizes) * to_numpy(leaf.dtype).itemsize


def _text(shape: Shape) -> str:
    """Format a shape: `[2, 3]`."""
    return f"[{', '.join(map(str, shape))}]"
