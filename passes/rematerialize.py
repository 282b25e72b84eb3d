"""Compute values again where they are needed, in the place of keeping them.

    %h = linalg… %x                  %h = linalg… %x
    …                                …
    %y = linalg… %h, %dy      →      %x2 = linalg… %x, %dy[0]   // not before %dy
                                     %h2 = linalg… %x2
                                     %y = linalg… %h2, %dy

The ops of a function are gone through in order, with a budget for what is alive. Where
it is exceeded, the value goes that costs least to compute again for its bytes, with all
that is gone of what it is computed from and of what is computed from it; it comes back
where it is used next. (Kirisame et al., "Dynamic tensor rematerialization", ICLR 2021,
at compile time; the time since the last use, which counts there, makes it worse here.)

What IREE computes where it is read, such as elementwise ops with one reader, and what
only looks at another tensor, takes no memory. This is a model; what a program really
takes is known when IREE has laid it out (`aotc.checks.budget`).

Requires: all shapes static. Ensures: the same results; the
new order depends on data, so that no later pass can undo it.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import fsum, prod

from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.walking import users_of
from aotc.dialects.lowering.ordering import after
from aotc.dialects.lowering.regions import is_loop
from aotc.dialects.lowering.sources import operands_of
from aotc.errors import InputError
from aotc.kernels.lowered import called_kernel, kernels_of
from aotc.mlir import Block, Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import LOWERED

# Seconds for a step of a product, and for an element that is read or written elsewhere,
# on one core of 2020; only their ratio matters.
PRODUCT, ELEMENT = 0.06e-9, 0.5e-9
MOST_WORK = 2.0  # of what the function does, to be done again
PATIENCE = 12  # trials without success

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
_FREE = ("tensor.empty", "arith.constant", "linalg.fill", *_VIEWS)


@dataclass(frozen=True)
class Rematerialize(Pass):
    """Recompute values of an entry so that live values take about `bytes` bytes.

    Args:
        entry: its name.
        bytes: for all computed values that are alive at one time.

    Raises:
        InputError: `unknown-entry`, `symbolic-memory`: its sizes are not fixed; or
            `memory-budget`: that would take several times the work.
    """

    entry: str
    bytes: int

    name = "rematerialize"
    level = 1
    keeps_graph = False
    requires = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any value is
        recomputed.
        """
        return rematerialize(self._function(unit), self.bytes) > 0

    def _function(self, unit: Unit) -> Function:
        """Return the function of the entry; raise if there is none, or sizes are
        symbolic.
        """
        known = {entry.name: entry for entry in unit.program.entries}
        if self.entry not in known:
            raise InputError(
                "unknown-entry",
                f"there is no entry '{self.entry}'; the IR has {', '.join(known)}",
            )
        if known[self.entry].symbols:
            raise InputError(
                "symbolic-memory",
                f"only entries of fixed sizes can be rewritten; '{self.entry}' takes "
                f"{', '.join(map(str, known[self.entry].symbols))}",
            )
        return functions_of(unit.module)[self.entry]


def rematerialize(function: Function, budget: int) -> int:
    """Recompute values of a function so that live ones fit a budget; return how many.

    A choice that looks cheap when it is made can be dear in the end: values that came
    back several times are kept one by one, as long as that makes all cheaper.

    Args:
        function: in linalg; its arguments are not counted.
        budget: in bytes, for all computed values that are alive at one time.

    Returns:
        How many values are computed again.

    Raises:
        OutOfBudget: that would take several times the work.
    """
    values = _Values(function)
    kept: frozenset[Value] = frozenset()
    best = _RematerializationWalk(values, budget, kept).run()
    tried: set[Value] = set()
    failed = 0
    while failed < PATIENCE and (value := best.costliest(tried)) is not None:
        tried.add(value)
        found = _RematerializationWalk(values, budget, kept | {value}).run()
        failed += 1
        if (found.excess, found.extra_seconds) < (best.excess, best.extra_seconds):
            best, kept, failed = found, kept | {value}, 0
    if best.excess or best.extra_seconds > MOST_WORK * sum(values.work):
        raise OutOfBudget(
            "memory-budget",
            f"computing values again does not bring an entry down to {budget:,} bytes",
            hint="allow more, or use smaller batches",
        )
    return _RematerializationWalk(values, budget, kept, writes=True).run().recomputed


def modeled_bytes(function: Function) -> int:
    """Return the peak bytes of live values of a function as it is, in the pass's
    model.
    """
    values = _Values(function)
    return _RematerializationWalk(values, 0, frozenset(values.uses)).run().excess


class OutOfBudget(InputError):
    """Raised where no recomputation brings the memory down to the budget."""


# ---- what is known of the function as it was ----------------------------------------


