"""Values of an entry that depend on weights and constants alone, and those to store.

`BuildTimeValues` reads the entries of a module; `values_to_store` chooses among what
they compute. The choice is a matter of cost, and its rules are here and nowhere else:

- what only repeats elements, or gives them another shape, stays an op: its operand is
  looked at instead; so does what is computed of numbers that are repeated;
- what is made of constants alone stays code, unless it holds floats;
- what takes more bytes than the weights that it saves is stored if that is not much
  more, or if products or factorizations are computed for it;
- of IR for a target, what is a weight in another order, or its integers in half the
  bytes or less, is stored beside the weight, if that is read as well: the loader would
  make it, and hold both;
- what is dequantised stays an op, and what is computed of that;
- constants of many different elements are always stored.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from aotc.core import dtypes
from aotc.dialects.functions.entries import Entry, weight_ports
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Function, Operation, Value, ir

# By so many bytes, or by such a share of it, may what is stored for a value exceed what
# it makes unnecessary: a weight that is padded to whole panels is packed all the same.
MOST_EXTRA_BYTES = 2**20
MOST_EXTRA_SHARE = 1 / 8
# Constants of more elements are parameters, which all variants share, and not code.
LARGEST_CODE_CONSTANT = 1024
# Nothing larger is computed for a build, unless it is no larger than its operands, or
# than twice that: what unpacks two integers of a byte.
LARGEST_COMPUTED_BYTES = 2**28
MOST_GROWTH = 2


def most_extra(spared_bytes: float) -> float:
    """Return how many bytes larger a stored value may be than the weights it replaces.

    Args:
        spared_bytes: the bytes that are not stored for it.
    """
    return max(MOST_EXTRA_BYTES, MOST_EXTRA_SHARE * spared_bytes)


@dataclass
class BuildTimeValues:
    """The values of one entry that depend on weights and constants alone (build-time
    values).

    Args:
        entry: what is read.
        function: of the entry, flat.
        numbers: of expressions, the same for all entries of a program.
        number_of: the expression that each of the values is.
        weight_of: the names of those that are weights.
        source_of: the name of the largest weight that each is computed from, if any.
        costly: those that are computed by ops that do much work.
        weightless: those that are made of small constants alone.
    """

    entry: Entry
    function: Function
    numbers: dict[Hashable, int]
    number_of: dict[Value, int] = field(default_factory=dict)
    weight_of: dict[Value, str] = field(default_factory=dict)
    source_of: dict[Value, str] = field(default_factory=dict)
    costly: set[Value] = field(default_factory=set)
    weightless: set[Value] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ops = list(self.function.entry_block.operations)
        self._size_of: dict[str, int] = {}
        for value, port in weight_ports(self.function, self.entry):
            self.weight_of[value] = port.name
            self.source_of[value] = port.name
            self._size_of[port.name] = bytes_of(port.type)
            self._number(value, ("weight", port.name))
        self._place_of: dict[Value, int] = {}  # of the op that computes a value
        self.is_computed = [self._note(op) for op in self.ops]
        for place, op in enumerate(self.ops):
            if self.is_computed[place]:
                self._place_of.update(dict.fromkeys(op.results, place))

    def _note(self, op: Operation) -> bool:
        """Record facts on an op's results; return whether a build can compute it."""
        operands = list(op.operands)
        if any(value not in self.number_of for value in operands):
            return False
        if not isinstance(op, GraphOp) or not _is_computable(op):
            return False
        facts = tuple(op.attributes[name] for name in type(op).codecs)
        made_of = tuple(self.number_of[value] for value in operands)
        is_costly = type(op).is_costly or any(
            value in self.costly for value in operands
        )
        is_weightless = not is_large_constant(op) and all(
            value in self.weightless for value in operands
        )
        sources = [self.source_of[x] for x in operands if x in self.source_of]
        for index, result in enumerate(op.results):
            if sources:
                self.source_of[result] = max(sources, key=self._size_of.__getitem__)
            self._number(result, (type(op), facts, made_of, result.type, index))
            if is_costly:
                self.costly.add(result)
            if is_weightless:
                self.weightless.add(result)
        return True

    def _number(self, value: Value, key: Hashable) -> None:
        """Assign the value the number of its expression; equal expressions share
        one.
        """
        self.number_of[value] = self.numbers.setdefault(key, len(self.numbers))

    def is_large_constant(self, value: Value) -> bool:
        """Return whether a build-time value is a constant of many elements."""
        return value not in self.weight_of and is_large_constant(value.owner)

    def ops_computed(self) -> list[GraphOp]:
        """Return all ops that can be computed at build time, in program order."""
        rows = zip(self.ops, self.is_computed, strict=True)
        return [op for op, known in rows if known and isinstance(op, GraphOp)]

    def ops_of(self, values: Iterable[Value]) -> list[GraphOp]:
        """Return the ops that compute the given build-time values, in program order."""
        computed = (self._place_of[x] for x in values if x not in self.weight_of)
        found = (self.ops[place] for place in sorted({*computed}))
        return [op for op in found if isinstance(op, GraphOp)]

    def values_below(
        self, values: Iterable[Value], known: Container[Value] = ()
    ) -> set[Value]:
        """Return the given values and everything they are computed from, except
        `known`.
        """
        found, rest = set[Value](), [*values]
        while rest:
            value = rest.pop()
            if value not in known and value not in found:
                found.add(value)
                if value not in self.weight_of:
                    rest += value.owner.operands
        return found

    def weights_read(self) -> Iterator[str]:
        """Yield the names of weights that ops left for run time read directly."""
        for op, is_computed in zip(self.ops, self.is_computed, strict=True):
            if not is_computed:
                yield from (
                    self.weight_of[x] for x in op.operands if x in self.weight_of
                )


