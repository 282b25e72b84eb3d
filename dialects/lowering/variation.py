"""Lowered tensors that IREE cannot find to be one number, repeated.

Note [sums of what does not vary]: IREE 3.13 folds what is computed into the body of a
reduction, down to a constant where it can: `total + 1` is left of `sum(x == x)`. Its
vectoriser then adds the number once for each vector of elements (MLIR reduces an
operand that has the axis, and a number has none), so that the sum of 25 ones is 4. What
a reduction reads is therefore proved to vary here, or varied, by an operand of its own
that is in memory: a zero that the compiler does not know.

Note [comparisons that vary]: IREE 3.13 finds what a comparison gives, before it
vectorises, where both sides become one value (`x < -(-x)`, by the bits), where one is
NaN, and where one is an integer, converted, and the other a number beyond its bounds
or between two integers (`float(i8) < -200`). So a comparison is proved to vary beside
a finite number, if no integer was converted on the way, and between two sides that
are computed from different memories.

Note [selections that vary]: of selections by one condition, one within the other, it
finds what is left of them (`where(c, where(c, 1, x), 1)`). A selection is proved to
vary if nothing that it selects from was selected by what its condition is made of.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aotc.dialects.functions.functions import find
from aotc.dialects.iree_text import body_of, scalar_barrier
from aotc.dialects.lowering.iterators import has_reduction, iterator_types
from aotc.dialects.lowering.scalars import exactly_compared
from aotc.dialects.lowering.sources import filled_with
from aotc.mlir import ElementType, Operation, Value, arith, ir, linalg, tensor

# ops whose results have the elements of their operands
_MOVING = (
    "linalg.transpose",
    "linalg.broadcast",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.concat",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.insert_slice",
    "tensor.pad",
)
_JOINING = ("tensor.concat", "tensor.insert_slice", "tensor.pad")
_REPEATED = ("linalg.fill", "tensor.empty", "tensor.from_elements", "tensor.splat")

# Scalar ops of which no constant is left if one operand varies, beside all of math.
_KEEPING = {
    "arith.addf",
    "arith.bitcast",
    "arith.divf",
    "arith.extf",
    "arith.extsi",
    "arith.extui",
    "arith.fptosi",
    "arith.fptoui",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
    "arith.mulf",
    "arith.negf",
    "arith.remf",
    "arith.sitofp",
    "arith.subf",
    "arith.truncf",
    "arith.uitofp",
}
_POWERS = ("math.powf", "math.fpowi", "math.ipowi")  # x**0 is 1
_CONVERSIONS = ("arith.bitcast", "arith.sitofp", "arith.uitofp")
_COMPARISON = "arith.cmpf"
_SELECTION = "arith.select"


# A rule tells something of a tensor's elements, or of a scalar in a body. It is a
# generator, which yields questions (a rule and a value) and is sent their answers: what
# decides nothing is not asked, and a history may be as long as the program.
_Answering: TypeAlias = Generator[tuple[Any, Value], Any, Any]
_Rule: TypeAlias = Callable[[Value], _Answering]
_Question: TypeAlias = tuple[_Rule, Value]


@dataclass(frozen=True)
class ElementOrigin:
    """The values in memory that the elements of a tensor are computed from.

    Args:
        memory: the arguments, and results of reductions and the like.
        conditions: those that the conditions of selections on the way are computed
            from, where these conditions are tensors.
        is_converted: whether the bits or the number of an integer are among it, whose
            bounds IREE may know.
    """

    memory: frozenset[Value] = frozenset()
    conditions: frozenset[Value] = frozenset()
    is_converted: bool = False


class Variation:
    """Decides whether elements of lowered tensors provably vary; caches the answers.

    One is for one function.
    """

    def __init__(self) -> None:
        self._known: dict[_Question, Any] = {}
        self._zeros: dict[str, Any] = {}

    def vary(self, x: Value) -> Value:
        """Return `x` if it varies; else emit it or-ed with a zero that cannot fold."""
        if self.varies(x):
            return x
        element = ir.RankedTensorType(x.type).element_type
        return _or_with(x, self._unknown_zero(_bits_of(element)))

    def _unknown_zero(self, bits: ElementType) -> Value:
        """Emit a zero of rank 0 that the compiler cannot fold."""
        if str(bits) not in self._zeros:
            zero = arith.ConstantOp(bits, 0).result
            self._zeros[str(bits)] = scalar_barrier(zero)
        whole = ir.RankedTensorType.get([], bits)
        return tensor.from_elements(whole, [self._zeros[str(bits)]])

    def varies(self, value: Value) -> bool:
        """Return whether IREE provably cannot fold a tensor to one repeated number.

        (That it says no means only that nothing proves it.)
        """
        return bool(self._answer((_varies, value)))

    def _answer(self, question: _Question) -> Any:
        """Run a rule, a generator of further questions; return its answer, cached."""
        known = self._known
        answer, rest = known.get(question), list[tuple[_Question, _Answering]]()
        if answer is None:
            rest.append((question, question[0](question[1])))
        while rest:
            asked, answering = rest[-1]
            try:
                inner = answering.send(answer)
            except StopIteration as end:
                answer = known[asked] = end.value
                rest.pop()
                continue
            answer = known.get(inner)
            if answer is None:
                rest.append((inner, inner[0](inner[1])))
        return answer


def _bits_of(element: ElementType) -> ElementType:
    """Return the integer type of an element's bits, of 8 bits at least.

    IREE 3.13 keeps bools as bytes, and refuses the tensor.from_elements of one that it
    has made of a number behind a barrier.
    """
    return ir.IntegerType.get_signless(max(element.width, 8))


def _or_with(x: Value, integer: Value) -> Value:
    """Emit the bitwise or of each element's bits and an integer of rank 0.

    Of that as many bits as an element has.
    """
    kind, bits = ir.RankedTensorType(x.type), integer.type.element_type
    same = ir.AffineMap.get_identity(kind.rank)
    maps = [same, ir.AffineMap.get(kind.rank, 0, []), same]
    op = linalg.GenericOp(
        [kind],
        [x, integer],
        [_empty_like(x, kind)],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        iterator_types(["parallel"] * kind.rank),
    )
    block = op.regions[0].blocks.append(kind.element_type, bits, kind.element_type)
    with ir.InsertionPoint(block):
        element, more, _ = block.arguments
        if isinstance(kind.element_type, ir.IntegerType):
            same_width = bits == kind.element_type
            more = more if same_width else arith.trunci(kind.element_type, more)
            mixed = arith.ori(element, more)
        else:
            mixed = arith.ori(arith.bitcast(bits, element), more)
            mixed = arith.bitcast(kind.element_type, mixed)
        linalg.YieldOp([mixed])
    return op.results[0]


def _empty_like(x: Value, kind: ir.RankedTensorType) -> Value:
    """Emit a tensor of the shape of `x` with undefined elements."""
    dynamic = [axis for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
    places = [arith.ConstantOp(ir.IndexType.get(), axis).result for axis in dynamic]
    sizes = iter([tensor.dim(x, place) for place in places])
    shape = [next(sizes) if axis in dynamic else n for axis, n in enumerate(kind.shape)]
    return tensor.EmptyOp(shape, kind.element_type).result


# ---- tensors ------------------------------------------------------------------------


def _varies(value: Value) -> _Answering:
    """Rule: return whether the elements of a tensor vary."""
    op = value.owner
    if isinstance(op, ir.Block):
        return True  # an argument, or what a loop starts from, behind a barrier
    name = op.name
    if name == "linalg.generic":
        # What reduces has been given what varies.
        return _is_reduction(op) or (yield _scalar_varies, _yielded_scalar(op))
    if name in _MOVING:
        return not _slices_a_join(op) and (yield from _all_vary(op))
    if name == "func.call":
        return _is_barrier(op) or (yield from _all_vary(op))
    if name == "arith.constant":
        return not _is_one_number(op)
    # control flow may be decided
    named = name.startswith(("linalg.", "scf.for", "scf.while"))
    return named and name not in _REPEATED


def _all_vary(op: Operation) -> _Answering:
    """Rule: return whether all tensors that an op reads vary."""
    for each in _tensors_read(op):
        if not (yield _varies, each):
            return False
    return True


def _origin(value: Value) -> _Answering:
    """Rule: return the ElementOrigin of a tensor."""
    op = value.owner
    if not isinstance(op, ir.Block):
        if op.name == "linalg.generic" and not _is_reduction(op):
            return (yield _scalar_origin, _yielded_scalar(op))
        if op.name in _MOVING:
            return (yield from _joint_origin(_origin, _tensors_read(op)))
        if not (yield _varies, value):
            return ElementOrigin()
    return ElementOrigin(frozenset([value]))


def _joint_origin(rule: _Rule, values: Sequence[Value]) -> _Answering:
    """Rule: return the union of the ElementOrigins that a rule gives for values."""
    found: list[ElementOrigin] = []
    for each in values:
        found.append((yield rule, each))
    none = frozenset[Value]()
    return ElementOrigin(
        none.union(*(each.memory for each in found)),
        none.union(*(each.conditions for each in found)),
        any(each.is_converted for each in found),
    )


def _tensors_read(op: Operation) -> list[Value]:
    """Return the operands of an op that are tensors."""
    return [x for x in op.operands if isinstance(x.type, ir.RankedTensorType)]


def _is_reduction(generic: Operation) -> bool:
    """Return whether a linalg.generic has a reduction loop."""
    return has_reduction(generic.attributes["iterator_types"])


def _slices_a_join(op: Operation) -> bool:
    """Return whether an op slices a concatenation, insertion or padding."""
    source = op.operands[0].owner
    is_slice = op.name == "tensor.extract_slice"
    return is_slice and not isinstance(source, ir.Block) and source.name in _JOINING


def _is_barrier(call: Operation) -> bool:
    """Return whether a call is of a function whose text is IREE's barrier."""
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    return "optimization_barrier" in (body_of(find(callee)) or "")


