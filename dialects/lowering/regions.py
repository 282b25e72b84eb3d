"""Elementwise loops over one shape that end in new states, as one dispatch."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from aotc.dialects import iree_text
from aotc.dialects.functions.functions import callee_of, current_module, find
from aotc.dialects.functions.walking import in_order, latest_op
from aotc.dialects.iree_text import dispatches
from aotc.dialects.lowering.iterators import has_reduction
from aotc.dialects.lowering.scalars import never
from aotc.mlir import AffineMap, Block, Operation, Value, arith, func, ir, linalg

Op = TypeVar("Op", bound=Operation)
Ties = dict[Value, Value]  # the old state of each new one
Mark = tuple[int | Value, ...]  # a shape, and a tensor that regions over it read
Read = tuple[Value, AffineMap]  # a tensor that a loop reads, and with which map

# ---- elementwise ops ----------------------------------------------------------------


def is_loop(op: Operation) -> bool:
    """Return whether an op is an elementwise linalg.generic of static shape."""
    if not isinstance(op, linalg.GenericOp) or len(op.results) != 1:
        return False
    kind, body = op.results[0].type, op.regions[0].blocks[0]
    return (
        kind.has_static_shape
        and kind.rank > 0
        and not has_reduction(op.attributes["iterator_types"])
        and _maps(op)[-1] == _identity(op)
        and not any(True for _ in body.arguments[len(op.operands) - 1].uses)
        and all(_is_local(value, body) for each in body for value in each.operands)
    )


def is_bool(value: Value) -> bool:
    """Return whether a value has elements of type i1."""
    return bool(value.type.element_type == ir.IntegerType.get_signless(1))


def _is_local(value: Value, body: Block) -> bool:
    """Return whether an operand is defined in the body itself, or is a constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return bool(owner == body)
    return bool(owner.operation.block == body or owner.name == "arith.constant")


def _maps(op: linalg.GenericOp) -> tuple[AffineMap, ...]:
    """Return the indexing maps of a linalg.generic."""
    return _maps_in(op.attributes["indexing_maps"])


@lru_cache(maxsize=2**14)
def _maps_in(maps: ir.Attribute) -> tuple[AffineMap, ...]:
    """Return the affine maps in an attribute."""
    return tuple(ir.AffineMapAttr(each).value for each in ir.ArrayAttr(maps))


def _identity(op: Operation) -> AffineMap:
    """Return the identity map over the axes of an op's result."""
    return ir.AffineMap.get_identity(op.results[0].type.rank)


def _reads(op: linalg.GenericOp) -> list[Read]:
    """Return (tensor, map) of each input of a loop but those filled by a constant."""
    pairs = zip(list(op.operands)[:-1], _maps(op), strict=False)
    return [(value, indexing) for value, indexing in pairs if _splat(value) is None]


def _splat(value: Value) -> Operation | None:
    """Return the arith.constant that a tensor is filled with, or None."""
    filled = isinstance(value.owner, linalg.FillOp)
    constant = value.owner.operands[0].owner if filled else None
    return constant if getattr(constant, "name", "") == "arith.constant" else None


# ---- what becomes one loop ----------------------------------------------------------


