"""What the inputs of an entry are used for, read from the ops that they reach.

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

from aotc import dtypes
from aotc.dialects.control import control_of
from aotc.dialects.entries import Entry
from aotc.dialects.functions import callee_of, functions_of, signature
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
from aotc.dialects.walking import walk
from aotc.mlir import func, ir


@dataclass
class Use:
    """What is known of an input.

    Args:
        limits: of an integer that is a position or length: what it is below. Of several
            in one limit, for axes of which it is not known which one is meant, the
            largest counts.
        is_bias: whether a float is added to scores, as a mask of 0 and -infinity is.
        is_factor: whether a float becomes such a mask by arithmetic: of 0 and 1.
    """

    limits: list[tuple[Size, ...]] = field(default_factory=list)
    is_bias: bool = False
    is_factor: bool = False

    def limit(self, sizes: Sequence[int]) -> int | None:
        """Return what the integers are below, at least 1; None if nothing says so.

        Args:
            sizes: of the symbols, in parts.
        """
        found = [max(evaluate_size(n, sizes) for n in each) for each in self.limits]
        return max(min(found), 1) if found else None


def uses_of_inputs(module: Any, entry: Entry) -> dict[str, Use]:
    """Return what is known of the inputs of an entry, by name.

    Args:
        module: graph IR.
        entry: in the module.
    """
    with module.context, ir.Location.unknown():
        search = _Search(functions_of(module))
        search.visit(entry.name, [_origin(port) for port in entry.arguments])
        return search.uses


_Names = frozenset[str]


class _Origin(NamedTuple):
    """The inputs that a value comes from.

    Args:
        integers: those that it, an integer or bool, is computed of.
        moved: the float of which it has elements and no others.
        scaled: the float of which it is made by arithmetic with constants.
        added: floats that have been added to it, and whether as made by arithmetic.
    """

    integers: _Names = frozenset()
    moved: _Names = frozenset()
    scaled: _Names = frozenset()
    added: frozenset[tuple[str, bool]] = frozenset()

    @property
    def floats(self) -> frozenset[tuple[str, bool]]:
        """The floats that it is made of, and whether by arithmetic."""
        moved = {(name, False) for name in self.moved}
        return frozenset(moved | {(name, True) for name in self.scaled})


def _origin(port: Any) -> _Origin:
    if port.kind != "input":
        return _Origin()
    name = frozenset({port.name})
    return _Origin(moved=name) if dtypes.is_float(port.type.dtype) else _Origin(name)


def _union(origins: Iterable[_Origin]) -> _Origin:
    columns = zip(*origins, strict=True)
    return _Origin(*(frozenset().union(*column) for column in columns))


_MOVES = (Broadcast, Cast, Reshape, Slice, Transpose)
_ARITHMETIC = (Add, Divide, Multiply, Subtract)
_OF_SCORES = (*_ARITHMETIC, Maximum, Select)  # after which scores are scores


class _Search:
    """Follows inputs through a function, its calls, loops and branches."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._visited: dict[tuple[str, tuple[_Origin, ...]], list[_Origin]] = {}
        self._known: dict[Any, _Origin] = {}
        self.uses: dict[str, Use] = {}

    def visit(self, name: str, arguments: Sequence[_Origin]) -> list[_Origin]:
        """Return what each result of a function comes from.

        Args:
            name: of the function.
            arguments: what each of its arguments comes from.
        """
        key = name, tuple(arguments)
        if key not in self._visited:
            self._visited[key] = self._visit(self._functions[name], arguments)
        return self._visited[key]

    def _visit(self, function: Any, arguments: Sequence[_Origin]) -> list[_Origin]:
        if not function.is_external:
            block = function.entry_block
            self._known.update(zip(block.arguments, arguments, strict=True))
            return walk(block, arguments, self._visit_op)
        inputs, results = signature(function)
        control = control_of(function)
        for inner in control.functions if control else ():
            taken, _ = signature(self._functions[inner])
            self.visit(inner, arguments[len(inputs) - len(taken) :])
        integers = _union(arguments).integers if arguments else frozenset[str]()
        return [
            _Origin() if dtypes.is_float(each.dtype) else _Origin(integers)
            for each in results
        ]

    def _visit_op(self, op: Any, operands: list[_Origin]) -> list[_Origin]:
        for use, names in _uses_in(op, operands, self._known):
            for name in names:
                known = self.uses.setdefault(name, Use())
                known.limits += use.limits
                known.is_bias |= use.is_bias
                known.is_factor |= use.is_factor
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


def _result_origin(op: Any, operands: Sequence[_Origin]) -> _Origin:
    """Return what the results of an op come from, whether they are floats or not."""
    if not operands:
        return _Origin()
    whole = _union(operands)
    if isinstance(op, _MOVES):
        return whole
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


def _uses_in(
    op: Any, operands: Sequence[_Origin], known: Mapping[Any, _Origin]
) -> Iterator[tuple[Use, _Names]]:
    """Yield what an op says of the inputs that it reads, and their names."""
    sources = dict(zip(op.operands, operands, strict=True))
    if isinstance(op, (Gather, Scatter)):
        shape = Tensor.of(op.x).shape
        for axis, indices in zip(IndexMap.of(op).axes, op.indices, strict=True):
            yield Use([(shape[axis],)]), sources[indices].integers
    elif isinstance(op, (DynamicSlice, DynamicUpdateSlice)):
        yield from _starts_in(op, known)
    elif isinstance(op, Compare):
        pairs = ((op.lhs, op.rhs), (op.rhs, op.lhs))
        for value, other in pairs:
            size = _counted(other)
            if size is not None:
                # any position, and as a length the whole axis
                most = size + (op.direction not in ("eq", "ne"))
                yield Use([(most,)]), sources[value].integers
    elif isinstance(op, (LogSoftmax, Softmax)):
        yield from _masks(operands[0].added)
    elif isinstance(op, Attention):
        bias = sources[op.bias]
        yield from _masks(bias.floats | bias.added)


def _counted(value: Any) -> Size | None:
    """Return how many numbers from 0 on a value counts along an axis, if it does."""
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


def _masks(floats: Iterable[tuple[str, bool]]) -> Iterator[tuple[Use, _Names]]:
    """Yield that floats are masks."""
    for name, by_arithmetic in floats:
        yield Use([], not by_arithmetic, by_arithmetic), frozenset({name})


def _starts_in(
    op: DynamicSlice | DynamicUpdateSlice, known: Mapping[Any, _Origin]
) -> Iterator[tuple[Use, _Names]]:
    """Yield the places that slices of a size may start at, for what says where."""
    sizes = op.sizes if isinstance(op, DynamicSlice) else Tensor.of(op.update).shape
    pairs = zip(Tensor.of(op.x).shape, sizes, strict=True)
    places = [have - size + 1 for have, size in pairs]
    parts = list(_concatenated(op.starts))
    if len(parts) == len(places):
        for part, place in zip(parts, places, strict=True):
            yield Use([(place,)]), known[part].integers
    else:
        yield Use([tuple(places)]), known[op.starts].integers


def _concatenated(value: Any) -> Iterator[Any]:
    """Yield the parts that a vector is put together of."""
    whole = made_by(value, Concatenate)
    if whole is None:
        yield value
        return
    for part in whole.operands:
        yield from _concatenated(part)
