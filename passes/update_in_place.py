"""Write the new values of states over the old ones.

    func @step(%p, %m, %g)                     // %p and %m are states
      %m1 = linalg.generic … %m, %g            // elementwise
      %p1 = linalg.generic … %p, %m1
      return %p1, %m1
    →
      %p1, %m1 = call @iree.update(%p, %m, %g) // one loop over all, tied to %p and %m

IREE 3.13 gives every result a buffer of its own, so a step would hold all states twice;
only a dispatch that is tied to an operand writes over it.

Note [readers]: IREE may run what reads an old value and what writes over it at the same
time, unless one depends on the other; a copy for a later reader, too. So only a state
that nobody reads is written over, or which is read only by what the new value is
computed from. The moments of an optimizer are, parameters mostly not: the gradient of
the layer before is computed from them as well.

A function with assertions is left alone, because a call that fails must leave the
states as they were. So is a module with a single state: IREE copies the initial values
of several into one buffer, but starts with a single one where the file is mapped, and
the process that writes there dies.

Requires: linalg (lower-to-linalg), and `graph.kind` on arguments and results. Ensures:
an elementwise chain of ops that ends in new states of one shape is one loop, and no
attributes of the graph dialect are left.
"""

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

from aotc.dialects.functions import current_module, functions_of
from aotc.dialects.lowering import dispatches, foreign
from aotc.mlir import func, ir, linalg

Ties = dict[Any, Any]  # the old state of each new one

# IREE's CPU loader takes 64; GPUs take fewer, and a larger loop gains nothing.
_MOST_TENSORS = 16

_SIDES = ("arg_attrs", "res_attrs")


def run(module: Any) -> bool:
    """Tie the new states of every function to the old ones."""
    changed = False
    functions = functions_of(module).values()
    several = len({name for f in functions for name in _states(f, "arg_attrs")}) > 1
    for function in functions:
        if several and not function.is_external and not _may_fail(function):
            changed |= _tie(function)
        for side in _SIDES:  # nobody reads them from here on, and IREE may not
            if side in function.attributes:
                del function.attributes[side]
                changed = True
    return changed


def _may_fail(function: Any) -> bool:
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "cf.assert":
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    return bool(found)


def _tie(function: Any) -> bool:
    """Write one loop for the states that change together; whether there are any."""
    groups = _groups(function)
    for ties in groups:
        region = Region(ties)  # of what the ones before have left
        sure = {new: old for new, old in ties.items() if region.comes_last(old)}
        if sure and (region := Region(sure)).is_closed():
            region.outline()
    return bool(groups)


def _groups(function: Any) -> list[Ties]:
    """The updates of a function, together where one loop may do them."""
    regions: list[Region] = []
    for new, old in _updates(function).items():
        region = Region({new: old})
        while found := _joined(region, regions):
            region, other = found  # which may be near more of them
            regions.remove(other)
        regions.append(region)
    return [region.ties for region in regions]


def _joined(
    region: "Region", others: list["Region"]
) -> tuple["Region", "Region"] | None:
    """A region that holds another one as well, and that other one."""
    for other in others:
        if other.is_near(region):
            wider = Region({**other.ties, **region.ties})
            if wider.is_closed() and wider.tensors <= _MOST_TENSORS:
                return wider, other
    return None


def _updates(function: Any) -> dict[Any, Any]:
    """New values of states that loops compute, with the arguments of the old ones."""
    arguments, results = (_states(function, side) for side in _SIDES)
    *_, returned = function.entry_block.operations
    found: dict[Any, Any] = {}
    for name, position in results.items():
        new, old = returned.operands[position], function.arguments[arguments[name]]
        fits = _is_loop(new.owner) and new.type == old.type
        if fits and new not in found and not _is_bool(new):
            found[new] = old
    return found


def _states(function: Any, side: str) -> dict[str, int]:
    """The position of each state among the arguments or results."""
    if side not in function.attributes:
        return {}
    rows = [ir.DictAttr(row) for row in ir.ArrayAttr(function.attributes[side])]
    return {
        ir.StringAttr(row["graph.name"]).value: position
        for position, row in enumerate(rows)
        if ir.StringAttr(row["graph.kind"]).value == "state"
    }


# ---- elementwise ops ----------------------------------------------------------------


