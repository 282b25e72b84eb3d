"""The memory that a compiled entry will hold: a dry run of its host code.

IREE's stream phase leaves code that computes the sizes of buffers from those of the
inputs, allocates them, and submits work. A dry run computes the sizes, branches and
loops of that code and no tensors, and adds up the buffers that are alive. A buffer is
given back where the code says so, or after the last use of it. The device keeps it for
another of that size, as the runtime's does (Note [memory between calls] in
aotc/runtime/engine.py), so what is kept counts as well.

A branch that depends on what the entry computes, such as the end of a while loop, ends
the run: no plan can be made.

Where calls decide sizes, runs for some of them tell what calls of these take, and one
for the whole range of each what no call exceeds (Note [memory of all sizes]).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from aotc.worker.host_code import HostBlock, HostCode, HostFunction, HostOp

Shapes = Sequence[Sequence[int]]
Bounds = Sequence[Sequence[tuple[int, int]]]  # the least and greatest of each size

_KEPT_AT_MOST = 64  # buffers, the default of IREE's caching allocator


class UnknownMemory(Exception):
    """Raised where the memory depends on values that the entry computes."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of device memory that a model holds: between calls, and at the peak.

    Args:
        resident: between calls: weights, states, constants and large workspaces
            (`aotc.worker.workspaces`), without what the device keeps for the next call.
        peak: at most, during calls of the entry: these, its inputs, its outputs, and
            all that it computes on the way. The second call counts as well as the
            first, because states may then be in other places.
    """

    resident: int
    peak: int


def plan(host: HostCode, entry: str, inputs: Shapes, *, is_mapped: bool) -> MemoryPlan:
    """Return an entry's memory for given input shapes, by a dry run of its host code.

    Args:
        host: the code of its module.
        entry: its name.
        inputs: the shape of each input.
        is_mapped: whether weights are used where the file of them is mapped, and take
            no memory of the device.

    Raises:
        UnknownMemory: it depends on what the entry computes.
    """
    return _run_twice(_Run(host, is_mapped), entry, inputs)


# Note [memory of all sizes]
#
# What a call takes at its peak is the sum of some buffers. Their sizes grow with some
# symbols and shrink with others (`70 - n`), so the peak may be at the least size, at
# the greatest, or between them (`n * (70 - n)`). A run for ranges carries the least
# and the greatest that each number may be, counts every buffer with the greatest, and
# so finds what no call exceeds. If a run for numbers finds as much, it is the most that
# a call takes; else it is a bound. Buffers are as large as each other only if the same
# ops compute their sizes, for what the device keeps (`form`).


def bound(host: HostCode, entry: str, inputs: Bounds, *, is_mapped: bool) -> MemoryPlan:
    """Return an upper bound of the memory of calls whose sizes are within bounds: see
    `plan`.

    Raises:
        UnknownMemory: a branch depends on the sizes, or on what the entry computes.
    """
    run = _Run(host, is_mapped)
    shapes = [
        [
            least if least == most else Range(least, most, run.form("input", i, axis))
            for axis, (least, most) in enumerate(sizes)
        ]
        for i, sizes in enumerate(inputs)
    ]
    return _run_twice(run, entry, shapes)


def _run_twice(
    run: _Run, entry: str, shapes: Sequence[Sequence[int | Range]]
) -> MemoryPlan:
    """Call an entry twice in a dry run; return its resident and peak memory."""
    resident = 0
    run.kept.clear()
    for _ in range(2):
        results = run.call(entry, [_View(tuple(shape)) for shape in shapes])
        for buffer in (*results, *run.imported):
            run.free(buffer)
        resident = max(resident, run.alive)
    return MemoryPlan(resident, run.peak)


# ---- a run --------------------------------------------------------------------------


class Range(NamedTuple):
    """The least and greatest value of a number that depends on a call's sizes.

    Args:
        least: that it may be.
        most: that it may be.
        form: of two that are computed alike, the same.
    """

    least: int
    most: int
    form: int


class _View(NamedTuple):
    """An input of the entry, by its shape."""

    shape: tuple[int | Range, ...]


@dataclass(eq=False)
class _Buffer:
    """A buffer of device memory, by its size and kind."""

    size: int | Range
    kind: str


# None: read from a tensor, or not a number
Known = int | Range | _View | _Buffer | None


def _most(size: int | Range) -> int:
    """Return a size's greatest value."""
    return size.most if isinstance(size, Range) else size