def _is_one_number(constant: Operation) -> bool:
    """Return whether a constant op repeats one number."""
    value = constant.attributes["value"]
    return not isinstance(value, ir.DenseElementsAttr) or value.is_splat


# ---- scalars in the body of a linalg.generic ----------------------------------------


def _scalar_varies(scalar: Value) -> _Answering:
    """Rule: return whether a scalar in a body cannot fold to a constant."""
    if (source := _source(scalar)) is not None:
        return (yield _varies, source)
    op = _op_in_body(scalar)
    if op is None:
        return False
    name, operands = op.name, list(op.operands)
    if name == _SELECTION:
        return (yield from _selection_varies(*operands))
    if name == _COMPARISON:
        # What it says of two sides that are one value IREE does not find.
        may_share = bool(operands[0] != operands[1])
        return (yield from _comparison_varies(*operands, may_share=may_share))
    if (compared := exactly_compared(op)) is not None:
        return (yield from _comparison_varies(*compared, may_share=False))
    if name in _POWERS:
        base, exponent = operands
        return (yield _scalar_varies, base) and (yield _scalar_varies, exponent)
    if name in _KEEPING or name.startswith("math."):
        for each in operands:
            if (yield _scalar_varies, each):
                return True
    return False


def _selection_varies(condition: Value, one: Value, other: Value) -> _Answering:
    """Rule: return whether a select varies; see Note [selections that vary]."""
    first, second = (yield _scalar_varies, one), (yield _scalar_varies, other)
    if not (first and second):
        some = first or second or _are_two_numbers(one, other)
        if not (some and (yield _scalar_varies, condition)):
            return False
    conditions: frozenset[Value] = frozenset()
    for arm in (one, other):
        conditions |= (yield _scalar_origin, arm).conditions
    return not (conditions and conditions & (yield _scalar_origin, condition).memory)