def is_large_constant(op: Operation) -> bool:
    """Return whether an op is a constant of many elements that is no splat."""
    if not isinstance(op, Constant):
        return False
    if math.prod(ir.ShapedType(op.results[0].type).shape) <= LARGEST_CODE_CONSTANT:
        return False
    return not ir.DenseElementsAttr(op.attributes["value"]).is_splat


def values_to_store(
    entries: Sequence[BuildTimeValues], *, stores_orders: bool = False
) -> list[list[Value]]:
    """Return, for each entry, the build-time values to store as weights, in program
    order.

    What an entry must read itself it does not save to have stored in another form. That
    is known once all is chosen, so the choice is made again until it holds.

    Args:
        entries: of one program.
        stores_orders: whether a weight is stored in each order that it is read in.
    """
    read = {name for each in entries for name in each.weights_read()}
    while True:
        choice = _Choice(read, stores_orders)
        chosen = [choice.values_of(each) for each in entries]
        if choice.read <= read:
            return chosen
        read |= choice.read


class _Choice:
    """The choice of build-time values to store as weights, entry by entry of a program.

    Args:
        read: the weights that are read as they are.
        stores_orders: see `values_to_store`.
    """

    def __init__(self, read: set[str], stores_orders: bool) -> None:
        self.read = set(read)
        self._stores_orders = stores_orders
        self._saved: set[Hashable] = set()  # weights, by what is chosen so far
        self._stored: set[int] = set()  # expressions

    def values_of(self, entry: BuildTimeValues) -> list[Value]:
        """Return an entry's values to store; add weights still read to `read`."""
        needed, chosen = set[Value](), list[Value]()
        seen = set[Value]()  # what is stored is computed from these
        rows = list(zip(entry.ops, entry.is_computed, strict=True))
        for op, is_computed in reversed(rows):
            results = [value for value in op.results if value in needed]
            if is_computed and not results:
                continue  # unused, or only by what is chosen
            if (
                is_computed
                and isinstance(op, GraphOp)
                and self._is_worthwhile(entry, op, results, seen)
            ):
                chosen += reversed(results)
                continue
            for value in op.operands:
                if value in entry.weight_of:
                    self.read.add(entry.weight_of[value])
                elif value in entry.number_of:
                    needed.add(value)
        return chosen[::-1]

    def _is_worthwhile(
        self,
        entry: BuildTimeValues,
        op: GraphOp,
        results: Sequence[Value],
        seen: set[Value],
    ) -> bool:
        """Return whether storing an op's results pays by the module's rules; record it
        if so.

        What is stored is then computed from values that go into `seen`.
        """
        if is_large_constant(op):
            return True
        types = [Tensor.of(value) for value in results]
        if not all(map(bytes_of, types)) or _costs_nothing(op) or _is_one_number(op):
            return False
        if {entry.number_of[value] for value in results} <= self._stored:
            return True
        if results[0] in entry.weightless and not _computes_floats(op, types):
            return False
        below = entry.values_below(op.operands, seen)
        weights = _weights_among(entry, below)
        saved = {
            name: value
            for name, value in weights.items()
            if name not in self.read and name not in self._saved
        }
        size = sum(map(bytes_of, types))
        replaced = saved
        if self._stores_orders:
            every = _weights_among(entry, entry.values_below(op.operands))
            if _reorders(op) or _packs_integers(types, 2 * size, every.values()):
                replaced = every
        spared = sum(bytes_of(Tensor.of(value)) for value in replaced.values())
        extra = size - spared
        is_costly = any(value in entry.costly for value in results)
        most = most_extra(spared)
        if extra > most and not is_costly:
            return False
        seen |= below
        self._saved |= saved.keys()
        self._stored |= {entry.number_of[value] for value in results}
        return True