class _Jump(NamedTuple):
    """A branch to a block, or the return, with the values that are passed."""

    target: int | None
    passed: Sequence[Known]


class _Run:
    """The state of a dry run: globals, live buffers, and bytes so far."""

    def __init__(self, host: HostCode, is_mapped: bool) -> None:
        self.is_mapped = is_mapped
        self.globals: dict[str, Known] = {**host.numbers}
        self.imported: list[_Buffer] = []  # which the caller holds until the end
        self.alive = self.peak = 0  # bytes
        # size and kind of buffers that wait for another use
        self.kept: Counter[tuple[int | Range, str]] = Counter()
        self._forms: dict[tuple[Any, ...], int] = {}
        self._holders: Counter[_Buffer] = Counter()
        self._host = host
        for initializer in host.initializers:
            self._interpret(initializer, [])

    def call(self, name: str, given: Sequence[Known]) -> Sequence[Known]:
        """Run a function of the module; return its results, which no one references
        yet.
        """
        return self._interpret(self._host.function(name), given)

    def is_external(self, name: str) -> bool:
        """Return whether a function is not defined in the module."""
        return self._host.is_external(name)

    def form(self, *computed: Hashable) -> int:
        """Return a number for a computation, the same for equal arguments."""
        return self._forms.setdefault(computed, len(self._forms))

    def allocate(self, size: Known, kind: str) -> _Buffer:
        """Return a new buffer; add it to the live bytes and update the peak."""
        if not isinstance(size, int | Range):
            raise UnknownMemory
        self.alive += _most(size)
        if self.kept[size, kind]:
            self.kept[size, kind] -= 1
        kept = sum(_most(size) * count for (size, _), count in self.kept.items())
        self.peak = max(self.peak, self.alive + kept)
        return _Buffer(size, kind)

    def free(self, buffer: Known) -> None:
        """Subtract a buffer from the live bytes; keep its size for reuse."""
        if isinstance(buffer, _Buffer) and buffer.size:
            self.alive -= _most(buffer.size)
            if self.kept.total() < _KEPT_AT_MOST:
                self.kept[buffer.size, buffer.kind] += 1
            buffer.size = 0

    def store(self, name: str, value: Known) -> None:
        """Store a value in a global; release the former one."""
        self.hold(value)
        self.drop(self.globals.get(name))
        self.globals[name] = value

    def hold(self, value: Known) -> None:
        """Increment a buffer's reference count."""
        if isinstance(value, _Buffer):
            self._holders[value] += 1

    def drop(self, value: Known, *, freed: bool = True) -> None:
        """Decrement a buffer's reference count; free the buffer at zero."""
        if isinstance(value, _Buffer):
            self._holders[value] -= 1
            if not self._holders[value]:
                del self._holders[value]
                if freed:
                    self.free(value)

    def _interpret(
        self, function: HostFunction, given: Sequence[Known]
    ) -> Sequence[Known]:
        """Run the blocks of a function on values; return its results."""
        values: dict[int, Known] = {}
        jump = _Jump(0, given)
        while jump.target is not None:
            jump = self._block(function.blocks[jump.target], values, jump.passed)
        for value in jump.passed:
            self.hold(value)
        self._forget(values, [*values])
        for value in jump.passed:
            self.drop(value, freed=False)
        return jump.passed

    def _block(
        self, block: HostBlock, values: dict[int, Known], passed: Sequence[Known]
    ) -> _Jump:
        """Run a block on the values that are passed; return the jump that ends it."""
        self._bind(values, block.arguments, passed)
        self._forget(values, block.dead)
        for step in block.steps:
            act = _ACTS.get(step.kind, _unknown_results)
            found = act(self, step, [values.get(name) for name in step.operands])
            if isinstance(found, _Jump):
                return found
            self._bind(values, step.results, found)
            self._forget(values, step.dead)
        raise AssertionError("a block ends in a jump")

    def _bind(
        self, values: dict[int, Known], names: Sequence[int], found: Sequence[Known]
    ) -> None:
        """Assign values to numbers of an op's results, with their reference counts."""
        for value in found:
            self.hold(value)
        self._forget(values, [name for name in names if name in values])
        values.update(zip(names, found, strict=True))

    def _forget(self, values: dict[int, Known], names: Sequence[int]) -> None:
        """Remove dead values, and decrement their reference counts."""
        for name in names:
            self.drop(values.pop(name, None))