def _comparison_varies(one: Value, other: Value, *, may_share: bool) -> _Answering:
    """Rule: return whether a float comparison varies; see Note [comparisons that vary].

    Args:
        one: what is compared.
        other: with which.
        may_share: whether it does between sides that are computed from one memory.
    """
    first, second = (yield _scalar_varies, one), (yield _scalar_varies, other)
    if first and second:
        if may_share:
            return True
        origins = (yield _scalar_origin, one), (yield _scalar_origin, other)
        return not origins[0].memory & origins[1].memory
    varying, fixed = (one, other) if first else (other, one)
    if not (first or second) or not _is_finite(fixed):
        return False
    return not (yield _scalar_origin, varying).is_converted


def _scalar_origin(scalar: Value) -> _Answering:
    """Rule: return the ElementOrigin of a scalar in a body."""
    if (source := _source(scalar)) is not None:
        return (yield _origin, source)
    op = _op_in_body(scalar)
    if op is None:
        return ElementOrigin()
    name, operands = op.name, list(op.operands)
    found: ElementOrigin = yield from _joint_origin(_scalar_origin, operands)
    if name in _CONVERSIONS and isinstance(operands[0].type, ir.IntegerType):
        return replace(found, is_converted=True)
    if name == _SELECTION and isinstance(operands[0].owner, ir.Block):
        condition: ElementOrigin = yield _scalar_origin, operands[0]
        return replace(found, conditions=found.conditions | condition.memory)
    return found


def _yielded_scalar(generic: Operation) -> Value:
    """Return the scalar that the body of a linalg.generic yields."""
    *_, end = generic.regions[0].blocks[0].operations
    found: Value = end.operands[0]
    return found


def _source(scalar: Value) -> Value | None:
    """Return the tensor that a scalar is an element of; None for a computed one."""
    owner = scalar.owner
    if isinstance(owner, ir.Block):
        generic = owner.owner
        if generic.name != "linalg.generic":
            return None
        found: Value = generic.operands[ir.BlockArgument(scalar).arg_number]
        return found
    op = _op_in_body(scalar)
    return op.operands[0] if op is not None and op.name == "tensor.extract" else None


def _op_in_body(scalar: Value) -> Operation | None:
    """Return the op that defines a scalar, if it is inside a linalg.generic's body."""
    op = scalar.owner
    is_inside = not isinstance(op, ir.Block) and op.parent.name == "linalg.generic"
    return op if is_inside else None


def _is_finite(scalar: Value) -> bool:
    """Return whether a scalar is a constant, finite float."""
    number = _number(scalar)
    return isinstance(number, ir.FloatAttr) and math.isfinite(number.value)


def _are_two_numbers(one: Value, other: Value) -> bool:
    """Return whether two scalars are different constants."""
    number, another = _number(one), _number(other)
    return number is not None and another is not None and bool(number != another)


def _number(scalar: Value) -> ir.Attribute | None:
    """Return the constant attribute that a scalar always equals, or None."""
    if isinstance(scalar.owner, ir.Block):
        source = _source(scalar)
        filled = None if source is None else filled_with(source)
        return None if filled is None else _constant(filled)
    return _constant(scalar)


def _constant(value: Value) -> ir.Attribute | None:
    """Return the attribute of a value defined by arith.constant, or None."""
    op = value.owner
    is_constant = not isinstance(op, ir.Block) and op.name == "arith.constant"
    found: ir.Attribute | None = op.attributes["value"] if is_constant else None
    return found
