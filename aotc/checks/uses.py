"""Uses of an entry's inputs, inferred from the ops that they reach.

Nothing in the type of an integer says whether it is a position, a length or a number;
nothing in that of a float, whether it is a mask. What is computed of them does: an axis
that is read at them, a slice that starts there, a count that they are compared with,
scores of a softmax that they are added to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from aotc.core import dtypes
from aotc.dialects.control import control_of
from aotc.dialects.functions.entries import Entry, Port
from aotc.dialects.functions.functions import callee_of, functions_of, signature
from aotc.dialects.functions.walking import walk
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.binary import Add, Divide, Maximum, Multiply, Subtract
from aotc.dialects.ops.creation import Constant, Iota
from aotc.dialects.ops.dynamic import DynamicSlice, DynamicUpdateSlice
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.ops.normalization import LogSoftmax, Softmax
from aotc.dialects.ops.scattering import Scatter
from aotc.dialects.ops.selection import Cast, Compare, Select
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Concatenate, Slice
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.mlir import Function, Module, Operation, Value, func, ir


@dataclass
class Use:
    """The uses of an input in a graph: as index, length or mask, with its bounds.

    Args:
        limits: of an integer that is a position or length: what it is below. Of several
            in one limit, for axes of which it is not known which one is meant, the
            largest counts.
        leasts: what it is at least, if that is more than 0: lengths that leave
            something to see.
        is_position: whether it is such a number itself, and not only computed with.
        is_bias: whether a float is added to scores, as a mask of 0 and -infinity is.
        is_factor: whether a number becomes such a mask by arithmetic: of 0 and 1.
    """

    limits: list[tuple[Size, ...]] = field(default_factory=list)
    leasts: list[Size] = field(default_factory=list)
    is_position: bool = False
    is_bias: bool = False
    is_factor: bool = False

    def limit(self, sizes: Sequence[int]) -> int | None:
        """Return the exclusive upper bound of the integers for symbol values; None if
        unknown.

        Args:
            sizes: of the symbols, in parts.
        """
        found = [max(evaluate_size(n, sizes) for n in each) for each in self.limits]
        return max(min(found), 1) if found else None

    def least(self, sizes: Sequence[int]) -> int:
        """Return the lower bound of the integers for symbol values."""
        return max((evaluate_size(n, sizes) for n in self.leasts), default=0)

    @property
    def is_mask(self) -> bool:
        """Return whether an integer is a mask: 0 for hidden, 1 for seen."""
        return (self.is_bias or self.is_factor) and not self.is_position

    def extend(self, other: Use) -> None:
        """Add the facts of another use to this one."""
        self.limits += other.limits
        self.leasts += other.leasts
        self.is_position |= other.is_position
        self.is_bias |= other.is_bias
        self.is_factor |= other.is_factor


def uses_of_inputs(module: Module, entry: Entry) -> dict[str, Use]:
    """Return the known uses of an entry's inputs, by name.

    Args:
        module: graph IR.
        entry: in the module.
    """
    with module.context, ir.Location.unknown():
        search = _UseSearch(functions_of(module))
        search.visit(entry.name, [_origin(port) for port in entry.arguments])
        return search.uses


_Names = frozenset[str]


class _Integer(NamedTuple):
    """An integer input that a value is computed from, and the range added to it.

    Args:
        name: of the input.
        ends: the least and the greatest number that has been added to it; None where
            more than that has been done.
    """

    name: str
    ends: tuple[Size, Size] | None = (0, 0)

    def plus(self, low: Size, high: Size) -> _Integer:
        """Return the integer with numbers from `low` to `high` added."""
        if self.ends is None:
            return self
        return _Integer(self.name, (self.ends[0] + low, self.ends[1] + high))


class _Origin(NamedTuple):
    """The inputs that a value is computed from, and by what arithmetic.

    Args:
        integers: those that it, an integer or bool, is computed of.
        moved: the number of which it, a float, has elements and no others.
        scaled: the float of which it is made by arithmetic with constants.
        added: floats that have been added to it, and whether as made by arithmetic.
    """

    integers: frozenset[_Integer] = frozenset()
    moved: _Names = frozenset()
    scaled: _Names = frozenset()
    added: frozenset[tuple[str, bool]] = frozenset()

    @property
    def floats(self) -> frozenset[tuple[str, bool]]:
        """The float inputs of a value, each with whether arithmetic was applied."""
        moved = {(name, False) for name in self.moved}
        return frozenset(moved | {(name, True) for name in self.scaled})


def _origin(port: Port) -> _Origin:
    """Return the origin of an argument: itself if it is an input, else nothing."""
    if port.kind != "input":
        return _Origin()
    if dtypes.is_float(port.type.dtype):
        return _Origin(moved=frozenset({port.name}))
    return _Origin(frozenset({_Integer(port.name)}))


def _union(origins: Iterable[_Origin]) -> _Origin:
    """Return the union of several origins."""
    columns = zip(*origins, strict=True)
    return _Origin(*(frozenset().union(*column) for column in columns))


_MOVES = (Broadcast, Cast, Reshape, Slice, Transpose)
_ARITHMETIC = (Add, Divide, Multiply, Subtract)
_OF_SCORES = (*_ARITHMETIC, Maximum, Select)  # after which scores are scores


class _UseSearch:
    """Propagates inputs' origins through a function, its calls, loops and branches."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._visited: dict[tuple[str, tuple[_Origin, ...]], list[_Origin]] = {}
        self._known: dict[Any, _Origin] = {}
        self.uses: dict[str, Use] = {}

    def visit(self, name: str, arguments: Sequence[_Origin]) -> list[_Origin]:
        """Return the origin of each result of a function; record uses of inputs.

        Args:
            name: of the function.
            arguments: what each of its arguments comes from.
        """
        key = name, tuple(arguments)
        if key not in self._visited:
            self._visited[key] = self._visit(self._functions[name], arguments)
        return self._visited[key]

    def _visit(self, function: Function, arguments: Sequence[_Origin]) -> list[_Origin]:
        """Return the origins of a function's results, which are not cached yet."""
        if not function.is_external:
            block = function.entry_block
            self._known.update(zip(block.arguments, arguments, strict=True))
            return walk(block, arguments, self._visit_op)
        inputs, results = signature(function)
        control = control_of(function)
        for inner in control.functions if control else ():
            taken, _ = signature(self._functions[inner])
            self.visit(inner, arguments[len(inputs) - len(taken) :])
        whole = _computed(_union(arguments).integers) if arguments else frozenset()
        return [
            _Origin() if dtypes.is_float(each.dtype) else _Origin(whole)
            for each in results
        ]

    def _visit_op(self, op: Any, operands: list[_Origin]) -> list[_Origin]:
        """Record an op's uses of inputs; return the origins of its results."""
        for name, use in _uses_in(op, operands, self._known):
            self.uses.setdefault(name, Use()).extend(use)
        if isinstance(op, func.CallOp):
            found = self.visit(callee_of(op), operands)
        else:
            whole = _result_origin(op, operands)
            found = [
                whole._replace(integers=frozenset())
                if dtypes.is_float(Tensor.of(result).dtype)
                else _Origin(whole.integers)
                for result in op.results
            ]
        self._known.update(zip(op.results, found, strict=True))
        return found