# ---- the ops ------------------------------------------------------------------------


def _unknown_results(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return None, for unknown, for each result of an op."""
    return [None] * len(step.results)


def _arithmetic(compute: Callable[..., int]) -> Any:
    """Return a function that interprets an integer op: None for unknown operands.

    IREE's 64-bit indices never overflow.
    """

    def act(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
        if not all(isinstance(value, int) for value in operands):
            return [None]
        return [int(compute(*operands))]

    return act


def _over_ranges(compute: Callable[..., int]) -> object:
    """Return a function that interprets an op on numbers and Ranges, by their ends.

    A division is, by what is above 0.
    """
    of_numbers = _arithmetic(compute)

    def act(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
        if not any(isinstance(value, Range) for value in operands):
            found: Sequence[Known] = of_numbers(run, step, operands)
            return found
        ends = [_ends(value) for value in operands]
        divides = "div" in step.kind or step.kind == "util.align"
        if () in ends or (divides and min(ends[1]) <= 0):
            return [None]
        values = [compute(*each) for each in product(*ends)]
        form = run.form(step.kind, *operands)
        least, most = min(values), max(values)
        return [least if least == most else Range(least, most, form)]

    return act


def _ends(value: Known) -> tuple[int, ...]:
    """Return the least and the greatest value of a number; empty for others."""
    if isinstance(value, Range):
        return value.least, value.most
    return (value,) if isinstance(value, int) else ()


def _remainder(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Interpret a remainder, also of a Range by a number."""
    value, divisor = operands
    if not isinstance(value, Range):
        found: Sequence[Known] = _arithmetic(operator.mod)(run, step, operands)
        return found
    if not isinstance(divisor, int) or divisor <= 0 or value.least < 0:
        return [None]
    most = min(value.most, divisor - 1)
    return [Range(0, most, run.form(step.kind, value, divisor)) if most else 0]


def _forward_operands(
    run: _Run, step: HostOp, operands: list[Known]
) -> Sequence[Known]:
    """Return the operands as the results."""
    return operands[: len(step.results)]


def _await(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return the buffers among the operands of a wait."""
    return [value for value in operands if isinstance(value, _Buffer)]


def _constant(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return an integer constant; None for others."""
    value = getattr(step.op.attributes["value"], "value", None)
    return [int(value) if isinstance(value, int) else None]


_PREDICATES: list[Callable[[int, int], bool]] = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


def _compare(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Interpret a comparison; None where Ranges leave it open."""
    compare = _PREDICATES[step.op.attributes["predicate"].value]
    if not any(isinstance(value, Range) for value in operands):
        return list(_arithmetic(compare)(run, step, operands))
    one, two = map(_ends, operands)
    if not one or not two:
        return [None]
    is_order = compare not in (operator.eq, operator.ne)
    is_apart = one[-1] < two[0] or two[-1] < one[0]
    found = {bool(compare(x, y)) for x, y in product(one, two)}
    return [int(found.pop()) if len(found) == 1 and (is_order or is_apart) else None]


def _select(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Interpret a select; None for an unknown condition."""
    condition, yes, no = operands
    return [None if condition is None else (yes if condition else no)]


def _load_global(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return the value of a global."""
    return [run.globals.get(step.op.attributes["global"].value)]


def _store_global(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Store a value in a global."""
    run.store(step.op.attributes["global"].value, operands[0])
    return []


def _call(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Run a function of the module; results of external functions are unknown."""
    callee = step.op.attributes["callee"].value
    if run.is_external(callee):
        return [None] * len(step.results)
    return run.call(callee, operands)


def _return(run: _Run, step: HostOp, operands: list[Known]) -> _Jump:
    """Return the jump that ends a function, with its results."""
    return _Jump(None, operands)


def _branch(run: _Run, step: HostOp, operands: list[Known]) -> _Jump:
    """Return the jump to the only target."""
    return _Jump(step.targets[0], operands)


def _branch_if(run: _Run, step: HostOp, operands: list[Known]) -> _Jump:
    """Return the jump to the target that the condition selects; refuse an unknown
    one.
    """
    condition, *passed = operands
    if not isinstance(condition, int):
        raise UnknownMemory
    first = list(step.op.attributes["operandSegmentSizes"])[1]
    if condition:
        return _Jump(step.targets[0], passed[:first])
    return _Jump(step.targets[1], passed[first:])


def _size_of_view(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return the size of an axis of an input."""
    view, axis = operands[0], step.op.attributes["index"].value
    return [view.shape[axis] if isinstance(view, _View) else None]


def _import_buffer(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return a new buffer for an input, which the caller holds."""
    buffer = run.allocate(operands[-1], "input")
    if isinstance(operands[0], _View):  # of the caller, who keeps it
        run.hold(buffer)
        run.imported.append(buffer)
    return [buffer]


def _allocate(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return a new buffer of a known size, and None for its timepoint."""
    kind = str(step.op.results[0].type)
    return [run.allocate(operands[0], kind), None][: len(step.results)]


def _constants(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return new buffers for constants, and None for their timepoint."""
    sizes = [size for size in operands if isinstance(size, int)]
    count = len(step.results) - 1
    return [*(run.allocate(size, "constant") for size in sizes[:count]), None]


def _parameters(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return new buffers for weights, of no size where these are mapped, and a
    timepoint.
    """
    *before, count, _ = list(step.op.attributes["operandSegmentSizes"])
    sizes = operands[sum(before) :][:count]
    found = [run.allocate(0 if run.is_mapped else n, "constant") for n in sizes]
    return [*found, None]


def _deallocate(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Free a buffer; return None for its timepoint."""
    run.free(operands[0])
    return [None]


def _buffer_size(run: _Run, step: HostOp, operands: list[Known]) -> Sequence[Known]:
    """Return the size of a buffer."""
    buffer = operands[0]
    return [buffer.size if isinstance(buffer, _Buffer) else None]


_ACTS: dict[str, Any] = {
    "arith.constant": _constant,
    "arith.addi": _over_ranges(operator.add),
    "arith.subi": _over_ranges(operator.sub),
    "arith.muli": _over_ranges(operator.mul),
    "arith.divsi": _over_ranges(lambda x, y: x // y),
    "arith.divui": _over_ranges(lambda x, y: x // y),
    "arith.floordivsi": _over_ranges(operator.floordiv),
    "arith.ceildivsi": _over_ranges(lambda x, y: -(-x // y)),
    "arith.ceildivui": _over_ranges(lambda x, y: -(-x // y)),
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.maxsi": _over_ranges(max),
    "arith.maxui": _over_ranges(max),
    "arith.minsi": _over_ranges(min),
    "arith.minui": _over_ranges(min),
    "arith.andi": _arithmetic(operator.and_),
    "arith.ori": _arithmetic(operator.or_),
    "arith.xori": _arithmetic(operator.xor),
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.index_cast": _forward_operands,
    "arith.index_castui": _forward_operands,
    "arith.extsi": _forward_operands,
    "arith.extui": _forward_operands,
    "util.align": _over_ranges(lambda value, to: -(-value // to) * to),
    "util.assume.int": _forward_operands,
    "util.optimization_barrier": _forward_operands,
    "util.global.load": _load_global,
    "util.global.store": _store_global,
    "util.call": _call,
    "util.return": _return,
    "cf.br": _branch,
    "cf.cond_br": _branch_if,
    "hal.buffer_view.dim": _size_of_view,
    "stream.tensor.import": _import_buffer,
    "stream.tensor.export": _forward_operands,
    "stream.resource.alloc": _allocate,
    "stream.resource.alloca": _allocate,
    "stream.resource.constants": _constants,
    "stream.cmd.parameter.load": _parameters,
    "stream.resource.dealloca": _deallocate,
    "stream.resource.subview": _forward_operands,
    "stream.resource.size": _buffer_size,
    "stream.timepoint.await": _await,
}