class _Values:
    """Facts on a function's values: stored or virtual (recomputed by each reader),
    uses, cost.

    Ops are known by their places: the hashes of their Python objects do not last.
    """

    def __init__(self, function: Function) -> None:
        self.ops = list(function.entry_block.operations)
        flops = {
            kernel.name: kernel.facts["flops"]
            for kernel in kernels_of(function.operation.parent.opview)
        }
        self.operands = [list(op.operands) for op in self.ops]
        self.outer = [operands_of(op) for op in self.ops]
        self.is_product = [_is_product(op) for op in self.ops]
        self.is_virtual = [is_virtual(op) for op in self.ops]
        self.work = [_work(op, flops) for op in self.ops]
        self.read: list[frozenset[Value]] = []  # by each op: stored values
        self.place: dict[Value, int] = {}  # of the op that computes a value
        self.bytes: dict[Value, int] = {}
        self.uses: dict[Value, list[int]] = {}  # of stored values, in order
        self.readers: dict[Value, list[Value]] = {}  # virtual values, of stored ones
        self.made_from: dict[Value, set[Value]] = {}  # stored values, of stored ones
        # what cannot be computed again
        self.origins: dict[Value, frozenset[Value]] = {}
        self._behind: dict[Value, frozenset[Value]] = {}
        for place, op in enumerate(self.ops):
            self._add(place, op)
        returned = set(self.operands[-1])  # these take their bytes in any case
        for value in self.uses:
            self.bytes[value] = 0 if value in returned else _bytes(value)

    def _add(self, place: int, op: Operation) -> None:
        """Record the facts on the results of the op at index `place`."""
        none: frozenset[Value] = frozenset()
        read = none.union(*(self._behind.get(x, none) for x in self.outer[place]))
        self.read.append(read)
        self.place.update(dict.fromkeys(op.results, place))
        for value in read:
            if self.is_virtual[place]:
                self.readers[value] += op.results
            else:
                self.uses[value].append(place)
        known = none.union(*(self.origins[value] for value in read))
        for value in op.results:
            if self.is_virtual[place]:
                self._behind[value] = read
            else:
                self._behind[value] = frozenset([value])
                self.uses[value], self.readers[value] = [], []
                self.made_from[value] = set()
                for source in read:
                    self.made_from[source].add(value)
            self.origins[value] = known if _may_repeat(op) else frozenset([value])

    def is_computed(self, value: Value) -> bool:
        """Return whether an op with operands computes a value: no argument or
        constant.
        """
        place = self.place.get(value)
        return place is not None and bool(self.operands[place])


def is_virtual(op: Operation) -> bool:
    """Return whether IREE surely fuses an op into its readers, storing no result."""
    if not op.results or not _may_repeat(op):
        return False
    if op.operation.name in _FREE or all(_bytes(value) <= 64 for value in op.results):
        return True
    if is_loop(op) and (_is_spread(op) or _is_broadcast(op)):
        return True
    readers = users_of(op.results)
    if len(readers) != 1 or readers[0].operation.block != op.operation.block:
        return False
    if op.operation.name == "linalg.transpose":
        return bool(readers[0].operation.name.startswith("linalg."))
    return is_loop(op) and _is_linalg(readers[0]) and not _is_product(readers[0])


def _is_spread(op: Operation) -> bool:
    """Return whether a loop reads scalars only, so that it broadcasts them."""
    return all(_bytes(x) <= 64 or _is_free(x.owner) for x in op.operands)


def _is_broadcast(op: Operation) -> bool:
    """Return whether a loop only broadcasts one smaller tensor."""
    first, last = op.operands[0], op.results[0]
    body = op.regions[0].blocks[0]
    return len(body.operations) == 1 and _bytes(first) < _bytes(last)


def _is_free(op: Operation | Block) -> bool:
    """Return whether an op is a constant, fill, empty tensor or reshape."""
    return not isinstance(op, ir.Block) and op.operation.name in _FREE


def _may_repeat(op: Operation) -> bool:
    """Return whether an op is pure, so that it can be recomputed elsewhere."""
    dialect, _, _ = op.operation.name.partition(".")
    is_pure = dialect in ("linalg", "tensor", "arith", "math")
    return is_pure or called_kernel(op) is not None


def _is_linalg(op: Operation) -> bool:
    """Return whether an op is of the linalg dialect."""
    return bool(op.operation.name.startswith("linalg."))


def _is_product(op: Operation) -> bool:
    """Return whether an op is a contraction or kernel call, whose operands are surely
    stored.

    So is what a kernel reads, whatever it computes.
    """
    if called_kernel(op) is not None:
        return True
    ranked = [x for x in op.operands if _bytes(x) > 64]
    return _is_linalg(op) and len(ranked) > 2 and not is_loop(op)


