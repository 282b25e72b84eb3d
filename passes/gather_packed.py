"""Let gathers from a weight read the packing that products by it read.

    %y = graph.gather(%w, %i)                    %p = pack(%w)
    %p = pack(%w)                           →    %n = graph.minimum(%i, N - 1)
    %z = call @contraction(%x, %p)               %y = graph.gather(%p, %n / C, %n % C)
                                                 %z = call @contraction(%x, %p)

A decoder whose head is its embedding reads one weight in two orders, which the build
would store beside each other: of GPT-2 that is 154 MB. A packing is padded, reshaped
and transposed, so each axis of it is a part of one axis of the weight, and an index is
a quotient and a remainder. A lookup then reads elements that are apart, as many as it
gives: a few in comparison with the product, which reads all. Integers of fewer than 8
bits are read as words (`gather_words`).

Requires: that the build stores what is computed of weights (`fold-parameters`).
Nothing changes where something else reads the weight as it is, in any entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.functions.entries import entries_of, weight_ports
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.walking import clone
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.permutations import permute
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.types import Shape, Tensor
from aotc.kernels.capabilities import NoTargetKernels, capabilities_of
from aotc.mlir import Module, Value, func
from aotc.passes.base import Pass, Unit
from aotc.passes.fold_parameters import folds_parameters
from aotc.passes.gather_words import read_from_words

Chain = tuple[GraphOp, ...]  # ops that pack a weight, in order
_LONGEST = 8  # ops of a chain; packings have five


class GatherPacked(Pass):
    """Make gathers from a weight read its packed copy, if nothing reads the plain
    weight.
    """

    name = "gather-packed"
    level = 2
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any gather was
        rewritten.
        """
        if not folds_parameters(unit.program):
            return False
        changed, capabilities = False, capabilities_of(unit.target)
        functions = functions_of(unit.module)
        for values in _weights(unit.module).values():
            if not isinstance(capabilities, NoTargetKernels):
                changed |= read_from_words(values, functions, capabilities)
            reads = [_reads_of(value) for value in values]
            known = [each for each in reads if each is not None]
            chains = [chain for each in known for chain in each.chains]
            gathers = [gather for each in known for gather in each.gathers]
            if len(known) < len(reads) or not chains or not gathers:
                continue
            packing = _Packing.of(Tensor.of(values[0]), chains[0])
            if packing is not None and all(map(packing.can_be_read, gathers)):
                for gather in gathers:
                    packing.read_by(gather)
                changed = True
        return changed


def _weights(module: Module) -> dict[str, list[Value]]:
    """Return, for each weight of a program by name, its argument in every entry."""
    functions, found = functions_of(module), dict[str, list[Value]]()
    for entry in entries_of(module):
        for value, port in weight_ports(functions[entry.name], entry):
            found.setdefault(port.name, []).append(value)
    return found


@dataclass(frozen=True)
class _WeightReaders:
    """The gathers from a weight in an entry, and the op chains that pack it for
    kernels.

    Args:
        gathers: that read it as it is.
        chains: of ops that pack it for kernels.
    """

    gathers: list[Gather]
    chains: list[Chain]


def _reads_of(weight: Value) -> _WeightReaders | None:
    """Return a weight's gathers and packing chains; None if anything else reads it."""
    found = _WeightReaders([], [])
    rest: list[tuple[Value, Chain]] = [(weight, ())]
    for value, chain in rest:  # which grows
        for use in value.uses:
            op = use.owner.opview
            if isinstance(op, Transpose | Reshape | Pad) and len(chain) < _LONGEST:
                rest.append((op.results[0], (*chain, op)))
            elif isinstance(op, Gather) and not chain and weight not in op.indices:
                found.gathers.append(op)
            elif chain and isinstance(op, func.CallOp):
                found.chains.append(chain)
            else:
                return None
    return found


@dataclass(frozen=True)
class _PackedAxis:
    """An axis of a packed layout: a strided piece of one axis of the weight.

    Args:
        axis: of the weight.
        stride: how far apart its elements are along that.
        size: how many there are.
    """

    axis: int
    stride: int
    size: int