def _is_loop(op: Any) -> bool:
    """Whether an op computes each element of its one result on its own."""
    if not isinstance(op, linalg.GenericOp) or len(op.results) != 1:
        return False
    kind, body = op.results[0].type, op.regions[0].blocks[0]
    return (
        kind.has_static_shape
        and kind.rank > 0
        and all("parallel" in str(each) for each in op.attributes["iterator_types"])
        and _maps(op)[-1] == _identity(op)
        and not list(body.arguments[len(op.inputs)].uses)
        and all(_is_local(value, body) for each in body for value in each.operands)
    )


def _is_bool(value: Any) -> bool:
    return bool(value.type.element_type == ir.IntegerType.get_signless(1))


def _is_local(value: Any, body: Any) -> bool:
    """Whether an operand comes from the body itself, or is a constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return bool(owner == body)
    return bool(owner.operation.block == body or owner.name == "arith.constant")


def _maps(op: Any) -> list[Any]:
    return [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(op.indexing_maps)]


def _identity(op: Any) -> Any:
    return ir.AffineMap.get_identity(op.results[0].type.rank)


def _reads(op: Any) -> list[tuple[Any, Any]]:
    """The tensors that a loop reads, each with its map; not those of one constant."""
    pairs = zip(op.inputs, _maps(op), strict=False)
    return [(value, indexing) for value, indexing in pairs if _splat(value) is None]


def _splat(value: Any) -> Any:
    """The constant that a tensor is filled with, or None."""
    filled = isinstance(value.owner, linalg.FillOp)
    constant = value.owner.operands[0].owner if filled else None
    return constant if getattr(constant, "name", "") == "arith.constant" else None


# ---- what becomes one loop ----------------------------------------------------------


class Region:
    """Loops over one shape that end in new states, and nothing else uses.

    Args:
        ties: the old state of each new one.
    """

    def __init__(self, ties: Ties) -> None:
        self.ties = ties
        self._results = _collected(ties)
        self._loops = _in_order([value.owner for value in self._results])
        reads = dict.fromkeys(read for loop in self._loops for read in _reads(loop))
        self._reads = [read for read in reads if read[0] not in self._results]
        self._tensors = {x for x, _ in self._reads if x.type.rank} | set(ties)
        self._shape = list(next(iter(ties)).type.shape)

    @property
    def tensors(self) -> int:
        """How many tensors the loop would read or write."""
        return len({value for value, _ in self._reads} | {*self.ties.values()})

    def is_near(self, other: "Region") -> bool:
        """Whether two regions over one shape read one tensor, or one another."""
        return self._shape == other._shape and bool(self._tensors & other._tensors)

    def is_closed(self) -> bool:
        """Whether nothing that uses a result has to be computed before the region."""
        anchor = self._anchor()
        users = [use.owner for new in self.ties for use in new.uses]
        others = [user for user in users if not _is_any_of(user, self._results)]
        return anchor is None or all(map(anchor.operation.is_before_in_block, others))

    def comes_last(self, old: Any) -> bool:
        """Whether all others that read an old state run before; see Note [readers]."""
        block = old.owner
        users = [_in_block(use.owner, block) for use in old.uses]
        others = [user for user in users if not _is_any_of(user, self._results)]
        reads = [value for value, _ in self._reads]
        return all(_depends_on(reads, user, block) for user in others)

    def _anchor(self) -> Any:
        """The op after which all that the region reads is known; None for the start."""
        owners = [value.owner for value, _ in self._reads]
        made = [owner for owner in owners if not isinstance(owner, ir.Block)]
        return _in_order(made)[-1] if made else None

    # ---- what is written in its place -----------------------------------------------

    def outline(self) -> None:
        """Replace the loops by a call of one dispatch, tied to the old states."""
        olds = list(self.ties.values())
        reads = [read for read in self._reads if not self._is_old(read)]
        values = [value for value, _ in reads] + olds
        with self._point(), self._loops[-1].location:
            text = self._text(reads, olds)
            found = foreign.call("update", values, [old.type for old in olds], text)
        for new, tied in zip(self.ties, found, strict=True):
            new.replace_all_uses_with(tied)
        for loop in reversed(self._loops):
            if not list(loop.results[0].uses):
                loop.operation.erase()

    def _point(self) -> Any:
        """As early as can be: others may need the results."""
        anchor = self._anchor()
        if anchor is None:
            return ir.InsertionPoint.at_block_begin(self._loops[0].operation.block)
        return ir.InsertionPoint.after(anchor)

    def _is_old(self, read: tuple[Any, Any]) -> bool:
        """Whether a loop reads the element of an old state that it writes."""
        value, indexing = read
        return value in self.ties.values() and indexing == _identity(self._loops[0])

    def _text(self, reads: list[tuple[Any, Any]], olds: list[Any]) -> list[str]:
        """The dispatch of one loop that does what all of them did."""
        kinds = [value.type for value, _ in reads] + [old.type for old in olds]
        with ir.InsertionPoint(current_module().body):
            apart = func.FuncOp("merged", (kinds, []))
        with ir.InsertionPoint(apart.add_entry_block()):
            text = dispatches.in_place(self._merged(reads, olds, apart.arguments))
        apart.operation.erase()
        return text

    def _merged(
        self, reads: list[tuple[Any, Any]], olds: list[Any], given: Sequence[Any]
    ) -> Any:
        """One loop over `given`: the tensors of `reads`, then the old states."""
        identity = _identity(self._loops[0])
        maps = [m for _, m in reads] + [identity] * len(olds)
        whole = linalg.GenericOp(
            [old.type for old in olds],
            list(given[: len(reads)]),
            list(given[len(reads) :]),
            ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
            self._loops[0].attributes["iterator_types"],
        )
        elements = [value.type.element_type for value in given]
        block = whole.regions[0].blocks.append(*elements)
        known = dict(
            zip([*reads, *((o, identity) for o in olds)], block.arguments, strict=True)
        )
        with ir.InsertionPoint(block):
            for loop in self._loops:
                known[loop.results[0], identity] = _computed(loop, known)
            linalg.YieldOp([known[new, identity] for new in self.ties])
        return whole


def _collected(ties: Ties) -> set[Any]:
    """What the loops of the ties compute, and those whose results only these read."""
    results = set(ties)
    while True:
        reads = [read for value in results for read in _reads(value.owner)]
        made = {x for x, m in reads if _is_loop(x.owner) and m == _identity(x.owner)}
        more = {
            value
            for value in made - results
            if _is_spread(value) or _feeds_only(value, results)
        }
        if not more:
            return results
        results |= more


def _is_spread(value: Any) -> bool:
    """Whether a tensor is made of numbers only: every region computes it for itself."""
    return all(not read.type.rank for read, _ in _reads(value.owner))


def _feeds_only(value: Any, results: set[Any]) -> bool:
    return all(_is_any_of(use.owner, results) for use in value.uses)


def _depends_on(values: Sequence[Any], op: Any, block: Any) -> bool:
    """Whether values of a block are computed from results of one of its ops."""
    rest, seen = list(values), set()
    while rest:
        made_by = rest.pop().owner
        if isinstance(made_by, ir.Block):
            continue
        owner = _in_block(made_by, block)
        if owner == op:
            return True
        if owner not in seen and op.operation.is_before_in_block(owner.operation):
            rest += _operands(owner)
        seen.add(owner)
    return False


def _operands(op: Any) -> list[Any]:
    """What an op reads, in its regions too."""
    nested = [o for region in op.regions for body in region for o in body.operations]
    return [*op.operands, *(value for each in nested for value in _operands(each))]


def _in_block(op: Any, block: Any) -> Any:
    """The op of a block that an op is, or stands in."""
    while op.operation.block != block:
        op = op.operation.parent.opview
    return op


def _is_any_of(op: Any, results: set[Any]) -> bool:
    """Whether an op computes one of `results`."""
    return any(result in results for result in op.results)


def _in_order(ops: Sequence[Any]) -> list[Any]:
    """Ops of one block as they stand in it."""

    def compared(one: Any, other: Any) -> int:
        if one == other:
            return 0
        return -1 if one.operation.is_before_in_block(other.operation) else 1

    return sorted(ops, key=cmp_to_key(compared))


def _computed(loop: Any, known: dict[Any, Any]) -> Any:
    """Copy the body of a loop to the insertion point; returns the element it yields."""
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


def _copy(constant: Any) -> Any:
    return constant.operation.clone().results[0]
