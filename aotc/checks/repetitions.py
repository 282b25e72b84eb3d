"""Blocks of an entry that repeat the code of others, and the identity of their weights.

A block that is not evaluated is known to be right if one that was evaluated is compiled
to the same ops and kernels, makes its stored weights by the same ops of its own, and if
the archive of the bundle holds what these ops give. The last of these is seen by
computing them again: it takes a look at each byte of the weights, and no calls.

The code of a block is read where the passes end: what its values are computed from, up
to the values that go from block to block, in the module that crosses to IREE.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from aotc.checks.blocks import OpBlock
from aotc.checks.work import WorkBudget
from aotc.dialects.functions.entries import Port
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.lowering.sources import operands_of
from aotc.mlir import Block, Function, Operation, Value, ir
from aotc.packager import PackedWeights
from aotc.passes.base import Unit
from aotc.programs.computed_arrays import (
    ArrayOrigin,
    ComputedArray,
    StoredArray,
    is_computed_alike,
    likeness_key,
)
from aotc.programs.parameter_archive import ArchiveEntry, have_same_bytes, read_archive

Names = dict[Value, Hashable]


@dataclass(frozen=True)
class BlockCode:
    """The compiled code of a block of ops, as a comparable key, and the weights it
    reads.

    Args:
        form: equal for blocks that differ in nothing but the numbers of their weights.
        weights: the names of the stored weights that it reads.
    """

    form: Hashable
    weights: tuple[str, ...]


class Origins:
    """Looks up which computation of source arrays made a stored array.

    Args:
        known: the origins of these.
    """

    def __init__(self, known: Iterable[ArrayOrigin]) -> None:
        self._known = {id(each.array): each for each in known}

    def computation_of(self, array: StoredArray) -> ComputedArray | None:
        """Return the lazy computation that made an array; None for a source array."""
        if isinstance(array, ComputedArray):
            return array
        known = self._known.get(id(array))
        return None if known is None else known.computed

    def is_right(self, array: StoredArray) -> bool:
        """Return whether a stored array equals what its computation gives."""
        made = self.computation_of(array)
        if made is None:
            return True
        if isinstance(array, np.ndarray) and not have_same_bytes(
            array, np.asarray(made)
        ):
            return False
        return all(map(self.is_right, made.leaves))


# ---- code ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Lowered:
    """An entry after all passes, compiled to return the values between its blocks.

    Args:
        unit: that has gone through them.
        name: of the entry.
    """

    unit: Unit
    name: str

    @property
    def function(self) -> Function:
        """The function of the entry in the lowered module."""
        return functions_of(self.unit.module)[self.name]

    @property
    def ports(self) -> Sequence[Port]:
        """The ports of the function's arguments."""
        return self.unit.program.entry(self.name).arguments

    @property
    def parameters(self) -> Mapping[str, StoredArray]:
        """The weights of the lowered program by name."""
        return self.unit.program.parameters

    @cached_property
    def origins(self) -> Origins:
        """The origins of weights that passes have computed."""
        return Origins([x for x in self.unit.notes if isinstance(x, ArrayOrigin)])


def codes_of(
    blocks: Sequence[OpBlock],
    ports: Mapping[Value, Port],
    lowered: Lowered,
    returned: Sequence[Value],
    sources: Mapping[str, StoredArray],
) -> list[BlockCode | None]:
    """Return a key for each block's compiled code; None where its ops cannot be found.

    Args:
        blocks: of the graph.
        ports: what the arguments of the entry are in the graph.
        lowered: what became of the entry.
        returned: the values of the graph that it returns, in order.
        sources: the arrays of the weights before the passes.
    """
    function = lowered.function
    if len(function.regions[0].blocks) != 1:
        return [None] * len(blocks)  # loops that calls end, as blocks and branches
    *_, end = function.entry_block.operations
    lowered_of = dict(zip(returned, end.operands, strict=True))
    reader = _BlockReader(lowered, lowered_of, sources)
    return [reader.code_of(block, ports) for block in blocks]


