"""Calls of a self-check: sizes at which code tends to go wrong, and inputs.

Symbols take their least sizes, then 1, then small primes that differ from one another,
then primes beyond the width of vectors and tiles, as far as contracts and guards allow.
Then they take the sizes that most calls have, as far as the model says so, and those
that have code of their own, and each symbol that something is added up over takes a
size beyond the blocks that long sums are cut into. Where no example shows integers, one
more call takes any. A part of every array has structure, and where calls take little
time, some more have nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import cycle, islice, product
from math import prod
from typing import Any

import numpy as np

from aotc.artifacts.manifest import Code, best_code
from aotc.checks.draws import IntegerRange, StructureLevel
from aotc.checks.inputs import InputOptions, has_free_integers, samples_of
from aotc.checks.uses import Use, uses_of_inputs
from aotc.core.dtypes import INTEGERS, canonical_dtype, is_float
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Tensor, evaluate_size, symbols_of
from aotc.errors import InputError
from aotc.mlir import Module
from aotc.programs.computed_arrays import StoredArray
from aotc.programs.program import Program

_SMALL = (3, 5, 7, 11, 13, 17, 19, 23)
_LARGE = (67, 71, 73, 79, 83, 89, 97, 101)
_NEXT_SIZES = 20  # that are tried for code that others take calls from
_LONG = 4099  # a prime beyond 4096: blocks of any power of two up to it leave a rest


_FEW_STRUCTURED, _STRUCTURED = 2, 5  # items: for floats alone, for masks and positions


class WorkPriority(IntEnum):
    """The order in which calls are compared, and how much of the work each may take."""

    USUAL = 0  # its part of all
    SPARE = 1  # what is left over; without it nothing is missing
    EXTRA = 2  # a small part


@dataclass(frozen=True)
class CheckItem:
    """A call of an entry to compare, or two in a row if it updates states.

    Args:
        number: of the item; the first ones are the cheapest.
        sizes: of the symbols.
        positive: whether floats are drawn from (0, 1), and states do not have their
            first values, which are often zeros that hide what is read of them.
        integers: how they are drawn.
        priority: of the work.
        shows_first: whether masks hide no first position.
    """

    number: int
    sizes: Mapping[str, int]
    positive: bool
    integers: IntegerRange
    priority: WorkPriority = WorkPriority.USUAL
    shows_first: bool = False

    @property
    def structure(self) -> StructureLevel:
        """The amount of pattern in the inputs, beside random values."""
        return (
            StructureLevel.ALL
            if self.priority is WorkPriority.SPARE
            else StructureLevel.SOME
        )

    def with_first_shown(self) -> CheckItem:
        """Return the item with masks that show the first position; integers that may be
        masks are 0 and 1.
        """
        is_small = self.integers is IntegerRange.SMALL
        integers = IntegerRange.BITS if is_small else self.integers
        return replace(self, shows_first=True, integers=integers)

    @property
    def structure_text(self) -> str:
        """The structure as text for messages; empty for the usual one."""
        is_all = self.structure is StructureLevel.ALL
        return " (rounded numbers, masks and first or last positions)" * is_all

    def __str__(self) -> str:
        """Return a remark on the item besides its sizes, before a reason."""
        return (
            "with integers of any size: " if self.integers is IntegerRange.ANY else ""
        )


@dataclass(frozen=True)
class CallSequence:
    """The inputs of consecutive calls of an entry, and its states before them.

    Args:
        sizes: of the symbols.
        inputs: the leaves of the inputs of each call.
        states: the leaves of all states before the first call, by name.
    """

    sizes: Mapping[str, int]
    inputs: tuple[list[Any], ...]
    states: Mapping[str, Any]


def usual_items_of(program: Program, entry: Entry) -> list[CheckItem]:
    """Return the first calls of an entry to compare: those at symbol values 0, 1, small
    and large.

    Args:
        program: that is checked.
        entry: of the program.
    """
    return [
        CheckItem(
            number,
            _sizes_by_name(entry, parts),
            number % 2 == 1,
            IntegerRange.SMALL if number % 2 else IntegerRange.BITS,
        )
        for number, parts in enumerate(_usual_parts(entry, [*_codes(program, entry)]))
    ]


def _usual_parts(entry: Entry, codes: Sequence[Code]) -> list[Parts]:
    """Return the usual symbol values (0, 1, small, large) at which calls have code."""
    usual = list(dict.fromkeys(_usual_sizes(entry))) if entry.symbols else [(), ()]
    return [
        parts
        for parts in usual
        if best_code(codes, _sizes_by_name(entry, parts)) is not None
    ]


def check_items_of(program: Program, graph: Module, entry: Entry) -> list[CheckItem]:
    """Return the calls of an entry to compare, the cheapest first.

    Args:
        program: that is checked.
        graph: IR in which the entry is.
        entry: of the program.
    """
    codes = list(_codes(program, entry))

    def has_code(parts: Parts) -> bool:
        return best_code(codes, _sizes_by_name(entry, parts)) is not None

    usual = _usual_parts(entry, codes)
    found = usual_items_of(program, entry)
    wanted = _size_per_symbol(_SMALL, entry)
    few = next(_nearest_allowed(entry, wanted), tuple(wanted))
    optimal = filter(has_code, _optimal_sizes(entry, few))
    own = list(
        dict.fromkeys([*optimal, *_sizes_for_each_code(entry, codes, few)]),
    )
    few = next(filter(has_code, [few, *usual[-1:], *own]), few)
    for parts in own:
        if parts not in usual:
            sizes = _sizes_by_name(entry, parts)
            found.append(CheckItem(len(found), sizes, True, IntegerRange.BITS))
    for number in range(_structured_count(graph, entry) if usual else 0):
        sizes = _sizes_by_name(entry, usual[-1])
        is_positive = number % 2 == 1
        found.append(
            CheckItem(
                len(found), sizes, is_positive, IntegerRange.BITS, WorkPriority.SPARE
            )
        )
    if has_free_integers(entry, _example(program, entry)):
        sizes = _sizes_by_name(entry, few)
        found.append(
            CheckItem(len(found), sizes, False, IntegerRange.ANY, WorkPriority.EXTRA)
        )
    for parts in dict.fromkeys(_long_sizes(graph, entry, few)):
        if parts not in usual and has_code(parts):
            sizes = _sizes_by_name(entry, parts)
            found.append(
                CheckItem(
                    len(found), sizes, True, IntegerRange.BITS, WorkPriority.EXTRA
                )
            )
    return found


def _structured_count(graph: Module, entry: Entry) -> int:
    """Return how many items have patterned inputs only: enough for all mask
    patterns.
    """
    kinds = {port.type.dtype for port in entry.ports("input")}
    if not kinds:
        return 0
    uses = uses_of_inputs(graph, entry).values()
    has_masks = any(use.is_bias or use.is_factor for use in uses)
    return _STRUCTURED if has_masks or kinds & {"bool", *INTEGERS} else _FEW_STRUCTURED


def input_elements(entry: Entry, sizes: Mapping[str, int]) -> int:
    """Return the number of elements of a call's inputs."""
    parts = parts_of(entry, sizes)
    shapes = [port.type.shape for port in entry.ports("input")]
    return sum(prod(evaluate_size(n, parts) for n in shape) for shape in shapes)