def _bytes(value: Value) -> int:
    """Return the bytes of a tensor of static shape; 0 for other values."""
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return 0
    element = kind.element_type
    width = 64 if isinstance(element, ir.IndexType) else element.width
    return int(prod(kind.shape) * max(8, width) // 8)


def _work(op: Operation, flops: Mapping[str, int]) -> float:
    """Estimate the seconds that an op takes.

    Args:
        op: of the function.
        flops: float operations of each kernel.
    """
    seconds = ELEMENT * sum(_bytes(x) for x in (*op.operands, *op.results)) / 4
    kernel = called_kernel(op)
    if kernel is not None:
        seconds += PRODUCT * flops[kernel] / 2
    elif _is_product(op):
        sizes = [float(prod(x.type.shape)) for x in op.operands]
        seconds += PRODUCT * prod(sizes) ** 0.5
    return seconds


# ---- going through it ---------------------------------------------------------------


class _RematerializationWalk:
    """One simulated or real walk over the ops: live values, evictions, recomputations.

    Args:
        values: of the function.
        budget: in bytes.
        kept: values that stay.
        writes: whether to change the function, and not just to see what that costs.
    """

    def __init__(
        self, values: _Values, budget: int, kept: frozenset[Value], writes: bool = False
    ) -> None:
        self._values = values
        self._budget = budget
        self._kept = kept
        self._writes = writes
        # values as they were, and what holds them now
        self._now: dict[Value, Value] = {}
        self._alive: dict[Value, int] = {}  # stored values and their bytes
        self._evicted: set[Value] = set()  # and will be used
        self._uses = {value: [*uses] for value, uses in values.uses.items()}
        self._bytes = 0
        self._place = 0
        self._fresh: set[Value] = set()  # what is computed again at this place
        self._event: Value | None = None
        self._pinned: Counter[Value] = Counter()
        self._costs: dict[Value, float] = {}  # of each value, whenever it came back
        self.recomputed, self.extra_seconds, self.excess = 0, 0.0, 0

    def run(self) -> "_RematerializationWalk":
        """Walk over all ops, evicting and recomputing to keep to the budget; return
        self.
        """
        known, most = self._values, 2 * MOST_WORK * sum(self._values.work)
        for self._place, op in enumerate(known.ops):
            if not known.is_virtual[self._place]:
                self._process_stored(op)
            elif known.read[self._place] <= self._alive.keys():
                self._keep_virtual(op)
            if self.extra_seconds > most:
                self.excess = self._budget
                return self
        for op in reversed(known.ops) if self._writes else ():
            if _may_repeat(op) and not any(list(y.uses) for y in op.results):
                op.operation.erase()
        return self

    def costliest(self, tried: set[Value]) -> Value | None:
        """Return the value, not in `tried`, that took most to recompute; None if none
        did.
        """
        costs = {x: cost for x, cost in self._costs.items() if x not in tried}
        return max(costs, key=lambda x: costs[x], default=None)

    def _keep_virtual(self, op: Operation) -> None:
        """Keep a virtual op in place if all its operands are available."""
        known = self._values
        read = [x for x in known.operands[self._place] if known.is_computed(x)]
        if all(x in self._now for x in read):
            self._replace(op, {x: self._now[x] for x in read})
            self._now.update(zip(op.results, op.results, strict=True))

    def _process_stored(self, op: Operation) -> None:
        """Process a stored op: recompute its operands, store its results, free dead
        values.
        """
        read = self._values.read[self._place]
        self._fresh.clear()
        self._pinned.update(read)
        self._note_event(op)
        with ir.InsertionPoint(op), op.location:
            outer = self._values.outer[self._place]
            self._replace(op, {x: self._fetch(x) for x in outer})
        self._store(op.results, op.results)
        self._pinned.clear()
        for value in [*self._alive]:
            self._release_if_dead(value)

    def _replace(self, op: Operation, values: dict[Value, Value]) -> None:
        """Make an op read current copies of its operands, if this walk writes."""
        if self._writes:
            _replace(op, values)

    def _note_event(self, op: Operation) -> None:
        """Record a product's latest operand: later recomputations are ordered after
        it.
        """
        known = [x for x in self._values.operands[self._place] if self._alive.get(x)]
        if known and self._values.is_product[self._place]:
            self._event = self._now[max(known, key=lambda x: self._values.place[x])]

    def _store(self, olds: Sequence[Value], news: Sequence[Value]) -> None:
        """Record values as live; evict others while the budget is exceeded."""
        for old, new in zip(olds, news, strict=True):
            if old not in self._now:
                self._now[old] = new
                self._evicted.discard(old)
                self._alive[old] = self._values.bytes[old]
                self._bytes += self._alive[old]
        self._pinned.update(olds)
        while self._bytes > self._budget and (value := self._cheapest()) is not None:
            self._evict(value)
        self.excess = max(self.excess, self._bytes - self._budget)
        self._pinned.subtract(olds)

    # ---- what goes ------------------------------------------------------------------

    def _cheapest(self) -> Value | None:
        """Return the live value to evict next, or None if none can be."""
        found = [(self._score(value), value) for value in self._alive]
        possible = [(score, value) for score, value in found if score is not None]
        return min(possible, key=lambda pair: pair[0], default=(None, None))[1]

    def _score(self, value: Value) -> float | None:
        """Return the recomputation seconds per byte of a value; None if it must
        stay.
        """
        use = self._next_use(value)
        is_held = self._pinned[value] or not self._alive[value] or value in self._kept
        if is_held or use is None or not _may_repeat(value.owner):
            return None
        if not self._values.origins[value] <= self._alive.keys():
            return None
        return self._cost(value) / self._alive[value]

    def _cost(self, value: Value) -> float:
        """Return the seconds to recompute a value, and evicted values made from it."""
        known, alive = self._values, self._alive.keys()
        before = self._lost_seconds(value, lambda x: known.read[known.place[x]] - alive)
        behind = self._lost_seconds(value, lambda x: known.made_from[x] & self._evicted)
        return before + behind

    def _lost_seconds(self, value: Value, more: Callable[[Value], Set[Value]]) -> float:
        """Return the seconds for a value and all evicted ones reached through `more`.

        Summed exactly: sets of values have another order in each process, which must
        not decide between two that cost the same.
        """
        rest, seen = [value], {value}
        while rest:
            found = more(rest.pop()) - seen
            seen |= found
            rest += found
        return fsum(self._values.work[self._values.place[each]] for each in seen)

    def _next_use(self, value: Value) -> int | None:
        """Return the index of the next op that uses a value; None if there is none."""
        uses = self._uses[value]
        number = bisect_right(uses, self._place)
        return uses[number] if number < len(uses) else None

    def _evict(self, value: Value) -> None:
        """Drop a live value that is to be recomputed at its next use."""
        use = self._next_use(value)
        if use is not None:  # when it comes back, its origins must be there
            for origin in self._values.origins[value]:
                insort(self._uses[origin], use)
        self._release(value)
        self._evicted.add(value)

    def _release(self, value: Value) -> None:
        """Remove a value from the live ones, with the virtual values read from it."""
        self._bytes -= self._alive.pop(value)
        for each in (value, *self._values.readers[value]):
            self._now.pop(each, None)

    def _release_if_dead(self, value: Value) -> None:
        """Remove a value from the live ones if it has no further use."""
        if not self._pinned[value] and self._next_use(value) is None:
            self._release(value)

    # ---- what comes back ------------------------------------------------------------

    def _fetch(self, value: Value) -> Value:
        """Return the current copy of a value, recomputing it if it was evicted."""
        if value in self._now or not self._values.is_computed(value):
            return self._now.get(value, value)
        place, before = self._values.place[value], self.extra_seconds
        op, read = self._values.ops[place], self._values.read[place]
        self._pinned.update(read)
        operands = {x: self._fetch(x) for x in self._values.operands[place]}
        results = self._clone(op, operands) if self._writes else list(op.results)
        if self._values.is_virtual[place]:
            self._now.update(zip(op.results, results, strict=True))
        else:
            self.recomputed += 1
            self.extra_seconds += self._values.work[place]
            self._costs[value] = (
                self._costs.get(value, 0.0) + self.extra_seconds - before
            )
            self._store(op.results, results)
        self._pinned.subtract(read)
        for each in read & self._alive.keys():
            self._release_if_dead(each)
        return self._now[value]

    def _clone(self, op: Operation, operands: dict[Value, Value]) -> list[Value]:
        """Clone an op onto current operands; return the clone's results."""
        before = self._values.operands[self._values.place[op.results[0]]]
        if not _is_free(op):
            self._order(operands)
        clone = op.operation.clone()
        for number, x in enumerate(before):
            clone.operands[number] = operands[x]
        self._fresh.update(clone.results)
        return list(clone.results)

    def _order(self, operands: dict[Value, Value]) -> None:
        """Replace the smallest of `operands` by one that is ordered after the recorded
        event.
        """
        if self._event is None or not self._fresh.isdisjoint(operands.values()):
            return
        known = [x for x in operands if _bytes(x) and not _is_free(x.owner)]
        if known:
            least = min(known, key=_bytes)
            operands[least] = after(operands[least], self._event)
            self._fresh.add(operands[least])


def _replace(op: Operation, values: dict[Value, Value]) -> None:
    """Replace operands of an op, and of ops nested in its regions."""
    for number, value in enumerate(op.operands):
        if values.get(value, value) != value:
            op.operands[number] = values[value]
    for region in op.regions:
        for block in region:
            for each in block.operations:
                _replace(each, values)
