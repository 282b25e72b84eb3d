"""`While`: a function again and again, as long as another one says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from aotc.dialects import functions
from aotc.dialects.attributes import (
    Int,
)
from aotc.dialects.batching import all_spread
from aotc.dialects.control.parts import (
    Call,
    Types,
    active,
    float_positions,
    invoke,
    positions,
    require_count,
    require_same,
    select_each,
    split,
    tangent_or_zero,
)
from aotc.dialects.functions import Values, call, define, types_of
from aotc.dialects.graph import NOT_DIFFERENTIABLE
from aotc.dialects.lowering import foreign
from aotc.dialects.transform import Batch, Jvp, derive, with_leading
from aotc.dialects.types import Size, Tensor
from aotc.mlir import ir, scf, tensor


@dataclass(frozen=True)
class While:
    """The second function on the carried values, as long as the first returns true.

    Takes the carried values, then captures, as both functions do; returns the carried
    values. The condition is a bool scalar.
    """

    kind: ClassVar[str] = "while"
    functions: tuple[str, ...]
    carries: int

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of condition and body."""
        (inputs, condition), (taken, returned) = parts
        require_count("carries", self.carries, len(inputs))
        carried = inputs[: self.carries]
        require_same("the condition returns", [Tensor((), "bool")], condition)
        require_same("the body takes", inputs, taken)
        require_same("the body returns", carried, returned)
        return inputs, carried

    def evaluate(self, run: Call, arrays: Values, *_: Any) -> Values:
        """A Python loop."""
        condition, body = self.functions
        carried, captures = arrays[: self.carries], arrays[self.carries :]
        while run(condition, [*carried, *captures])[0]:
            carried = run(body, [*carried, *captures])
        return carried

    def jvp(self, b: Any, op: Any, tangents: Values) -> Values:
        """The tangents are carried beside the values; the condition does not see them.

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

        def goes_on(values: Values) -> Values:
            primal, _, capture, _ = split(
                values, count, count + len(more), count + len(more) + len(captures)
            )
            return call(condition, [*primal, *capture])

        kinds = [*carried, *more, *rest]
        loop = While(
            (
                define(f"{condition}.jvp", kinds, goes_on),
                define(f"{body}.step", kinds, step),
            ),
            count + len(more),
        )
        primal, capture = split(list(op.operands), self.carries)
        return invoke(loop, [*primal, *slopes, *capture, *given])[count:]

    vjp = NOT_DIFFERENTIABLE(
        "reverse mode would have to save values of an unknown number of iterations; "
        "use scan or fori_loop, whose number is fixed, or forward mode (jvp)"
    )

    def batch(
        self, b: Any, op: Any, operands: Values, batched: Sequence[bool], size: Size
    ) -> Values:
        """On until all are done; those that are done stay as they are."""
        condition, body = self.functions
        count = self.carries
        wrt = (*range(count), *positions(batched[count:], count))
        kinds = [
            with_leading(kind, size) if index in wrt else kind
            for index, kind in enumerate(types_of(op.operands))
        ]

        def goes_on(values: Values) -> Values:
            held = call(derive(Batch(condition, wrt, size)), values)[0]
            count = b.reduce_sum(b.cast(held, dtype="i32"), axes=(0,))
            return [b.compare(count, b.full_like(count, 0), direction="gt")]

        def step(values: Values) -> Values:
            held = call(derive(Batch(condition, wrt, size)), values)[0]
            new = call(derive(Batch(body, wrt, size)), values)
            return select_each(b, held, new, values[:count])

        loop = While(
            (
                define(f"{condition}.any", kinds, goes_on),
                define(f"{body}.each", kinds, step),
            ),
            count,
        )
        carried = all_spread(b, operands[:count], batched[:count], size)
        return invoke(loop, [*carried, *operands[count:]])

    def lower(self, low: Any, op: Any, operands: Values, inline: Call) -> Values:
        """scf.while; the captures are values from outside."""
        condition, body = self.functions
        carried, captures = split(operands, self.carries)
        types = [value.type for value in carried]
        start = [foreign.apart(x) for x in carried]  # Note [what loops start from]
        loop = scf.WhileOp(types, start)
        places = [ir.Location.current] * len(types)
        before = loop.before.blocks.append(*types, arg_locs=places)
        with ir.InsertionPoint(before):
            (held,) = inline(condition, [*before.arguments, *captures])
            scf.ConditionOp(tensor.extract(held, []), list(before.arguments))
        after = loop.after.blocks.append(*types, arg_locs=places)
        with ir.InsertionPoint(after):
            scf.YieldOp(inline(body, [*after.arguments, *captures]))
        return list(loop.results)

    def facts(self) -> dict[str, Any]:
        """How many of the arguments are carried."""
        return {"carries": Int.encode(self.carries)}


def while_loop(
    condition: functions.Body, body: functions.Body, carried: Values, captures: Values
) -> Values:
    """A `While` whose functions are written by Python functions of all its operands."""
    kinds, count = types_of([*carried, *captures]), len(carried)
    here = functions.name_of(functions.current_function())
    names = (
        define(f"{here}.condition", kinds, condition),
        define(f"{here}.body", kinds, body),
    )
    return invoke(While(names, count), [*carried, *captures])