class _BlockReader:
    """Finds the lowered ops of each block, and makes keys that equal code shares.

    Args:
        lowered: the entry.
        lowered_of: the lowered values, by those of the graph that blocks give.
        sources: the arrays of the weights before the passes.
    """

    def __init__(
        self,
        lowered: Lowered,
        lowered_of: Mapping[Value, Value],
        sources: Mapping[str, StoredArray],
    ) -> None:
        self._lowered_of, self._sources = lowered_of, sources
        self._parameters, self._origins = lowered.parameters, lowered.origins
        block = lowered.function.entry_block
        self._ports = dict(zip(block.arguments, lowered.ports, strict=True))
        self._ops = [*block.operations]
        self._place_of = {x: n for n, op in enumerate(self._ops) for x in op.results}

    def code_of(self, block: OpBlock, ports: Mapping[Value, Port]) -> BlockCode | None:
        """Return the key of a block's lowered code; None if a result is not
        returned.
        """
        if not all(value in self._lowered_of for value in (*block.given, *block.taken)):
            return None
        given = [self._lowered_of[value] for value in block.given]
        arguments = _arguments_read(block)
        own = [ports[value].name for value in arguments]
        names = self._names_of_others(block, given)
        ops = [self._ops[at] for at in sorted(self._op_indices(given, names))]
        read = [*dict.fromkeys(x for op in ops for x in operands_of(op)), *given]
        taken = {x: self._ports[x] for x in read if x in self._ports}
        names |= {x: self._key_of_argument(port, own) for x, port in taken.items()}
        rows = tuple(_key_of_op(op, names) for op in ops)
        weights = tuple(x.name for x in taken.values() if x.kind == "weight")
        code = rows, tuple(names[x] for x in given)
        return BlockCode((_key_in_graph(block, arguments, ports), code), weights)

    def _names_of_others(self, block: OpBlock, block_results: Sequence[Value]) -> Names:
        """Map lowered values that other blocks give to names; those that this block
        reads are numbered.
        """
        others = {x for x in self._lowered_of.values() if x not in block_results}
        beside = {x: ("beside", self._place_of.get(x)) for x in others}
        taken = {self._lowered_of[x]: ("taken", n) for n, x in enumerate(block.taken)}
        return {**beside, **taken}

    def _op_indices(self, given: Iterable[Value], known: Names) -> set[int]:
        """Return the indices of lowered ops that compute `given` from `known`
        values.
        """
        found, rest = set[int](), [*given]
        while rest:
            value = rest.pop()
            place = self._place_of.get(value)
            if place is not None and value not in known and place not in found:
                found.add(place)
                rest += operands_of(self._ops[place])
        return found

    def _key_of_argument(self, port: Port, own_names: Sequence[str]) -> Hashable:
        """Return an argument's key, relative to a block whose arguments have
        `own_names`.
        """
        if port.kind == "weight":
            known = self._sources
            arrays = [(n, known[x]) for n, x in enumerate(own_names) if x in known]
            return self._key_of_stored_array(self._parameters[port.name], arrays)
        if port.name in own_names:
            return port.kind, own_names.index(port.name)
        return port.kind, port.name

    def _key_of_stored_array(
        self, array: StoredArray, own_weights: Sequence[tuple[int, StoredArray]]
    ) -> Hashable:
        """Return a key of a stored weight, as derived from a block's own weights.

        Arrays that derive from none of these have a key of their type and first bytes.
        """
        # an equal one of another layer may stand for it
        for number, each in own_weights:
            if is_computed_alike(each, array):
                return "own", number
        made = self._origins.computation_of(array)
        if made is not None:
            return made.key, tuple(
                self._key_of_stored_array(x, own_weights) for x in made.leaves
            )
        return "other", likeness_key(array)