def parts_of(entry: Entry, sizes: Mapping[str, int]) -> list[int]:
    """Return symbol values by name as a list in units of `multiple_of`."""
    return [sizes[each.name] // each.multiple_of for each in entry.symbols]


def call_sequence_of(
    program: Program,
    graph: Module,
    entry: Entry,
    item: CheckItem,
    seed: int,
    uses: Mapping[str, Use] | None = None,
) -> CallSequence:
    """Draw the calls of a check item: one, or two in a row if the entry updates a
    state.

    Args:
        program: that is checked.
        graph: IR in which the entry is.
        entry: of the program.
        item: of `check_items_of`.
        seed: of the numbers.
        uses: of the inputs, where they are known: `uses_of_inputs`.
    """
    uses = uses_of_inputs(graph, entry) if uses is None else uses
    stored = {n: program.parameters[n] for s in program.states for n in s.leaves}
    count = 2 if entry.updates else 1
    inputs = []
    for turn in range(count):
        number = count * item.number + turn
        choice = InputOptions(
            seed + number,
            1,
            item.sizes,
            positive=item.positive,
            integers=item.integers,
            structure=item.structure,
            turn=number,
            shows_first=item.shows_first,
        )
        example = _example(program, entry)
        (sample,) = samples_of(graph, entry, choice, example, uses)
        inputs.append(sample.arrays)
    states = _vary(stored, seed) if item.positive else stored
    return CallSequence(item.sizes, tuple(inputs), states)


def _example(program: Program, entry: Entry) -> Mapping[str, object] | None:
    """Return the example inputs that an entry's source has; None without."""
    network = program.networks.get(entry.name)
    example: Mapping[str, object] | None = (
        network.original.example if network and network.original else None
    )
    return example


def _vary(stored: Mapping[str, StoredArray], seed: int) -> dict[str, StoredArray]:
    """Return states where random numbers are added to constant float arrays."""
    rng = np.random.default_rng(seed)
    found = dict(stored)
    for name, each in stored.items():
        array = np.asarray(each)
        if array.size and is_float(canonical_dtype(array.dtype)) and np.ptp(array) == 0:
            moved = array.astype(np.float64) + 0.1 * rng.random(array.shape)
            found[name] = moved.astype(array.dtype)
    return found


# ---- sizes, in parts of multiples ---------------------------------------------------

Parts = tuple[int, ...]


def _usual_sizes(entry: Entry) -> Iterator[Parts]:
    """Yield the symbol values that are compared in any case: 0, 1, small and large."""
    for each in ((0,), (1,), _SMALL, _LARGE):
        yield from _nearest_allowed(entry, _size_per_symbol(each, entry))


def _optimal_sizes(entry: Entry, few: Parts) -> Iterator[Parts]:
    """Yield the typical sizes of calls if the user declared any; others as in `few`."""
    optima = [each.optimum for each in entry.symbols]
    if any(size is not None for size in optima):
        wanted = [
            part if size is None else size // each.multiple_of
            for each, size, part in zip(entry.symbols, optima, few, strict=True)
        ]
        yield from _nearest_allowed(entry, wanted)


def _size_per_symbol(sizes: Parts, entry: Entry) -> list[int]:
    """Return a size for each symbol, repeating the given ones."""
    return list(islice(cycle(sizes), len(entry.symbols)))


def _long_sizes(graph: Module, entry: Entry, few: Parts) -> Iterator[Parts]:
    """Yield, for each symbol that is summed over, `few` with that symbol made large."""
    for position in sorted(_summed_symbols(graph, entry.name)):
        wanted = list(few)
        wanted[position] = -(-_LONG // entry.symbols[position].multiple_of)
        yield from _nearest_allowed(entry, wanted)


def _sizes_for_each_code(
    entry: Entry, codes: Sequence[Code], few: Parts
) -> Iterator[Parts]:
    """Yield symbol values that select each specialized or padded code of an entry.

    For code that calls are padded for, they are its own, and the next smaller ones.

    Sizes that are free are those of `few`, or the next ones, where these have the code
    of another specialization. There are none where calls of all sizes nearby have.
    """
    steps = {each.name: each.multiple_of for each in entry.symbols}
    several = codes if len(codes) > 1 or codes[0].padded else ()
    for own, less in product(several, (0, 1)):
        if less and not own.padded:
            continue
        fixed = {
            name: size - less * steps[name] * (name in own.padded)
            for name, size in own.sizes.items()
        }
        for step in range(_NEXT_SIZES):
            wanted = [
                fixed[each.name] // each.multiple_of
                if each.name in fixed
                else _nearest_in_contract(each, part + step)
                for each, part in zip(entry.symbols, few, strict=True)
            ]
            sizes = _sizes_by_name(entry, tuple(wanted))
            if _is_allowed(entry, wanted) and best_code(codes, sizes) is own:
                yield tuple(wanted)
                break


def _codes(program: Program, entry: Entry) -> Iterator[Code]:
    """Yield the general, specialized and padded codes of an entry."""
    if entry.has_general_code:
        yield Code(entry.name)
    padded = entry.padded_symbols
    for sizes in entry.specializations:
        yield Code("", dict(sizes), tuple(name for name, _ in sizes if name in padded))
    for name, each in program.specializations_of(entry.name).items():
        yield Code(name, dict(each.sizes), each.padded)


def _nearest_allowed(entry: Entry, wanted: list[int]) -> Iterator[Parts]:
    """Yield the sizes nearest to `wanted` that contracts and guards allow, if any."""
    parts = [
        _nearest_in_contract(c, n) for c, n in zip(entry.symbols, wanted, strict=True)
    ]
    try:
        yield tuple(entry.nearest_allowed(parts))
    except InputError:  # guards leave none nearby
        return


def _is_allowed(entry: Entry, parts: Sequence[int]) -> bool:
    """Return whether contracts and guards allow these symbol values."""
    nearest = map(_nearest_in_contract, entry.symbols, parts)
    return tuple(nearest) == tuple(parts) and entry.allows(parts)


def _nearest_in_contract(contract: Contract, wanted: int) -> int:
    """Return the allowed multiple of `multiple_of` that is nearest to `wanted`."""
    least = -(-contract.min // contract.multiple_of)
    if contract.max is None:
        return max(least, wanted)
    return max(least, min(wanted, contract.max // contract.multiple_of))


def _sizes_by_name(entry: Entry, parts: Parts) -> dict[str, int]:
    """Return symbol values in units of `multiple_of` as sizes by name."""
    return {
        contract.name: part * contract.multiple_of
        for contract, part in zip(entry.symbols, parts, strict=True)
    }


def _summed_symbols(graph: Module, name: str) -> set[int]:
    """Return the symbols of axes that ops reduce, in all functions that are called."""
    known = functions_of(graph)
    with graph.context:
        return {
            symbol
            for inner in reachable_functions(known, name)
            if not known[inner].is_external
            for op in known[inner].entry_block.operations
            if isinstance(op, GraphOp)
            for symbol in _reduced_symbols(op)
        }


def _reduced_symbols(op: GraphOp) -> set[int]:
    """Return the symbols that vanish from an op's results, or that it works along."""
    shapes = [Tensor.of(operand).shape for operand in op.operands]
    kept = {s for y in op.results for n in Tensor.of(y).shape for s in symbols_of(n)}
    found = {s for shape in shapes for n in shape for s in symbols_of(n)} - kept
    attributes = type(op).attributes_of(op)
    axes = attributes.get("axes", ())
    axes = [attributes["axis"]] if "axis" in attributes else axes
    for axis in axes if shapes else ():
        if axis < len(shapes[0]):
            found |= symbols_of(shapes[0][axis])
    return found
