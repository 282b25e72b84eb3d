"""Workspaces of entries, kept between calls.

What an entry computes on the way lies in one block of memory as a rule, or in several
if a barrier or a check parts it. IREE's stream phase allocates blocks in each call, and
gives them back at its end. The pool of local-task keeps those of up to 64 MiB for later
calls (IREE 3.13, task_device.c); a larger one goes back to the system, and the next
call pays for every page again, which took a tenth of a call of a U-Net. The pools of
CUDA and HIP keep none at all, as IREE makes them (cuda_device.c: its release threshold
is 0): the driver maps all of it anew in each call. So the module keeps such blocks in
globals that all of its entries share, one for blocks that an entry needs one after the
other: a module runs one call at a time (`aotc.runtime.lifetime`).

The first call that needs a block allocates it, and one that needs less takes it, so
that a model never holds more than its largest entry needs. After several calls of
another kind in a row the loader has them given back (`aotc.runtime.module`).

Blocks whose size depends on a call, and those inside of loops, stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from aotc.worker.ops import insert

if TYPE_CHECKING:
    from iree.compiler import ir

_BUFFER = "!stream.resource<transient>"

# Names begin with what none of a user's does.
_GLOBAL = "$workspace.{place}"
_RELEASE = "$release_workspaces"  # which `aotc.runtime.function` calls
_KEPT = """
util.global private mutable @"{name}" : {buffer}
util.global private mutable @"{name}.size" = 0 : index

util.func private @"{name}.at_least"(%size: index) -> {buffer} {{
  %held = util.global.load @"{name}.size" : index
  %is_enough = arith.cmpi uge, %held, %size : index
  cf.cond_br %is_enough, ^held, ^larger
^held:
  %old = util.global.load @"{name}" : {buffer}
  util.return %old : {buffer}
^larger:
  %new = stream.resource.alloc uninitialized on({affinity}) : {buffer}{{%size}}
  util.global.store %new, @"{name}" : {buffer}
  util.global.store %size, @"{name}.size" : index
  util.return %new : {buffer}
}}
"""
# IREE cannot lower that a global holds no block, so it holds a small one.
_GIVEN_BACK = """
  %{place} = stream.resource.alloc uninitialized on({affinity}) : {buffer}{{%one}}
  util.global.store %zero, @"{name}.size" : index
  util.global.store %{place}, @"{name}" : {buffer}
"""
_GIVE_BACK = """
util.func public @"{release}"() {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
{body}
  util.return
}}
"""


class _EntryAllocation(NamedTuple):
    """A block of transient memory that an entry allocates and frees in every call.

    Args:
        place: the number of the global that is to hold it.
        size: in bytes.
        alloca: the op that allocates it.
        dealloca: the op that gives it back.
    """

    place: int
    size: int
    alloca: ir.Operation
    dealloca: ir.Operation


def keep_workspaces(module: ir.Module, pooled: int) -> bool:
    """Keep large transient blocks of entries in globals; return whether there are any.

    Args:
        module: what IREE has made of a module up to its phase `stream`.
        pooled: bytes of the largest block that IREE's runtime keeps itself.
    """
    from iree.compiler import ir

    with module.context, ir.Location.unknown():
        affinities: dict[int, ir.Attribute] = {}
        used: list[tuple[_EntryAllocation, int]] = []
        for entry in filter(_is_entry, module.body.operations):
            largest: defaultdict[int, int] = defaultdict(int)
            blocks = [*_large_blocks(entry, pooled)]
            for block in blocks:
                largest[block.place] = max(largest[block.place], block.size)
                affinities[block.place] = block.alloca.attributes["affinity"]
            used += [(block, largest[block.place]) for block in blocks]
        _define(module, affinities)
        for block, size in used:
            _keep_between_calls(block, size)
        return bool(used)


def _is_entry(op: ir.Operation) -> bool:
    """Return whether an op is a public function."""
    if op.operation.name != "util.func":
        return False
    attributes = op.operation.attributes
    if "sym_visibility" not in attributes:
        return True
    return bool(attributes["sym_visibility"].value == "public")


def _large_blocks(function: ir.Operation, pooled: int) -> Iterator[_EntryAllocation]:
    """Yield blocks above `pooled` bytes that a function allocates once in each call.

    Each comes with the number of the global that is to hold it.

    Each has the first place that no other holds at that time.
    """
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    ends = {
        op.operands[0]: (at, op)
        for at, op in enumerate(ops)
        if op.name == "stream.resource.dealloca"
    }
    free_from: dict[int, int] = {}  # of each place, the number of an op
    for at, op in enumerate(ops):
        if op.name != "stream.resource.alloca" or str(op.results[0].type) != _BUFFER:
            continue
        size = _constant(op.operands[0]) or 0
        freed_at, end = ends.get(op.results[0], (0, None))
        is_freed = end is not None and len(end.operands) == 3  # after a timepoint
        if is_freed and size > pooled:
            place = next(n for n in count() if free_from.get(n, 0) <= at)
            free_from[place] = freed_at
            yield _EntryAllocation(place, size, op, end)


def _constant(value: ir.Value) -> int | None:
    """Return the integer that a value is, if constant; else None."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return int(owner.attributes["value"].value)


