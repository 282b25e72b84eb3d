"""`While`: a function repeated as long as another one returns true."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from aotc.dialects.attributes import (
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
    Types,
    active,
    float_positions,
    indices_of_true,
    invoke,
    require_count,
    require_same,
    select_each,
    split,
    tangent_or_zero,
)
from aotc.dialects.control.scanning import Scan
from aotc.dialects.control.switching import Switch
from aotc.dialects.functions import functions
from aotc.dialects.functions.functions import Values, call, define, types_of
from aotc.dialects.functions.transform import Batch, Jvp, derive, with_leading
from aotc.dialects.graph import NOT_DIFFERENTIABLE, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.numbers import (
    ScalarLowering,
    has_numbers_only,
    in_one_dispatch,
)
from aotc.dialects.lowering.ordering import starts
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value, func, ir, scf


@dataclass(frozen=True)
class While(ControlFlow):
    """A loop that runs the second function while the first returns true.

    Takes the carried values, then captures, as both functions do; returns the carried
    values. The condition is a bool scalar. With `max_steps` it is known to hold no more
    often than that.
    """

    kind: ClassVar[str] = "while"
    carries: int
    max_steps: Size | None = None

    @property
    def first_capture(self) -> int:
        """Index of the first capture, an operand that every step reads."""
        return self.carries

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """Return the types of operands and results, by those of both functions."""
        (inputs, condition), (taken, returned) = parts
        require_count("carries", self.carries, len(inputs))
        carried = inputs[: self.carries]
        require_same("the condition returns", [Tensor((), "bool")], condition)
        require_same("the body takes", inputs, taken)
        require_same("the body returns", carried, returned)
        return inputs, carried

    def evaluate(self, run: Run, arrays: Arrays, *_: object) -> Arrays:
        """Return the final carried arrays, computed by a Python loop."""
        condition, body = self.functions
        carried, captures = arrays[: self.carries], arrays[self.carries :]
        while run(condition, [*carried, *captures])[0]:
            carried = run(body, [*carried, *captures])
        return carried

    def jvp(self, b: Builder, op: func.CallOp, tangents: Sequence[Tangent]) -> Values:
        """Emit a loop that also carries tangents; the condition does not see them.

        (Every carried float has one: an inactive one may become active in the loop.)
        """
        condition, body = self.functions
        carried, captures = split(types_of(op.operands), self.carries)
        smooth = float_positions(carried)
        wrt, given = active(tangents[self.carries :], self.carries)
        slopes = [tangent_or_zero(b, op.operands[i], tangents[i]) for i in smooth]
        count, more = len(carried), [carried[i] for i in smooth]
        rest = [*captures, *types_of(given)]

        def step(values: Values) -> Values:
            primal, tangent, capture, capture_tangent = split(
                values, count, count + len(more), count + len(more) + len(captures)
            )
            derivative = derive(Jvp(body, (*smooth, *wrt)))
            return call(derivative, [*primal, *capture, *tangent, *capture_tangent])

        def cond(values: Values) -> Values:
            primal, _, capture, _ = split(
                values, count, count + len(more), count + len(more) + len(captures)
            )
            return call(condition, [*primal, *capture])

        kinds = [*carried, *more, *rest]
        loop = While(
            (
                define(f"{condition}.jvp", kinds, cond),
                define(f"{body}.step", kinds, step),
            ),
            count + len(more),
            self.max_steps,
        )
        primal, capture = split(list(op.operands), self.carries)
        return invoke(loop, [*primal, *slopes, *capture, *given])[count:]

    @property
    def vjp(self) -> Callable[..., Values]:
        """The reverse-mode rule; a `Reason` without a bound on the steps to save."""
        return _UNBOUNDED if self.max_steps is None else self._bounded_vjp

    def _bounded_vjp(
        self, b: Builder, op: func.CallOp, dys: Sequence[Tangent], wanted: Sequence[int]
    ) -> Values:
        """Replace `op` by a scan over `max_steps`; return its cotangents."""
        with functions.before(op):
            scan = self._as_scan(b, types_of(op.operands))
            results = invoke(scan, list(op.operands))
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        return scan.vjp(b, results[0].owner.opview, dys, wanted)

    def _as_scan(self, b: Builder, kinds: Types) -> Scan:
        """Return a Scan of `max_steps` steps; those after the end change nothing."""
        assert self.max_steps is not None
        condition, body = self.functions
        rest = define(f"{body}.rest", kinds, lambda values: values[: self.carries])
        choice = Switch((rest, body))

        def step(values: Values) -> Values:
            held = b.cast(call(condition, values)[0], dtype="i32")
            return invoke(choice, [held, *values])

        name = define(f"{body}.bounded", kinds, step)
        return Scan((name,), self.carries, 0, self.max_steps, False)

    def batch(
        self,
        b: Builder,
        op: func.CallOp,
        operands: Values,
        batched: Sequence[bool],
        size: Size,
    ) -> Values:
        """Emit a loop until all elements are done; finished ones keep their values."""
        condition, body = self.functions
        count = self.carries
        wrt = (*range(count), *indices_of_true(batched[count:], count))
        kinds = [
            with_leading(kind, size) if index in wrt else kind
            for index, kind in enumerate(types_of(op.operands))
        ]

        def cond(values: Values) -> Values:
            held = call(derive(Batch(condition, wrt, size)), values)[0]
            count = b.reduce_sum(b.cast(held, dtype="i32"), axes=(0,))
            return [b.compare(count, b.full_like(count, 0), direction="gt")]

        def step(values: Values) -> Values:
            held = call(derive(Batch(condition, wrt, size)), values)[0]
            new = call(derive(Batch(body, wrt, size)), values)
            return select_each(b, held, new, values[:count])

        loop = While(
            (
                define(f"{condition}.any", kinds, cond),
                define(f"{body}.each", kinds, step),
            ),
            count,
            self.max_steps,
        )
        carried = add_leading_axes(b, operands[:count], batched[:count], size)
        return invoke(loop, [*carried, *operands[count:]])

    def needs(self, wanted: set[int], reads: Reads) -> tuple[set[int], set[int]]:
        """Return indices of operands and results to keep for the results `wanted`."""
        condition, body = self.functions
        while True:
            read = reads(condition, {0}) | reads(body, wanted)
            carried = {i for i in read if i < self.carries}
            if carried <= wanted:
                return read | wanted, wanted
            wanted = wanted | carried

    def keep_only(
        self, operands: list[int], results: list[int], restrict: Restrict
    ) -> "While":
        """Return the loop restricted to these indices of operands and results."""
        condition, body = self.functions
        names = restrict(condition, operands, [0]), restrict(body, operands, results)
        return While(names, len(results), self.max_steps)

    def lower(
        self, low: Lowering, op: func.CallOp, operands: Values, inline: Inliner
    ) -> Values:
        """Emit an scf.while that reads captures from outside; return its results."""
        if all(map(has_numbers_only, self.functions)):
            numbers = ScalarLowering(low.symbols)

            def whole(*elements: Value) -> Values:
                return self._loop(
                    numbers, list(elements), inline.with_lowering(numbers)
                )

            return in_one_dispatch(low, operands, types_of(op.results), whole)
        carried, captures = split(operands, self.carries)
        start = starts(carried)  # Note [what loops start from]
        return self._loop(low, [*start, *captures], inline)

    def _loop(self, low: Lowering, operands: Values, inline: Inliner) -> Values:
        """Emit an scf.while over lowered operands; return its results."""
        condition, body = self.functions
        carried, captures = split(operands, self.carries)
        types = [value.type for value in carried]
        loop = scf.WhileOp(types, carried)
        places = [ir.Location.current] * len(types)
        before = loop.before.blocks.append(*types, arg_locs=places)
        with ir.InsertionPoint(before):
            (held,) = inline(condition, [*before.arguments, *captures])
            scf.ConditionOp(low.number(held), list(before.arguments))
        after = loop.after.blocks.append(*types, arg_locs=places)
        with ir.InsertionPoint(after):
            scf.YieldOp(inline(body, [*after.arguments, *captures]))
        return list(loop.results)

    def facts(self) -> dict[str, ir.Attribute]:
        """Return the attributes: number of carried operands, and limit of steps."""
        facts: dict[str, ir.Attribute] = {"carries": Int.encode(self.carries)}
        if self.max_steps is not None:
            facts["max_steps"] = Sizes.encode((self.max_steps,))
        return facts


_UNBOUNDED = NOT_DIFFERENTIABLE(
    "reverse mode has to save the values of every step, and nobody knows how many "
    "there are going to be",
    hint="say how many there are at most (while_loop(…, max_steps=100)), use scan or "
    "fori_loop with a fixed number, or forward mode (jvp)",
)


def while_loop(
    condition: functions.Body, body: functions.Body, carried: Values, captures: Values
) -> Values:
    """Define both functions from Python functions, and emit a call of the `While`."""
    kinds, count = types_of([*carried, *captures]), len(carried)
    here = functions.name_of(functions.current_function())
    names = (
        define(f"{here}.condition", kinds, condition),
        define(f"{here}.body", kinds, body),
    )
    return invoke(While(names, count), [*carried, *captures])