def _arguments_read(block: OpBlock) -> list[Value]:
    """Return the arguments of the entry that the ops of a block read, in order."""
    read = (value for op in (*block.stored, *block.ops) for value in op.operands)
    return [x for x in dict.fromkeys(read) if isinstance(x.owner, ir.Block)]


def _key_in_graph(
    block: OpBlock, arguments: Sequence[Value], ports: Mapping[Value, Port]
) -> Hashable:
    """Return a key of a block's graph ops, with inputs and arguments numbered.

    Its kind does not say what it computes of weights alone.
    """
    names: Names = {value: ("taken", n) for n, value in enumerate(block.taken)}
    names |= {value: (ports[value].kind, n) for n, value in enumerate(arguments)}
    ops = (*block.stored, *block.ops)
    rows = tuple(_key_of_op(op, names) for op in ops)
    return rows, tuple(names[value] for value in block.given)


def _key_of_op(op: Operation, names: Names) -> Hashable:
    """Return a key that equal ops of equal operands share; add its results to
    `names`.
    """
    operands = tuple(names[value] for value in op.operands)
    regions = tuple(
        tuple(_key_of_basic_block(block, names) for block in region)
        for region in op.regions
    )
    for value in op.results:
        names[value] = ("made", len(names))
    return (
        op.operation.name,
        tuple((name, op.attributes[name]) for name in sorted(op.attributes)),
        tuple(value.type for value in op.results),
        operands,
        regions,
    )


def _key_of_basic_block(block: Block, names: Names) -> Hashable:
    """Return a key of a basic block; add its arguments and results to `names`."""
    for value in block.arguments:
        names[value] = ("made", len(names))
    types = tuple(value.type for value in block.arguments)
    return types, tuple(_key_of_op(op, names) for op in block.operations)


# ---- weights ------------------------------------------------------------------------


@dataclass
class StoredWeights:
    """Compares the weights stored in a bundle with the ones that passes computed.

    Args:
        packed: the weights of the bundle.
        target: id of the variant that reads them.
        lowered: the code, with what the passes have made of the sources.
    """

    packed: PackedWeights
    target: str
    lowered: Lowered
    _opened: dict[str, dict[str, ArchiveEntry]] = field(default_factory=dict)

    def elements_to_read(self, names: Iterable[str]) -> float:
        """Return how many elements of the named weights are not compared yet."""
        left, arrays = {*names} - self.packed.compared, self.lowered.parameters
        return float(sum(prod(arrays[name].shape) for name in left))

    def are_stored(self, names: Iterable[str]) -> bool:
        """Return whether the bundle stores each weight as made by the same ops."""
        return all(self._path_of(name) is not None for name in names)

    def first_wrong(self, names: Iterable[str], work: WorkBudget) -> str | None:
        """Compare named weights with their sources; return the first wrong one or None.

        Raises:
            NothingToCompare: to compute them again would take too much.
        """
        for name in names:
            if name not in self.packed.compared:
                work.take(self.elements_to_read([name]))
                array = self.lowered.parameters[name]
                if not self.lowered.origins.is_right(array):
                    return name
                if not have_same_bytes(self._stored(name), np.asarray(array)):
                    return name
                self.packed.compared.add(name)
        return None

    def _path_of(self, name: str) -> str | None:
        """Return the path of the archive with a weight; None if it holds another
        array.
        """
        array = self.lowered.parameters[name]
        for each in self.packed.weights:
            held = each.parameters.get(name)
            if self.target in each.required_by and held is not None:
                return each.path if is_computed_alike(held, array) else None
        return None

    def _stored(self, name: str) -> np.ndarray:
        """Return a weight as the archive holds it."""
        path = self._path_of(name)
        assert path is not None
        if path not in self._opened:
            self._opened[path] = read_archive(self.packed.bundle / path)
        array = self.lowered.parameters[name]
        return self._opened[path][name].array(array.dtype, array.shape)
