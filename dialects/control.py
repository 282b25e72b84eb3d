"""Control flow: functions without a body that say which others run, and how often.

    func.func private @rnn.scan(%h, %xs, %w) -> (…)
        attributes {graph.control = {kind = "scan", functions = [@rnn.body], …}}
    %h_last, %ys = call @rnn.scan(%h0, %xs, %w)

What a loop or branch reads from outside is an argument like any other (captures come
last), so every function stays a flat list of ops that each pass can walk; Note
[variadic ops] in transform.py says why they are not ops with regions. Each kind has
the rules that an op has: `evaluate`, `jvp`, `vjp`, `batch`, `lower`.

The functions `switch`, `while_loop` and `scan` build them from Python functions.

Note [what loops start from]: IREE 3.13 may put what a loop starts from and what is
computed after it of the same values into one dispatch, and then refuses that as a
"circular dependency". So loops start from values behind a barrier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aotc import dtypes
from aotc.dialects import functions
from aotc.dialects.attributes import (
    Bool,
    Int,
    Sizes,
    Str,
    Symbols,
    read_attribute,
)
from aotc.dialects.batching import all_spread
from aotc.dialects.functions import Values, call, define, types_of
from aotc.dialects.graph import NOT_DIFFERENTIABLE
from aotc.dialects.lowering import foreign
from aotc.dialects.lowering.stacks import Stack
from aotc.dialects.transform import Batch, Jvp, Vjp, derive, floats, with_leading
from aotc.dialects.types import Shape, Size, Tensor, evaluate_size, lowered_type
from aotc.errors import InputError
from aotc.mlir import arith, ir, scf, tensor

_CONTROL = "graph.control"

Call = Callable[[str, Values], Values]
Types = list[Tensor]


@dataclass(frozen=True)
class Switch:
    """The branch that the index names; the first or last one if it is out of range.

    Takes an i32 scalar, then what every branch takes; returns what they return.
    """

    kind: ClassVar[str] = "switch"
    functions: tuple[str, ...]

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of the branches."""
        inputs, outputs = parts[0]
        for number, part in enumerate(parts[1:], 1):
            _require_same(f"branch {number} takes", inputs, part[0])
            _require_same(f"branch {number} returns", outputs, part[1])
        return [Tensor((), "i32"), *inputs], outputs

    def evaluate(self, run: Call, arrays: Values, *_: Any) -> Values:
        """One branch."""
        index = min(max(int(arrays[0]), 0), len(self.functions) - 1)
        return run(self.functions[index], arrays[1:])

    def jvp(self, b: Any, op: Any, tangents: Values) -> Values:
        """A switch over the tangents of the branches."""
        wrt, given = _active(tangents[1:])
        branches = [derive(Jvp(name, wrt)) for name in self.functions]
        results = invoke(Switch(tuple(branches)), [*op.operands, *given])
        return results[len(op.results) :]

    def vjp(self, b: Any, op: Any, dys: Values, wanted: Sequence[int]) -> Values:
        """A switch over the cotangents of the branches."""
        wrt = tuple(index - 1 for index in wanted)
        branches = tuple(derive(Vjp(name, wrt)) for name in self.functions)
        given = [dy for dy in dys if dy is not None]
        results = invoke(Switch(branches), [*op.operands, *given])
        return results[len(op.results) :]

    def batch(
        self, b: Any, op: Any, operands: Values, batched: Sequence[bool], size: Size
    ) -> Values:
        """Over batched branches; with an index for each, all branches and a choice."""
        index, *rest = operands
        wrt = _positions(batched[1:])
        branches = tuple(derive(Batch(name, wrt, size)) for name in self.functions)
        if not batched[0]:
            return invoke(Switch(branches), operands)
        chosen = call(branches[0], rest)
        for number, branch in enumerate(branches[1:], 1):
            reached = b.compare(index, b.full_like(index, number), direction="ge")
            chosen = _chosen(b, reached, call(branch, rest), chosen)
        return chosen

    def lower(self, low: Any, op: Any, operands: Values, inline: Call) -> Values:
        """A chain of scf.if, one for each branch but the last."""
        index = tensor.extract(operands[0], [])
        return self._lower_from(0, low, op, index, operands[1:], inline)

    def _lower_from(
        self, number: int, low: Any, op: Any, index: Any, rest: Values, inline: Call
    ) -> Values:
        if number == len(self.functions) - 1:
            return inline(self.functions[number], rest)
        bound = low.scalar("i32", number)
        here = arith.cmpi(arith.CmpIPredicate.sle, index, bound)
        results = [lowered_type(kind) for kind in types_of(op.results)]
        branch = scf.IfOp(here, results, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(inline(self.functions[number], rest))
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(self._lower_from(number + 1, low, op, index, rest, inline))
        return list(branch.results)

    def facts(self) -> dict[str, Any]:
        """Attributes beside the functions: none."""
        return {}


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
        _require_count("carries", self.carries, len(inputs))
        carried = inputs[: self.carries]
        _require_same("the condition returns", [Tensor((), "bool")], condition)
        _require_same("the body takes", inputs, taken)
        _require_same("the body returns", carried, returned)
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
        carried, captures = _split(types_of(op.operands), self.carries)
        smooth = _floats(carried)
        wrt, given = _active(tangents[self.carries :], self.carries)
        slopes = [_tangent(b, op.operands[i], tangents[i]) for i in smooth]
        count, more = len(carried), [carried[i] for i in smooth]
        rest = [*captures, *types_of(given)]

        def step(values: Values) -> Values:
            primal, tangent, capture, capture_tangent = _split(
                values, count, count + len(more), count + len(more) + len(captures)
            )
            derivative = derive(Jvp(body, (*smooth, *wrt)))
            return call(derivative, [*primal, *capture, *tangent, *capture_tangent])

        def goes_on(values: Values) -> Values:
            primal, _, capture, _ = _split(
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
        primal, capture = _split(list(op.operands), self.carries)
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
        wrt = (*range(count), *_positions(batched[count:], count))
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
            return _chosen(b, held, new, values[:count])

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
        carried, captures = _split(operands, self.carries)
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


@dataclass(frozen=True)
class Scan:
    """The body for each element along the leading axis of the scanned values.

    Takes the carried values, the scanned values, then captures. The body takes the
    carried values, one element of each scanned value and the captures; it returns the
    carried values and what is to be stacked. Returns the last carried values and the
    stacks. With `reverse`, elements come and are stacked from the last to the first.
    """

    kind: ClassVar[str] = "scan"
    functions: tuple[str]
    carries: int
    scanned: int
    length: Size
    reverse: bool

    def signature(self, parts: Sequence[tuple[Types, Types]]) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of the body."""
        ((inputs, outputs),) = parts
        _require_count("carries", self.carries, len(inputs))
        _require_count("scanned", self.scanned, len(inputs) - self.carries)
        carried, each, captures = self._split(inputs)
        last, stacked = _split(outputs, self.carries)
        _require_same("the body returns", carried, last)
        whole = [with_leading(kind, self.length) for kind in each]
        stacks = [with_leading(kind, self.length) for kind in stacked]
        return [*carried, *whole, *captures], [*last, *stacks]

    def _split(self, values: Sequence[Any]) -> list[list[Any]]:
        return _split(values, self.carries, self.carries + self.scanned)

    def evaluate(
        self, run: Call, arrays: Values, symbols: Sequence[int], results: Types
    ) -> Values:
        """A Python loop."""
        carried, whole, captures = self._split(arrays)
        count = evaluate_size(self.length, symbols)
        stacks = [
            np.zeros(_numbers(kind.shape, symbols), dtypes.to_numpy(kind.dtype))
            for kind in results[self.carries :]
        ]
        for number in reversed(range(count)) if self.reverse else range(count):
            each = [x[number] for x in whole]
            found = run(self.functions[0], [*carried, *each, *captures])
            carried, stacked = _split(found, self.carries)
            for stack, element in zip(stacks, stacked, strict=True):
                stack[number] = element
        return [*carried, *stacks]

    def jvp(self, b: Any, op: Any, tangents: Values) -> Values:
        """Tangents are carried, scanned and captured beside their values."""
        body = self.functions[0]
        inputs, outputs = functions.signature(functions.find(body))
        carried, each, captures = self._split(inputs)
        smooth = _floats(carried)
        known = self._split(tangents)
        xs, xs_given = _active(known[1], self.carries)
        captured, captured_given = _active(known[2], self.carries + self.scanned)
        slopes = [_tangent(b, op.operands[i], tangents[i]) for i in smooth]
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
            groups = _split(values, *ends[:-1])
            derivative = derive(Jvp(body, (*smooth, *xs, *captured)))
            found = call(derivative, [v for i in order for v in groups[i]])
            primal, tangent = _split(found, len(outputs))
            last, stacked = _split(primal, self.carries)
            dlast, dstacked = _split(tangent, len(smooth))
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
        _, dlast, stacks = _split(invoke(loop, operands), self.carries, loop.carries)
        return [*dlast, *stacks[len(outputs) - self.carries :]]

    def vjp(self, b: Any, op: Any, dys: Values, wanted: Sequence[int]) -> Values:
        """A scan backwards, over the carried values that each step began with.

        They are saved by a scan that takes the place of `op`; each step is computed
        again for its derivative. The cotangents of captures add up along the way.
        """
        saved = self._saving(op)
        body = self.functions[0]
        inputs, outputs = functions.signature(functions.find(body))
        carried, each, captures = self._split(inputs)
        smooth = _floats(carried)
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
            dcarried, totals, before, element, dstacked, rest = _split(
                values, *ends[:-1]
            )
            derivative = derive(Vjp(body, (*smooth, *xs, *captured)))
            found = call(derivative, [*before, *element, *rest, *dcarried, *dstacked])
            found = found[len(outputs) :]
            new, dxs, more = _split(found, len(smooth), len(smooth) + len(xs))
            return [*new, *map(b.add, totals, more), *dxs]

        kinds = [kind for part in parts for kind in part]
        loop = Scan(
            (define(f"{body}.back", kinds, step),),
            len(smooth) + len(captured),
            self.carries + self.scanned + len(stacked),
            self.length,
            not self.reverse,
        )
        dlast, dstacks = _split([dy for dy in dys if dy is not None], len(smooth))
        _, whole, rest = self._split(list(op.operands))
        zeros = [b.full(inputs[i], 0.0) for i in captured]
        results = invoke(loop, [*dlast, *zeros, *saved, *whole, *dstacks, *rest])
        found = dict(zip([*smooth, *captured, *xs], results, strict=True))
        return [found[i] for i in wanted]

    def _saving(self, op: Any) -> Values:
        """Replace `op` by a scan that also stacks the values each step begins with."""
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
        self, b: Any, op: Any, operands: Values, batched: Sequence[bool], size: Size
    ) -> Values:
        """Over a batched body; what is scanned keeps its axis in front."""
        body = self.functions[0]
        carried, whole, captures = self._split(operands)
        kept = [True] * self.carries + list(batched[self.carries :])
        each = derive(Batch(body, _positions(kept), size))
        loop = Scan((each,), self.carries, self.scanned, self.length, self.reverse)
        first = all_spread(b, carried, batched[: self.carries], size)
        swapped = [
            _swapped(b, x) if has else x
            for x, has in zip(whole, kept[self.carries :], strict=False)
        ]
        last, stacks = _split(invoke(loop, [*first, *swapped, *captures]), self.carries)
        return [*last, *(_swapped(b, stack) for stack in stacks)]

    def lower(self, low: Any, op: Any, operands: Values, inline: Call) -> Values:
        """scf.for over slices, which writes the stacks; Note [loop buffers]."""
        carried, whole, captures = self._split(operands)
        _, xs, _ = self._split(types_of(op.operands))
        stacks = types_of(op.results)[self.carries :]
        count = low.size(self.length)
        built = [Stack(low, kind) for kind in stacks]
        start = [foreign.apart(x) for x in carried]  # Note [what loops start from]
        loop = scf.ForOp(low.index(0), count, low.index(1), start)
        with ir.InsertionPoint(loop.body):
            place = loop.induction_variable
            if self.reverse:
                place = arith.subi(low.size(self.length - 1), place)
            now = list(loop.inner_iter_args)
            each = [
                low.element(x, kind, place) for x, kind in zip(whole, xs, strict=True)
            ]
            found = inline(self.functions[0], [*now, *each, *captures])
            new, stacked = _split(found, self.carries)
            for stack, part in zip(built, stacked, strict=True):
                stack.write(part, place)
            scf.YieldOp(new)
        return [*loop.results, *(stack.end() for stack in built)]

    def facts(self) -> dict[str, Any]:
        """How the arguments are divided, how long it is and in which direction."""
        return {
            "carries": Int.encode(self.carries),
            "scanned": Int.encode(self.scanned),
            "length": Sizes.encode((self.length,)),
            "reverse": Bool.encode(self.reverse),
        }


Control = Switch | While | Scan


def control_of(function: Any) -> Control | None:
    """What `function` does with others, if it is control flow."""
    if _CONTROL not in function.attributes:
        return None
    facts = function.attributes[_CONTROL]
    if not isinstance(facts, ir.DictAttr):
        raise InputError("malformed-op", f"expected {_CONTROL} = {{…}}; got {facts}")
    kind = read_attribute(facts, "kind", Str)
    if kind not in _COUNTS:
        known = ", ".join(_COUNTS)
        raise InputError("malformed-op", f"expected a kind of {known}; got '{kind}'")
    names = read_attribute(facts, "functions", Symbols)
    if not names or len(names) != (_COUNTS[kind] or len(names)):
        count = _COUNTS[kind] or "one or more"
        raise InputError(
            "malformed-op", f"expected {count} functions of a {kind}; got {len(names)}"
        )
    if kind == "switch":
        return Switch(names)
    carries = _read_count(facts, "carries")
    if kind == "while":
        return While(names, carries)
    length = read_attribute(facts, "length", Sizes)
    if len(length) != 1:
        raise InputError("malformed-op", f"expected one length; got {length}")
    scanned, reverse = (
        _read_count(facts, "scanned"),
        read_attribute(facts, "reverse", Bool),
    )
    return Scan(names, carries, scanned, length[0], reverse)


# kind → how many functions it runs, None for any number
_COUNTS = {"switch": None, "while": 2, "scan": 1}


def _read_count(facts: Any, name: str) -> int:
    count: int = read_attribute(facts, name, Int)
    if count < 0:
        raise InputError("malformed-op", f"expected {name} of 0 or more; got {count}")
    return count


def invoke(control: Control, operands: Sequence[Any]) -> Values:
    """Call `control` at the insertion point; returns its results."""
    known = functions.functions_of(functions.current_module())
    parts = [functions.signature(known[name]) for name in control.functions]
    inputs, outputs = control.signature(parts)
    _require_same(f"the {control.kind} takes", inputs, types_of(operands))
    facts = {
        "kind": Str.encode(control.kind),
        "functions": Symbols.encode(control.functions),
        **control.facts(),
    }
    name = f"{functions.name_of(functions.current_function())}.{control.kind}"
    attributes = {_CONTROL: ir.DictAttr.get(facts)}
    return call(functions.declare(name, inputs, outputs, attributes), operands)


def verify(module: Any) -> None:
    """Refuse control flow whose functions are missing or do not fit.

    Raises:
        InputError: it names the function and what it should take or return.
    """
    known = functions.functions_of(module)
    for name, function in known.items():
        try:
            control = control_of(function)
            if control is not None:
                _require_fit(control, function, known)
        except InputError as error:
            raise InputError(error.code, f"'{name}': {error.message}") from error


def _require_fit(control: Control, function: Any, known: Mapping[str, Any]) -> None:
    missing = [other for other in control.functions if other not in known]
    if missing:
        raise InputError(
            "unknown-function",
            f"it runs '{missing[0]}', which the module does not have",
        )
    parts = [functions.signature(known[other]) for other in control.functions]
    taken, returned = control.signature(parts)
    inputs, outputs = functions.signature(function)
    _require_same("it takes", taken, inputs)
    _require_same("it returns", returned, outputs)


# ---- from Python functions ----------------------------------------------------------


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


def scan(
    body: functions.Body,
    carried: Values,
    scanned: Values,
    captures: Values,
    length: Size,
    reverse: bool = False,
) -> Values:
    """A `Scan` whose body is written by a Python function of its operands."""
    each = [kind.with_shape(kind.shape[1:]) for kind in types_of(scanned)]
    kinds = [*types_of(carried), *each, *types_of(captures)]
    here = functions.name_of(functions.current_function())
    name = define(f"{here}.body", kinds, body)
    loop = Scan((name,), len(carried), len(scanned), length, reverse)
    return invoke(loop, [*carried, *scanned, *captures])


# ---- parts of operands --------------------------------------------------------------


def _split(values: Sequence[Any], *ends: int) -> list[list[Any]]:
    """`values` cut at `ends`, which rise."""
    bounds = [0, *ends, len(values)]
    return [list(values[a:z]) for a, z in zip(bounds[:-1], bounds[1:], strict=True)]


def _positions(marks: Sequence[bool], first: int = 0) -> tuple[int, ...]:
    return tuple(first + index for index, mark in enumerate(marks) if mark)


def _floats(kinds: Types) -> list[int]:
    return [i for i, kind in enumerate(kinds) if dtypes.is_float(kind.dtype)]


def _active(tangents: Values, first: int = 0) -> tuple[tuple[int, ...], Values]:
    """The positions of those that are not zero, counted from `first`, and them."""
    wrt = _positions([d is not None for d in tangents], first)
    return wrt, [d for d in tangents if d is not None]


def _tangent(b: Any, value: Any, tangent: Any) -> Any:
    return b.full_like(value, 0.0) if tangent is None else tangent


def _chosen(b: Any, mask: Any, taken: Values, other: Values) -> Values:
    """Rows of `taken` where the mask of the leading axis holds, else of `other`."""
    chosen = []
    for x, y in zip(taken, other, strict=True):
        shape = Tensor.of(x).shape
        wide = b.broadcast(mask, shape=shape, axes=(0,))
        chosen.append(b.select(wide, x, y))
    return chosen


def _swapped(b: Any, x: Any) -> Any:
    """The first two axes in the other order."""
    rank = Tensor.of(x).rank
    return b.transpose(x, permutation=(1, 0, *range(2, rank)))


def _numbers(shape: Shape, symbols: Sequence[int]) -> tuple[int, ...]:
    return tuple(evaluate_size(size, symbols) for size in shape)


def _require_count(name: str, count: int, most: int) -> None:
    if count > most:
        raise InputError(
            "malformed-op", f"expected {name} of up to {most}; got {count}"
        )


def _require_same(what: str, expected: Types, got: Types) -> None:
    if expected != got:
        raise InputError(
            "control-mismatch",
            f"{what} {_listed(got)}; expected {_listed(expected)}",
        )


def _listed(kinds: Types) -> str:
    return f"({', '.join(map(str, kinds))})"