def _result_origin(op: GraphOp, operands: Sequence[_Origin]) -> _Origin:
    """Return the combined origin of an op's results."""
    if not operands:
        return _Origin()
    whole = _union(operands)
    if isinstance(op, Cast) and dtypes.is_float(Tensor.of(op.results[0]).dtype):
        return whole._replace(moved=whole.moved | {x.name for x in whole.integers})
    if isinstance(op, _MOVES):
        return whole
    whole = whole._replace(integers=_integers_of(op, operands))
    if not isinstance(op, _OF_SCORES):
        return _Origin(whole.integers)
    if isinstance(op, _ARITHMETIC) and any(
        splat_of(operand) is not None for operand in op.operands
    ):
        scaled = whole.moved | whole.scaled
        return _Origin(whole.integers, scaled=scaled, added=whole.added)
    added = whole.added
    if isinstance(op, Add) and not all(each.floats for each in operands):
        added |= whole.floats
    return _Origin(whole.integers, added=added)


def _integers_of(op: GraphOp, operands: Sequence[_Origin]) -> frozenset[_Integer]:
    """Return the integer inputs in an op's operands, with the constants it adds."""
    integers = _union(operands).integers
    if type(op).selects:
        return integers
    if isinstance(op, (Add, Subtract)):
        sign = 1 if isinstance(op, Add) else -1
        for value, other, factor in ((0, 1, sign), (1, 0, 1)):
            ends = _ends_of(op.operands[other])
            if ends is not None and (sign > 0 or value == 0):
                low, high = ends if factor > 0 else (0 - ends[1], 0 - ends[0])
                return frozenset(x.plus(low, high) for x in operands[value].integers)
    return _computed(integers)


def _computed(integers: Iterable[_Integer]) -> frozenset[_Integer]:
    """Return the integers marked as changed by more than addition."""
    return frozenset(_Integer(each.name, None) for each in integers)