@dataclass(frozen=True)
class _Packing:
    """The layout of a packed weight in terms of the weight's axes; no axis has size 1.

    Args:
        chain: the ops that make it.
        parts: its axes.
        sizes: of the weight, with what is padded.
    """

    chain: Chain
    parts: tuple[_PackedAxis, ...]
    sizes: Shape

    @classmethod
    def of(cls, weight: Tensor, chain: Chain) -> _Packing | None:
        """Derive the packed layout from a chain of ops; None if it merges axes."""
        sizes: Any = weight.shape
        parts: tuple[_PackedAxis, ...] | None = tuple(
            _PackedAxis(axis, 1, size) for axis, size in enumerate(sizes)
        )
        for op in chain:
            if parts is not None:
                parts = _after(op, parts)
        if parts is None or 1 in sizes or len({*parts}) < len(parts):
            return None
        padded = [1] * len(sizes)
        for part in parts:
            padded[part.axis] *= part.size
        return cls(chain, parts, tuple(padded))

    def can_be_read(self, gather: Gather) -> bool:
        """Return whether a gather has one clipped index of i32 or i64, so that it can
        be rewritten.
        """
        at, (index, *others) = IndexMap.of(gather), gather.indices
        is_plain = at.mode == "clip" and not others and not at.shared_axes
        return is_plain and Tensor.of(index).dtype in ("i32", "i64")

    def read_by(self, gather: Gather) -> None:
        """Replace a gather from the weight by a gather from the packed copy."""
        at, result = IndexMap.of(gather), Tensor.of(gather.y)
        (axis,) = at.axes
        with before(gather):
            b = Builder()
            packed: Value = gather.x
            for op in self.chain:
                (packed,) = clone(op, [packed])
            read = b.gather(packed, *self._indices(b, gather), **self._map(at))
            sizes = {r: self.sizes[at.source(r)] for r in at.kept}
            padded = tuple(sizes.get(r, n) for r, n in enumerate(result.shape))
            found = b.to_shape(read, padded)
            if padded != result.shape:
                found = b.cut_to(found, result.shape)
        gather.y.replace_all_uses_with(found)
        gather.operation.erase()

    def _indices(self, b: Builder, gather: Gather) -> list[Value]:
        """Emit the indices into each packed axis that the gathered weight axis is split
        into.
        """
        (axis,), (index,) = gather.axes, gather.indices
        size: Any = Tensor.of(gather.x).shape[axis]
        least = b.maximum(index, b.full_like(index, 0))
        inside = b.minimum(least, b.full_like(index, size - 1))
        found = []
        for part in self.parts:
            if part.axis == axis:
                place = inside
                if part.stride > 1:
                    place = b.divide(place, b.full_like(index, part.stride))
                if part.stride * part.size < self.sizes[axis]:
                    count = b.full_like(index, part.size)
                    whole = b.multiply(b.divide(place, count), count)
                    place = b.subtract(place, whole)
                found.append(place)
        return found

    def _map(self, index_map: IndexMap) -> dict[str, Any]:
        """Return the axis attributes of the gather from the packed copy."""
        (axis,) = index_map.axes
        axes: list[int | _PackedAxis] = []  # of the result: those of indices, and parts
        for r in range(index_map.rank):
            if r in index_map.along:
                axes.append(r)
            else:
                own = [part for part in self.parts if part.axis == index_map.source(r)]
                own.sort(key=lambda part: -part.stride)
                axes += own
        return {
            "axes": tuple(n for n, x in enumerate(self.parts) if x.axis == axis),
            "along": tuple(axes.index(r) for r in index_map.along),
            "kept": tuple(axes.index(x) for x in self.parts if x.axis != axis),
            "mode": index_map.mode,
        }


def _after(op: GraphOp, parts: Sequence[_PackedAxis]) -> tuple[_PackedAxis, ...] | None:
    """Return the packed axes behind a chain op, given those before it; None if it
    merges any.
    """
    if isinstance(op, Transpose):
        return permute(parts, op.permutation)
    sizes: Any = Tensor.of(op.results[0]).shape
    if isinstance(op, Reshape):
        return _split(parts, sizes)
    assert isinstance(op, Pad)
    if any(op.low) or any(op.interior):
        return None
    found = []
    for part, size in zip(parts, sizes, strict=True):
        is_whole = sum(each.axis == part.axis for each in parts) == 1
        if size != part.size and not (is_whole and size > part.size):
            return None
        found.append(_PackedAxis(part.axis, part.stride, size))
    return tuple(found)


def _split(
    parts: Sequence[_PackedAxis], sizes: Sequence[int]
) -> tuple[_PackedAxis, ...] | None:
    """Return packed axes after a reshape that splits axes; None if it merges any."""
    found, rest = list[_PackedAxis](), [*sizes]
    for part in parts:
        left = part.size
        while left > 1:
            if not rest or left % rest[0]:
                return None
            left //= rest[0]
            found.append(_PackedAxis(part.axis, part.stride * left, rest.pop(0)))
    return None if rest else tuple(found)
