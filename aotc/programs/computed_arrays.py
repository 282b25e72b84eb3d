"""Arrays that graph ops compute from others, evaluated when they are asked for.

What a build makes of weights is as large as they are, and is read once, when it is
written. Until then it is a `ComputedArray`: ops of the graph dialect and the arrays
that they read, which may be views of a mapped file, or computed in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.functions.walking import clone
from aotc.dialects.graph import GraphOp, evaluate
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Module, Value, func, ir
from aotc.programs.array_parts import (
    count_of_parts,
    divided_values,
    most_parts,
    part_of,
    results_of_part,
)
from aotc.programs.parameter_archive import (
    PROBE,
    UnevaluatedArray,
    first_bytes,
    have_same_bytes,
)

Array = np.ndarray


class ComputedArray(UnevaluatedArray):
    """A lazy array: graph ops compute it each time that `numpy.asarray` is called.

    Args:
        ops: what computes it, in order; they are copied.
        result: of one of them.
        arrays: of the values that they read and do not compute.
    """

    def __init__(
        self,
        ops: Sequence[GraphOp],
        result: Value,
        arrays: Mapping[Value, StoredArray],
    ) -> None:
        read = _read_by(ops)
        self._initialize(
            _copy_ops(ops, read, result), [arrays[value] for value in read]
        )

    @classmethod
    def of_module(cls, module: Module, leaves: Sequence[StoredArray]) -> ComputedArray:
        """Return the lazy array that another one's `module` computes from these
        leaves.
        """
        found = cls.__new__(cls)
        found._initialize(module, leaves)
        return found

    def _initialize(self, module: Module, leaves: Sequence[StoredArray]) -> None:
        """Initialize by a module whose only function computes the array from the
        leaves.
        """
        self.module, self.leaves = module, [*leaves]
        (function,) = _ops_of(module.body)
        self._block = function.entry_block
        kind = Tensor.of(_ops_of(self._block)[-1].operands[0])
        super().__init__(tuple(map(int, kind.shape)), dtypes.to_numpy(kind.dtype))

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """Compute the array, slice by slice where that saves memory."""
        parts = self.computed_parts()
        if self._count == 1:
            array = next(parts)
        else:
            array = np.empty(self.shape, self.dtype)
            for number, part in enumerate(parts):
                part_of(array, number, self._count)[...] = part
        return array if dtype is None else array.astype(dtype)

    def computed_parts(self) -> Iterator[Array]:
        """Yield slices of the array along axis 0, so that intermediates take little
        memory.
        """
        compute = self._whole if self._count == 1 else self._parts(self._count)
        for number in range(self._count):
            with self.module.context, np.errstate(all="ignore"):  # as in a call
                part = compute(number)
            yield part

    def _whole(self, _: int) -> Array:
        """Compute the whole array at once."""
        return _run(self._block, self.leaves, lambda op, given: evaluate(op, given, []))

    @cached_property
    def _count(self) -> int:
        """The number of slices in which the array is computed."""
        with self.module.context:
            return count_of_parts(self._divided, self._most_parts)

    def _parts(self, count: int) -> Callable[[int], Array]:
        """Return a function that computes the slice of a number, of `count` equal
        ones.
        """
        pairs = zip(self._block.arguments, self.leaves, strict=True)
        readers = [
            _reader(leaf, value in self._divided, count) for value, leaf in pairs
        ]

        def of_part(op: GraphOp, given: Sequence[Array]) -> list[Array]:
            return results_of_part(op, given, self._divided, count)

        return lambda number: _run(self._block, [x(number) for x in readers], of_part)

    @cached_property
    def _divided(self) -> set[Value]:
        """The values of which a slice of the array needs only a slice."""
        *ops, end = _ops_of(self._block)
        return divided_values(ops, end.operands[0])

    @cached_property
    def _most_parts(self) -> int:
        """The greatest number of equal slices; lazy leaves are divided too where they
        can be.
        """
        most = most_parts(self._divided)
        for value, leaf in zip(self._block.arguments, self.leaves, strict=True):
            if value in self._divided and isinstance(leaf, ComputedArray):
                shared = gcd(most, leaf._most_parts)
                most = shared if shared > 1 else most
        return most

    @cached_property
    def key(self) -> Hashable:
        """A hashable key of the ops that compute the array, whatever its leaves."""
        *ops, end = _ops_of(self._block)
        return _key_of(ops, self._block.arguments, end.operands[0])


StoredArray = Array | ComputedArray


@dataclass(frozen=True, eq=False)
class ArrayOrigin:
    """An existing array with the lazy array that computes it anew.

    Args:
        array: itself.
        computed: what gives it anew.
    """

    array: Array
    computed: ComputedArray


def _read_by(ops: Sequence[GraphOp]) -> list[Value]:
    """Return the values that ops read and do not define, each once."""
    made = {value for op in ops for value in op.results}
    return [*dict.fromkeys(x for op in ops for x in op.operands if x not in made)]


def _key_of(ops: Sequence[GraphOp], read: Sequence[Value], result: Value) -> Hashable:
    """Return a hashable key of ops: equal for equal ops, whatever values they read."""
    numbers = {value: n for n, value in enumerate(read)}
    rows = []
    for op in ops:
        facts = tuple(op.attributes[name] for name in type(op).codecs)
        given = tuple(numbers[value] for value in op.operands)
        rows.append((type(op), facts, given, tuple(x.type for x in op.results)))
        for value in op.results:
            numbers[value] = len(numbers)
    return tuple(value.type for value in read), tuple(rows), numbers[result]


def _copy_ops(ops: Sequence[GraphOp], read: Sequence[Value], result: Value) -> Module:
    """Return a module with copies of ops, as a function of the values that they
    read.
    """
    with result.type.context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.FunctionType.get([value.type for value in read], [result.type])
        with ir.InsertionPoint(module.body):
            block = func.FuncOp("computed", kind).add_entry_block()
        copies = dict(zip(read, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in ops:
                copied = clone(op, [copies[value] for value in op.operands])
                copies.update(zip(op.results, copied, strict=True))
            func.ReturnOp([copies[result]])
    return module


def _ops_of(block: Block) -> list[Any]:
    """Return the ops of a block, its terminator last."""
    return [*block.operations]


def _reader(leaf: StoredArray, is_divided: bool, count: int) -> Callable[[int], Array]:
    """Return a function from a slice's number to that slice of a leaf, or to all of
    it.
    """
    if is_divided and isinstance(leaf, ComputedArray) and not leaf._most_parts % count:
        return leaf._parts(count)
    array = np.asarray(leaf)
    return lambda number: part_of(array, number, count) if is_divided else array


def _run(
    block: Block,
    leaves: Sequence[StoredArray],
    compute: Callable[[GraphOp, Sequence[Array]], list[Array]],
) -> Array:
    """Compute the ops of a block on its arguments; free each array after its last use.

    A leaf that is computed is so for each op that reads it.

    Args:
        block: with ops, and a return.
        leaves: its arguments.
        compute: the results of an op.
    """
    *ops, end = _ops_of(block)
    reads = Counter(value for op in (*ops, end) for value in op.operands)
    arrays: dict[Value, StoredArray] = dict(zip(block.arguments, leaves, strict=True))
    for op in ops:
        found = compute(op, [np.asarray(arrays[x]) for x in op.operands])
        arrays.update(zip(op.results, found, strict=True))
        reads.subtract(op.operands)
        for value in (*op.operands, *op.results):
            if not reads[value]:
                arrays.pop(value, None)
    return np.asarray(arrays[end.operands[0]])


# ---- equality -----------------------------------------------------------------------


def likeness_key(array: StoredArray) -> Hashable:
    """Return a hash key that arrays share if `is_computed_alike`: types, ops, first
    bytes.

    So alike ones are found in a table, and nothing but the first bytes is read.
    """
    if isinstance(array, ComputedArray):
        return array.key, tuple(map(likeness_key, array.leaves))
    return array.dtype.str, array.shape, first_bytes(array, PROBE)


def is_computed_alike(one: StoredArray, other: StoredArray) -> bool:
    """Return whether arrays are known to be bitwise equal without computing them.

    Of two that are computed, the ops must be equal and what they read alike.
    """
    if one is other:
        return True
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if isinstance(one, ComputedArray) and isinstance(other, ComputedArray):
        pairs = zip(one.leaves, other.leaves, strict=False)
        return one.key == other.key and all(is_computed_alike(*each) for each in pairs)
    if isinstance(one, ComputedArray) or isinstance(other, ComputedArray):
        return False
    return have_same_bytes(one, other)


def is_same_array(one: StoredArray, other: StoredArray) -> bool:
    """Return whether two arrays are bitwise equal, computing them if need be."""
    if is_computed_alike(one, other):
        return True
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    is_known = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return not is_known and have_same_bytes(np.asarray(one), np.asarray(other))