def _ends_of(value: Value) -> tuple[Size, Size] | None:
    """Return the least and greatest value of a constant or iota; None for others."""
    number = splat_of(value)
    if number is not None and Tensor.of(value).dtype in dtypes.INTEGERS:
        return int(number), int(number)
    count = _counted(value)
    return None if count is None else (0, count - 1)


def _in_range(
    integers: Iterable[_Integer], below: Sequence[Size], least: Size = 0
) -> Iterator[tuple[str, Use]]:
    """Yield each integer input of an index, with the bounds that the index implies.

    Of several ways from an integer to the value, as those of negative positions that
    are counted from the end, the one that leaves most is meant.

    Args:
        integers: that the value is made of.
        below: sizes of which the value is below the largest.
        least: of the value.
    """
    ways: dict[str, list[_Integer]] = {}
    for each in integers:
        ways.setdefault(each.name, []).append(each)
    for name, found in ways.items():
        plain = next((x for x in found if x.ends in (None, (0, 0))), None)
        low, high = (found[0] if plain is None else plain).ends or (0, 0)
        is_direct = all(x.ends is not None for x in found)
        leasts = [least - low] if is_direct else []
        yield name, Use([tuple(size - high for size in below)], leasts, is_direct)


# `iota < n`: n positions are seen, and at least one is to be; so they are if others,
# `iota >= n`, are hidden. Of `iota <= n` and `iota > n`, n is the last one seen.
_COUNTS = ("lt", "ge")
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _uses_in(
    op: Operation, operands: Sequence[_Origin], known: Mapping[object, _Origin]
) -> Iterator[tuple[str, Use]]:
    """Yield the names of the inputs that an op uses, and how."""
    sources = dict(zip(op.operands, operands, strict=True))
    if isinstance(op, (Gather, Scatter)):
        shape = Tensor.of(op.x).shape
        for axis, indices in zip(IndexMap.of(op).axes, op.indices, strict=True):
            yield from _in_range(sources[indices].integers, (shape[axis],))
    elif isinstance(op, (DynamicSlice, DynamicUpdateSlice)):
        yield from _starts_in(op, known)
    elif isinstance(op, Compare):
        mirrored = _MIRRORED.get(op.direction, op.direction)
        for value, other, direction in (
            (op.rhs, op.lhs, op.direction),
            (op.lhs, op.rhs, mirrored),
        ):
            size = _counted(other)
            if size is not None:
                is_count = direction in _COUNTS
                ends = (size + is_count,), int(is_count)
                yield from _in_range(sources[value].integers, *ends)
    elif isinstance(op, (LogSoftmax, Softmax)):
        yield from _masks(operands[0].added)
    elif isinstance(op, Attention):
        bias = sources[op.bias]
        yield from _masks(bias.floats | bias.added)


def _counted(value: Value) -> Size | None:
    """Return n if a value counts 0, 1, … n - 1 along an axis; else None."""
    made = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if isinstance(made, _MOVES):
        return _counted(made.x)
    if isinstance(made, Iota):
        size: Size = made.shape[made.axis]
        return size
    if not isinstance(made, Constant) or Tensor.of(value).dtype not in dtypes.INTEGERS:
        return None
    numbers = np.asarray(made.value).reshape(-1)
    is_counting = numbers.size > 1 and np.array_equal(numbers, np.arange(numbers.size))
    return numbers.size if is_counting else None


def _masks(floats: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, Use]]:
    """Yield the name and the use of float inputs that are masks."""
    for name, by_arithmetic in floats:
        yield name, Use(is_bias=not by_arithmetic, is_factor=by_arithmetic)


def _starts_in(
    op: DynamicSlice | DynamicUpdateSlice, known: Mapping[object, _Origin]
) -> Iterator[tuple[str, Use]]:
    """Yield the inputs that are start indices of slices, and their bounds."""
    sizes = op.sizes if isinstance(op, DynamicSlice) else Tensor.of(op.update).shape
    pairs = zip(Tensor.of(op.x).shape, sizes, strict=True)
    places = [have - size + 1 for have, size in pairs]
    parts = list(_concatenated(op.starts))
    if len(parts) == len(places):
        for part, place in zip(parts, places, strict=True):
            yield from _in_range(known[part].integers, (place,))
    else:
        yield from _in_range(known[op.starts].integers, tuple(places))


def _concatenated(value: Value) -> Iterator[object]:
    """Yield the values that a vector was concatenated from; itself if it was not."""
    whole = made_by(value, Concatenate)
    if whole is None:
        yield value
        return
    for part in whole.operands:
        yield from _concatenated(part)