class UpdateRegion:
    """Loops over one shape that compute only new states, to be merged to one loop.

    Args:
        ties: the old state of each new one.
        parts: regions of some of the ties, whose loops are loops of this one.
    """

    def __init__(self, ties: Ties, parts: "Sequence[UpdateRegion]" = ()) -> None:
        self.ties = ties
        self.after: list[Value] = []  # what is computed before the region is run
        self._block = next(iter(ties.values())).owner
        known = {y: reads for part in parts for y, reads in part._results.items()}
        self._results: dict[Value, list[Read]] = _loop_results(ties, known)
        self._loops: list[linalg.GenericOp] = in_order(
            [value.owner for value in self._results]
        )
        by_loop = (self._results[loop.results[0]] for loop in self._loops)
        reads = dict.fromkeys(chain.from_iterable(by_loop))
        self._reads = [read for read in reads if read[0] not in self._results]
        self._tensors = {x for x, _ in self._reads if x.type.rank} | set(ties)
        self._shape = list(next(iter(ties)).type.shape)

    def wait_for(self, values: Sequence[Value]) -> None:
        """Set the values, of static shapes, to be computed before the region runs."""
        self.after = [value for value in values if value not in self.ties]

    @property
    def tensors(self) -> int:
        """Number of tensors that the merged loop would read or write."""
        return len({value for value, _ in self._reads} | {*self.ties.values()})

    @property
    def marks(self) -> set[Mark]:
        """Keys (shape and tensor) by which regions that may be merged are found.

        Such regions read one tensor, or one another.
        """
        return {(*self._shape, tensor) for tensor in self._tensors}

    def is_closed(self) -> bool:
        """Return whether other users of the results come after the region's inputs."""
        anchor = self._anchor()
        users = [use.owner for new in self.ties for use in new.uses]
        others = [user for user in users if not self._computes(user)]
        return anchor is None or all(map(anchor.operation.is_before_in_block, others))

    def readers(self) -> list[Operation]:
        """Return the other ops of the block that read old states; see `readers_of`."""
        return readers_of([*self.ties.values()], self._block, self._computes)

    def with_ties(self, ties: Ties) -> "UpdateRegion":
        """Return a new region for some of the states, as they are computed now."""
        return UpdateRegion(ties)

    @property
    def computed_inputs(self) -> list[Value]:
        """Values that the region reads from ops outside of it."""
        reads = dict.fromkeys(value for value, _ in self._reads)
        return [value for value in reads if not isinstance(value.owner, ir.Block)]

    def _computes(self, op: Operation) -> bool:
        """Return whether an op is one of the region's loops."""
        return any(result in self._results for result in op.results)

    def _anchor(self) -> Operation | None:
        """Return the last op that the region depends on; None if it depends on none."""
        return latest_op([*self.computed_inputs, *self.after])

    # ---- what is written in its place -----------------------------------------------

    def outline(self) -> list[Value]:
        """Replace the loops by one dispatch that updates states in place; return them.

        Returns:
            The new states.
        """
        olds = list(self.ties.values())
        reads = [read for read in self._reads if not self._is_old(read)]
        values = [*(value for value, _ in reads), *self.after, *olds]
        with self._insertion_point(), self._loops[-1].location:
            text = self._text(reads, olds)
            found = iree_text.call("update", values, [old.type for old in olds], text)
        for new, tied in zip(self.ties, found, strict=True):
            new.replace_all_uses_with(tied)
        for loop in reversed(self._loops):
            if not list(loop.results[0].uses):
                loop.operation.erase()
        return found

    def _insertion_point(self) -> ir.InsertionPoint:
        """Return the earliest insertion point, as others may need the results."""
        anchor = self._anchor()
        if anchor is None:
            return ir.InsertionPoint.at_block_begin(self._loops[0].operation.block)
        return ir.InsertionPoint.after(anchor)

    def _is_old(self, read: Read) -> bool:
        """Return whether a read is of an old state, at the index it is written at."""
        value, indexing = read
        return value in self.ties.values() and indexing == _identity(self._loops[0])

    def _text(self, reads: list[Read], olds: list[Value]) -> list[str]:
        """Return the text body of a dispatch with all loops merged into one."""
        numbers = [
            ir.RankedTensorType.get([], value.type.element_type) for value in self.after
        ]
        before, last = [value.type for value, _ in reads], [old.type for old in olds]
        with ir.InsertionPoint(current_module().body):
            apart = func.FuncOp("merged", ([*before, *numbers, *last], []))
        with ir.InsertionPoint(apart.add_entry_block()):
            merged = self._merge_loops(reads, olds, apart.arguments)
        kinds = [*before, *(value.type for value in self.after), *last]
        text = dispatches.in_place(merged, kinds)
        apart.operation.erase()
        return text

    def _merge_loops(
        self, reads: list[Read], olds: list[Value], operands: Sequence[Value]
    ) -> linalg.GenericOp:
        """Emit the loops as one over tensors of `reads`, scalars and old states."""
        identity, first = _identity(self._loops[0]), len(operands) - len(olds)
        number = ir.AffineMap.get(identity.n_dims, 0, [])
        maps = [m for _, m in reads] + [number] * len(self.after)
        maps += [identity] * len(olds)
        whole = linalg.GenericOp(
            [old.type for old in olds],
            list(operands[:first]),
            list(operands[first:]),
            ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
            self._loops[0].attributes["iterator_types"],
        )
        elements = [value.type.element_type for value in operands]
        block = whole.regions[0].blocks.append(*elements)
        arguments = list(block.arguments)
        known = dict(zip(reads, arguments, strict=False))
        known |= {
            (old, identity): argument
            for old, argument in zip(olds, arguments[first:], strict=True)
        }
        with ir.InsertionPoint(block):
            for loop in self._loops:
                known[loop.results[0], identity] = _copy_body(loop, known)
            results = [known[new, identity] for new in self.ties]
            for merely_read in arguments[len(reads) : first]:
                results = [
                    arith.select(never(merely_read), before, result)
                    for result, before in zip(results, arguments[first:], strict=True)
                ]
            linalg.YieldOp(results)
        return whole