def _define(module: ir.Module, affinities: dict[int, ir.Attribute]) -> None:
    """Insert a global for each number, its getter, and a function that frees all."""
    from iree.compiler import ir

    if not affinities:
        return
    text = body = ""
    for place, affinity in affinities.items():
        name = _GLOBAL.format(place=place)
        words = {"name": name, "affinity": affinity, "buffer": _BUFFER}
        text += _KEPT.format(**words)
        body += _GIVEN_BACK.format(place=place, **words)
    text += _GIVE_BACK.format(release=_RELEASE, body=body)
    insert(text, ir.InsertionPoint(module.body))


def _keep_between_calls(block: _EntryAllocation, size: int) -> None:
    """Replace a block's allocation by its global's getter, and its release by a store.

    Args:
        block: of an entry.
        size: of the largest that the entry has in its place, in bytes.
    """
    from iree.compiler import ir

    name = _GLOBAL.format(place=block.place)
    kind, point = ir.Type.parse(_BUFFER), ir.Type.parse("!stream.timepoint")
    with ir.InsertionPoint(block.alloca), block.alloca.location:
        index = ir.IndexType.get()
        number = {"value": ir.IntegerAttr.get(index, size)}
        needed = ir.Operation.create("arith.constant", [index], attributes=number)
        callee = {"callee": ir.FlatSymbolRefAttr.get(f"{name}.at_least")}
        buffer = ir.Operation.create(
            "util.call", [kind], [needed.result], attributes=callee
        )
        begin = [*block.alloca.operands][1:] or [
            ir.Operation.create("stream.timepoint.immediate", [point]).result
        ]
    with ir.InsertionPoint(block.dealloca), block.dealloca.location:
        ones = ir.DenseI32ArrayAttr.get([1, 1, 1])
        free = ir.Operation.create(
            "stream.timepoint.await",
            results=[kind],
            operands=[buffer.result, *[*block.dealloca.operands][1:]],
            attributes={"operandSegmentSizes": ones},
        )
        # IREE drops a wait for what nothing uses, and the next call would write there
        # while this one still reads.
        at = {"global": ir.FlatSymbolRefAttr.get(name)}
        ir.Operation.create("util.global.store", operands=[free.result], attributes=at)
    block.dealloca.results[0].replace_all_uses_with(block.dealloca.operands[2])
    block.dealloca.erase()
    block.alloca.results[0].replace_all_uses_with(buffer.result)
    block.alloca.results[1].replace_all_uses_with(begin[0])
    block.alloca.erase()
