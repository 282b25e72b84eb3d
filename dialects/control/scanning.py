"""`Scan`: a function for each element along the leading axis of its operands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects.attributes import (
    Bool,
    Int,
    Sizes,
)
from aotc.dialects.builder import Builder
from aotc.dialects.control.parts import (
    Arrays,
    ControlFlow,
    Inliner,
    Reads,
    Restrict,
    Run,
    T,
    Types,
    active,
    float_positions,
    indices_of_true,
    invoke,
    require_count,
    require_same,
    shape_of,
    split,
    tangent_or_zero,
)
from aotc.dialects.functions import functions
from aotc.dialects.functions.functions import Values, call, define, types_of
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.functions.transform import (
    Batch,
    Jvp,
    Vjp,
    derive,
    floats,
    with_leading,
)
from aotc.dialects.graph import Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.numbers import (
    ScalarLowering,
    has_numbers_only,
    in_one_dispatch,
)
from aotc.dialects.lowering.ordering import starts
from aotc.dialects.lowering.stacks import StackedElements
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.types import Size, evaluate_size
from aotc.mlir import Operation, Value, arith, func, ir, scf

# A turn of a loop has several steps if the body is small: has so many ops, and no other
# loop. A turn costs some 8 µs beside its kernels, and 25 with two threads, which fall
# asleep after it: of an LSTM of width 512, as much as half a step. IREE compiles the
# kernels of all steps once.
SMALL = 64
_LEAST_STEPS, _MOST_STEPS = 4, 16
_MOST_OPS = 256  # of more steps than the least
_MOST_TENSORS = 48  # that they take and stack: one dispatch of IREE binds up to 64


@dataclass(frozen=True)
class Scan(ControlFlow):
    """A loop that runs the body on each element along the scanned operands' first axis.

    Takes the carried values, the scanned values, then captures. The body takes the
    carried values, one element of each scanned value and the captures; it returns the
    carried values and what is to be stacked. Returns the last carried values and the
    stacks. With `reverse`, elements come and are stacked from the last to the first.
    """

    kind: ClassVar[str] = "scan"
    carries: int
    scanned: int
    length: Size
    reverse: bool

    @property
    def first_capture(self) -> int:
        """Index of the first capture, an operand that every step reads."""
        return self.carries + self.scanned

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """Return the types of operands and results, given those of the body."""
        ((inputs, outputs),) = parts
        require_count("carries", self.carries, len(inputs))
        require_count("scanned", self.scanned, len(inputs) - self.carries)
        carried, each, captures = self._split(inputs)
        last, stacked = split(outputs, self.carries)
        require_same("the body returns", carried, last)
        whole = [with_leading(kind, self.length) for kind in each]
        stacks = [with_leading(kind, self.length) for kind in stacked]
        return [*carried, *whole, *captures], [*last, *stacks]

    def _split(self, values: Sequence[T]) -> list[list[T]]:
        """Return carried values, scanned values and captures."""
        return split(values, self.carries, self.carries + self.scanned)

    def evaluate(
        self, run: Run, arrays: Arrays, symbols: Sequence[int], results: Types
    ) -> Arrays:
        """Return the final carried arrays and the stacks, computed by a Python loop."""
        carried, whole, captures = self._split(arrays)
        count = evaluate_size(self.length, symbols)
        stacks = [
            np.zeros(shape_of(kind.shape, symbols), dtypes.to_numpy(kind.dtype))
            for kind in results[self.carries :]
        ]
        for number in reversed(range(count)) if self.reverse else range(count):
            each = [x[number] for x in whole]
            found = run(self.functions[0], [*carried, *each, *captures])
            carried, stacked = split(found, self.carries)
            for stack, element in zip(stacks, stacked, strict=True):
                stack[number] = element
        return [*carried, *stacks]

    def jvp(self, b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """Emit a scan that also carries, scans and captures tangents; return them."""
        body = self.functions[0]
        inputs, outputs = functions.signature(functions.find(body))
        carried, each, captures = self._split(inputs)
        smooth = float_positions(carried)
        known = self._split(tangents)
        xs, xs_given = active(known[1], self.carries)
        captured, captured_given = active(known[2], self.carries + self.scanned)
        slopes = [tangent_or_zero(b, op.operands[i], tangents[i]) for i in smooth]
        parts = [
            carried,
            [inputs[i] for i in smooth],
            each,
            [inputs[i] for i in xs],
            captures,
            [inputs[i] for i in captured],
        ]
        ends = np.cumsum([len(part) for part in parts]).tolist()
        order = [0, 2, 4, 1, 3, 5]

        def step(values: Values) -> Values:
            groups = split(values, *ends[:-1])
            derivative = derive(Jvp(body, (*smooth, *xs, *captured)))
            found = call(derivative, [v for i in order for v in groups[i]])
            primal, tangent = split(found, len(outputs))
            last, stacked = split(primal, self.carries)
            dlast, dstacked = split(tangent, len(smooth))
            return [*last, *dlast, *stacked, *dstacked]

        kinds = [kind for part in parts for kind in part]
        loop = Scan(
            (define(f"{body}.step", kinds, step),),
            self.carries + len(smooth),
            self.scanned + len(xs),
            self.length,
            self.reverse,
        )
        first, whole, rest = self._split(list(op.operands))
        operands = [*first, *slopes, *whole, *xs_given, *rest, *captured_given]
        _, dlast, stacks = split(invoke(loop, operands), self.carries, loop.carries)
        return [*dlast, *stacks[len(outputs) - self.carries :]]

    def vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Emit a scan in reverse, over saved carried values; return the cotangents.

        They are saved by a scan that takes the place of `op`; each step is computed
        again for its derivative. The cotangents of captures add up along the way.
        """
        saved = self._saving(op)
        body = self.functions[0]
        inputs, outputs = functions.signature(functions.find(body))
        carried, each, captures = self._split(inputs)
        smooth = float_positions(carried)
        xs = [i for i in wanted if self.carries <= i < self.carries + self.scanned]
        captured = [i for i in wanted if i >= self.carries + self.scanned]
        stacked = floats(outputs[self.carries :])
        parts = [
            [inputs[i] for i in smooth],
            [inputs[i] for i in captured],
            carried,
            each,
            stacked,
            captures,
        ]
        ends = np.cumsum([len(part) for part in parts]).tolist()

        def step(values: Values) -> Values:
            dcarried, totals, before, element, dstacked, rest = split(
                values, *ends[:-1]
            )
            derivative = derive(Vjp(body, (*smooth, *xs, *captured)))
            found = call(derivative, [*before, *element, *rest, *dcarried, *dstacked])
            found = found[len(outputs) :]
            new, dxs, more = split(found, len(smooth), len(smooth) + len(xs))
            return [*new, *map(b.add, totals, more), *dxs]

        kinds = [kind for part in parts for kind in part]
        loop = Scan(
            (define(f"{body}.back", kinds, step),),
            len(smooth) + len(captured),
            self.carries + self.scanned + len(stacked),
            self.length,
            not self.reverse,
        )
        dlast, dstacks = split([dy for dy in dys if dy is not None], len(smooth))
        _, whole, rest = self._split(list(op.operands))
        zeros = [b.full(inputs[i], 0.0) for i in captured]
        results = invoke(loop, [*dlast, *zeros, *saved, *whole, *dstacks, *rest])
        found = dict(zip([*smooth, *captured, *xs], results, strict=True))
        return [found[i] for i in wanted]

    def _saving(self, op: func.CallOp) -> Values:
        """Replace `op` by a scan that also stacks carried values; return the stacks."""
        body = self.functions[0]
        inputs, outputs = functions.signature(functions.find(body))

        def step(values: Values) -> Values:
            return [*call(body, values), *values[: self.carries]]

        with functions.before(op):
            name = define(f"{body}.saving", inputs, step)
            loop = Scan((name,), self.carries, self.scanned, self.length, self.reverse)
            results = invoke(loop, list(op.operands))
        for old, new in zip(op.results, results, strict=False):
            old.replace_all_uses_with(new)
        return results[len(outputs) :]

    def batch(
        self,
        b: Builder,
        op: func.CallOp,
        operands: Values,
        batched: Sequence[bool],
        size: Size,
    ) -> Values:
        """Emit a scan of the batched body; scanned arrays keep their axis in front."""
        body = self.functions[0]
        carried, whole, captures = self._split(operands)
        kept = [True] * self.carries + list(batched[self.carries :])
        each = derive(Batch(body, indices_of_true(kept), size))
        loop = Scan((each,), self.carries, self.scanned, self.length, self.reverse)
        first = add_leading_axes(b, carried, batched[: self.carries], size)
        swapped = [
            b.move_axis(x, 1, 0) if has else x
            for x, has in zip(whole, kept[self.carries :], strict=False)
        ]
        last, stacks = split(invoke(loop, [*first, *swapped, *captures]), self.carries)
        return [*last, *(b.move_axis(stack, 1, 0) for stack in stacks)]

    def needs(self, wanted: set[int], reads: Reads) -> tuple[set[int], set[int]]:
        """Return indices of operands and results to keep for the results `wanted`."""
        while True:
            read = reads(self.functions[0], wanted)
            carried = {i for i in read | wanted if i < self.carries}
            if carried <= wanted:
                return read | carried, wanted
            wanted = wanted | carried

    def keep_only(
        self, operands: list[int], results: list[int], restrict: Restrict
    ) -> "Scan":
        """Return the loop restricted to these indices of operands and results."""
        carries = sum(i < self.carries for i in operands)
        taken = sum(i < self.carries + self.scanned for i in operands)
        body = restrict(self.functions[0], operands, results)
        return Scan((body,), carries, taken - carries, self.length, self.reverse)

    def lower(
        self, low: Lowering, op: func.CallOp, operands: Values, inline: Inliner
    ) -> Values:
        """Emit an scf.for over slices, which writes stacks; Note [loop buffers]."""
        carried, whole, captures = self._split(operands)
        if len(op.results) == self.carries and has_numbers_only(self.functions[0]):
            return self._lower_numbers(low, op, operands, inline)
        _, xs, _ = self._split(types_of(op.operands))
        stacks = StackedElements(low, types_of(op.results)[self.carries :])

        def step(place: Value, values: Values) -> list[Values]:
            each = [
                low.element(x, kind, place) for x, kind in zip(whole, xs, strict=True)
            ]
            found = inline(self.functions[0], [*values, *each, *captures])
            return split(found, self.carries)

        values = starts(carried)  # Note [what loops start from]
        for start, end, steps in self._loops(low):
            loop = scf.ForOp(low.index(start), end, low.index(steps), values)
            with ir.InsertionPoint(loop.body):
                values, places, written = list(loop.inner_iter_args), [], []
                first = loop.induction_variable
                for number in range(steps):
                    places.append(self._place(low, first, number))
                    values, stacked = step(places[-1], values)
                    written.append(stacked)
                stacks.write(places, written)
                scf.YieldOp(values)
            values = list(loop.results)
        return [*values, *stacks.end()]

    def _lower_numbers(
        self, low: Lowering, op: func.CallOp, operands: Values, inline: Inliner
    ) -> Values:
        """Emit a loop over scalars as one dispatch that reads the scanned arrays."""
        carried, whole, captures = self._split(operands)
        sources = [low.materialize(x) for x in whole]
        numbers = ScalarLowering(low.symbols)
        step = inline.with_lowering(numbers)

        def body(*elements: Value) -> Values:
            start, given = split(list(elements), self.carries)
            end = low.size(self.length)
            loop = scf.ForOp(low.index(0), end, low.index(1), start)
            with ir.InsertionPoint(loop.body):
                place = self._place(low, loop.induction_variable, 0)
                each = [low.extract(x, [place]) for x in sources]
                values = [*loop.inner_iter_args, *each, *given]
                scf.YieldOp(step(self.functions[0], values))
            return list(loop.results)

        return in_one_dispatch(low, [*carried, *captures], types_of(op.results), body)

    def _loops(self, low: Lowering) -> list[tuple[int, Value, int]]:
        """Return start, end and step of each scf.for: the unrolled one, the rest."""
        if not isinstance(self.length, int):
            return [(0, low.size(self.length), 1)]
        steps = self.steps_of_turn(self.length)
        whole = self.length // steps * steps
        loops = [(0, low.index(whole), steps)]
        if whole < self.length:
            loops.append((whole, low.index(self.length), 1))
        return loops

    def steps_of_turn(self, length: int) -> int:
        """Return the unroll factor: the number of steps in an iteration of the loop.

        Args:
            length: of the loop. What is left after whole turns are turns of one step.
        """
        ops = functions.find(self.functions[0]).entry_block.operations
        if len(ops) > SMALL or any(map(_is_loop, ops)):
            return 1
        *_, end = ops
        tensors = self.scanned + len(end.operands) - self.carries
        allowed = min(_MOST_OPS // len(ops), _MOST_TENSORS // max(1, tensors))
        most = min(max(_LEAST_STEPS, allowed), _MOST_STEPS, max(1, length))
        return min(range(1, most + 1), key=lambda n: length // n + length % n)

    def _place(self, low: Lowering, first: Value, number: int) -> Value:
        """Emit the index of the element that step `first + number` reads and writes."""
        place = arith.addi(first, low.index(number)) if number else first
        return arith.subi(low.size(self.length - 1), place) if self.reverse else place

    def facts(self) -> dict[str, ir.Attribute]:
        """Return the attributes: counts of operands, length and direction."""
        return {
            "carries": Int.encode(self.carries),
            "scanned": Int.encode(self.scanned),
            "length": Sizes.encode((self.length,)),
            "reverse": Bool.encode(self.reverse),
        }


def scan(
    body: functions.Body,
    carried: Values,
    scanned: Values,
    captures: Values,
    length: Size,
    reverse: bool = False,
) -> Values:
    """Define the body from a Python function, and emit a call of the `Scan`."""
    each = [kind.with_shape(kind.shape[1:]) for kind in types_of(scanned)]
    kinds = [*types_of(carried), *each, *types_of(captures)]
    here = functions.name_of(functions.current_function())
    name = define(f"{here}.body", kinds, body)
    loop = Scan((name,), len(carried), len(scanned), length, reverse)
    return invoke(loop, [*carried, *scanned, *captures])


def _is_loop(op: Operation) -> bool:
    """Return whether an op may call a loop; a region is one step (`graph.fused`)."""
    if not isinstance(op, func.CallOp):
        return False
    return not is_region(functions.find(functions.callee_of(op)))