def _loop_results(
    ties: Ties, known: Mapping[Value, list[Read]]
) -> dict[Value, list[Read]]:
    """Find loops that only feed new states; return what each reads, by its result.

    Args:
        ties: the old state of each new one.
        known: some of what is asked for.

    Returns:
        What each of these loops reads, by its result.
    """
    results = {**known, **{y: _reads(y.owner) for y in ties if y not in known}}
    rest = list(results)
    while rest:
        for value, indexing in results[rest.pop()]:
            fits = value not in results and is_loop(value.owner)
            if fits and indexing == _identity(value.owner):
                reads = _reads(value.owner)
                # What other loops read, too, is asked for again when they are here.
                if _reads_only_scalars(reads) or _feeds_only(value, results):
                    results[value] = reads
                    rest.append(value)
    return results


def _reads_only_scalars(reads: Sequence[Read]) -> bool:
    """Return whether a loop reads only scalars, so that any region may recompute it."""
    return all(not value.type.rank for value, _ in reads)


def _feeds_only(value: Value, results: Container[Value]) -> bool:
    """Return whether all users of a value are loops with one of these results."""
    users = [use.owner for use in value.uses]
    return all(any(y in results for y in user.results) for user in users)


def readers_of(
    olds: Sequence[Value], block: Block, is_own: Callable[[Operation], bool]
) -> list[Operation]:
    """Return the ops of a block that read old states, or may: see Note [fusion].

    A return of an old state is one.

    Args:
        olds: the states.
        block: that has them.
        is_own: whether an op is part of what writes over them, and no reader.
    """
    rest, found = [*olds], {}
    while rest:
        value = rest.pop()
        for use in value.uses:
            op = in_block(use.owner, block)
            key = op.results[0] if op.results else None  # hashes of ops do not last
            is_copied = isinstance(op, func.ReturnOp) and is_loop(value.owner)
            if key not in found and not is_copied and not is_own(op):
                found[key] = op
                rest += [] if _is_root(op) else op.results
    return list(found.values())


_COPIES = ("linalg.fill", "linalg.transpose", "linalg.broadcast", "linalg.copy")


def _is_root(op: Operation) -> bool:
    """Return whether an op is not fused into readers: a kernel, reduction or linalg op.

    Note [fusion]: IREE computes elementwise ops where they are read, perhaps several
    times over, and views not at all. Products and reductions are computed once, and so
    is what a kernel of ours does.
    """
    if isinstance(op, func.CallOp):
        return iree_text.is_kernel(find(callee_of(op)))
    if isinstance(op, linalg.GenericOp):
        return has_reduction(op.attributes["iterator_types"])
    name = op.operation.name
    return name.startswith("linalg.") and name not in _COPIES


def in_block(op: Operation, block: Block) -> Operation:
    """Return the op of `block` that is `op`, or contains it."""
    while op.operation.block != block:
        op = op.operation.parent.opview
    return op


def _copy_body(loop: linalg.GenericOp, known: dict[Read, Value]) -> Value:
    """Emit a copy of a loop's body; return the element it yields."""
    body, mapping = loop.regions[0].blocks[0], {}
    reads = zip(loop.inputs, _maps(loop), strict=False)
    for argument, (value, indexing) in zip(body.arguments, reads, strict=False):
        splat = _splat(value)
        mapping[argument] = _copy(splat) if splat else known[value, indexing]
    for op in body.operations:
        for value in op.operands:
            if value not in mapping:  # a constant from around the loop
                mapping[value] = _copy(value.owner)
        if isinstance(op, linalg.YieldOp):
            return mapping[op.operands[0]]
        clone = op.operation.clone()
        for number, value in enumerate(op.operands):
            clone.operands[number] = mapping[value]
        mapping.update(zip(op.results, clone.results, strict=True))
    raise AssertionError("a body ends in a yield")


def _copy(constant: Operation) -> Value:
    """Emit a copy of a constant; return its result."""
    copy: Operation = constant.operation.clone()
    return copy.results[0]