def _weights_among(
    entry: BuildTimeValues, values: Iterable[Value]
) -> dict[Hashable, Value]:
    """Return the weights and large constants among some values, keyed by name or
    expression.
    """
    found: dict[Hashable, Value] = {}
    for value in values:
        name: Hashable = entry.weight_of.get(value)
        if name is None and entry.is_large_constant(value):
            name = entry.number_of[value]
        if name is not None:
            found[name] = value
    return found


# ---- facts --------------------------------------------------------------------------


def _is_computable(op: GraphOp) -> bool:
    """Return whether an op can be evaluated at build time once its operands are
    known.
    """
    if has_effect(op) or type(op).expands:
        return False
    types = [Tensor.of(value) for value in op.results]
    if not all(kind.is_static for kind in types) or not _has_static_attributes(op):
        return False
    if _costs_nothing(op) and splat_of(op.results[0]) is not None:
        return True  # one number beside a weight takes no memory
    given = sum(bytes_of(Tensor.of(value)) for value in op.operands)
    most = max(LARGEST_COMPUTED_BYTES, MOST_GROWTH * given)
    return all(bytes_of(kind) <= most for kind in types)


def _has_static_attributes(op: GraphOp) -> bool:
    """Return whether no affine map among an op's attributes has symbols."""
    maps = [
        ir.AffineMapAttr(op.attributes[name]).value
        for name, codec in type(op).codecs.items()
        if codec.mlir is ir.AffineMapAttr
    ]
    return all(each.n_symbols == 0 for each in maps)


def _costs_nothing(op: GraphOp) -> bool:
    """Return whether an op only repeats elements of its operand, or reshapes it."""
    if type(op).keeps_order or not type(op).rearranges:
        return type(op).keeps_order
    return bytes_of(Tensor.of(op.results[0])) > bytes_of(Tensor.of(op.operands[0]))


def _is_one_number(op: GraphOp) -> bool:
    """Return whether an elementwise op computes one number that its result repeats."""
    if element_count(Tensor.of(op.results[0]).shape) == 1 or not op.operands:
        return False
    return type(op).on_scalars and all(map(_is_repeated, op.operands))


def _is_repeated(value: Value) -> bool:
    """Return whether a value is a splat, possibly behind broadcasts and reshapes."""
    while (op := made_by(value, Broadcast) or made_by(value, Reshape)) is not None:
        value = op.x
    if element_count(Tensor.of(value).shape) == 1:
        return True
    return splat_of(value) is not None


def _reorders(op: GraphOp) -> bool:
    """Return whether an op permutes all elements of its operand."""
    return type(op).rearranges and (
        bytes_of(Tensor.of(op.results[0])) == bytes_of(Tensor.of(op.operands[0]))
    )


def _packs_integers(
    types: Sequence[Tensor], least: int, weights: Iterable[Value]
) -> bool:
    """Return whether results and `weights` are all integers, and the weights are large.

    They are if they have `least` bytes or more in total.
    """
    known = [Tensor.of(value) for value in weights]
    are_integers = not any(dtypes.is_float(kind.dtype) for kind in (*types, *known))
    return are_integers and sum(map(bytes_of, known)) >= least


def _computes_floats(op: GraphOp, types: Sequence[Tensor]) -> bool:
    """Return whether an op has operands and computes floats, beyond moving elements."""
    is_float = all(dtypes.is_float(kind.dtype) for kind in types)
    return is_float and bool(op.operands) and not type(op).rearranges


def bytes_of(kind: Tensor) -> int:
    """Return the bytes that a tensor of a static type takes in the archive of
    weights.
    """
    sizes = [size for size in kind.shape if isinstance(size, int)]
    return math.prod(sizes) * dtypes.to_numpy(kind.dtype).itemsize
