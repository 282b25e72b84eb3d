"""Which lowered tensors IREE cannot find to be one number, repeated.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.functions import find
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
# ops that alone do not tell whether their results vary
_ASKING = (*_MOVING, "func.call", "linalg.generic")
_JOINING = ("tensor.concat", "tensor.insert_slice", "tensor.pad")
_REPEATED = ("linalg.fill", "tensor.empty", "tensor.from_elements", "tensor.splat")

# Scalar ops of which no constant is left if one operand varies.
_KEEPING = (
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
    "math.",
)
_POWERS = ("math.powf", "math.fpowi", "math.ipowi")  # x**0 is 1
_CONVERSIONS = ("arith.bitcast", "arith.sitofp", "arith.uitofp")
_COMPARISON = "arith.cmpf"
_SELECTION = "arith.select"


@dataclass(frozen=True)
class Elements:
    """What is known of the elements of a tensor, or of a scalar in a body.

    Args:
        varies: whether IREE cannot find them to be one number. (That it is False means
            only that nothing proves it.)
        memory: the arguments, and results of reductions and the like, that they are
            computed from.
        conditions: those that the conditions of selections on the way are computed
            from, where these conditions are tensors.
        is_converted: whether they are computed from the bits or the number of an
            integer, whose bounds IREE may know.
    """

    varies: bool
    memory: frozenset[Value] = frozenset()
    conditions: frozenset[Value] = frozenset()
    is_converted: bool = False


NUMBER = Elements(varies=False)


def _mixture(all_read: Iterable[Elements], *, varies: bool) -> Elements:
    """Return what is known of elements that are computed from others."""
    all_read, none = list(all_read), frozenset[Value]()
    memory = none.union(*(each.memory for each in all_read))
    conditions = none.union(*(each.conditions for each in all_read))
    is_converted = any(each.is_converted for each in all_read)
    return Elements(varies, memory, conditions, is_converted)


Known = Callable[[Value], Elements]


class Variation:
    """Answers whether the elements of lowered tensors vary, each tensor once.

    One is for one function.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Elements] = {}
        self._zeros: dict[str, Any] = {}

    def vary(self, x: Value) -> Value:
        """The same elements, with a zero that the compiler does not know if need be."""
        if self.varies(x):
            return x
        element = ir.RankedTensorType(x.type).element_type
        return _with_bits(x, self._unknown_zero(_bits_of(element)))

    def _unknown_zero(self, bits: ElementType) -> Value:
        """A tensor of rank 0."""
        if str(bits) not in self._zeros:
            zero = arith.ConstantOp(bits, 0).result
            self._zeros[str(bits)] = scalar_barrier(zero)
        whole = ir.RankedTensorType.get([], bits)
        return tensor.from_elements(whole, [self._zeros[str(bits)]])

    def varies(self, value: Value) -> bool:
        """Whether IREE cannot find the elements of a tensor to be one number.

        (That it says no means only that nothing proves it.)
        """
        rest, read = [value], dict[Value, list[Value]]()
        while rest:
            last = rest[-1]
            if last in self._known:
                rest.pop()
            elif last in read:  # all of which is known by now
                known = self._known.__getitem__
                self._known[last] = _elements_of(last, read[last], known)
            else:
                read[last] = _read_by(last)
                rest += read[last]
        return self._known[value].varies


def _bits_of(element: ElementType) -> ElementType:
    """The integer of an element's bits; a byte for a bool.

    IREE 3.13 keeps bools as bytes, and refuses the tensor.from_elements of one that it
    has made of a number behind a barrier.
    """
    return ir.IntegerType.get_signless(max(element.width, 8))


def _with_bits(x: Value, some: Value) -> Value:
    """The elements of a tensor, `or` the integer in one of rank 0.

    Of that as many bits as an element has.
    """
    kind, bits = ir.RankedTensorType(x.type), some.type.element_type
    same = ir.AffineMap.get_identity(kind.rank)
    maps = [same, ir.AffineMap.get(kind.rank, 0, []), same]
    op = linalg.GenericOp(
        [kind],
        [x, some],
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
    dynamic = [axis for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
    places = [arith.ConstantOp(ir.IndexType.get(), axis).result for axis in dynamic]
    sizes = iter([tensor.dim(x, place) for place in places])
    shape = [next(sizes) if axis in dynamic else n for axis, n in enumerate(kind.shape)]
    return tensor.EmptyOp(shape, kind.element_type).result


def _read_by(value: Value) -> list[Value]:
    """The tensors whose elements decide whether those of `value` vary.

    None where its op alone tells, so that no history is followed beyond a product.
    """
    op = value.owner
    if isinstance(op, ir.Block) or op.name not in _ASKING or _is_reduction(op):
        return []
    read = [*op.operands, *_read_inside(op)]
    return [each for each in read if isinstance(each.type, ir.RankedTensorType)]


def _is_reduction(op: Operation) -> bool:
    """Whether an op is a linalg.generic that reduces."""
    if op.name != "linalg.generic":
        return False
    return has_reduction(op.attributes["iterator_types"])


def _read_inside(op: Operation) -> list[Value]:
    """The tensors of which single elements are read in the body of an op."""
    return [
        each.operands[0]
        for region in op.regions
        for block in region
        for each in block.operations
        if each.name == "tensor.extract"
    ]


def _elements_of(value: Value, read: Sequence[Value], known: Known) -> Elements:
    """Return what is known of the elements of a tensor, given those of `read`."""
    op = value.owner
    opaque = Elements(varies=True, memory=frozenset([value]))
    if isinstance(op, ir.Block):
        return opaque  # an argument, or what a loop starts from, behind a barrier
    if op.name == "arith.constant":
        return NUMBER if _is_one_number(op) else opaque
    if op.name in _REPEATED:
        return NUMBER
    if op.name == "linalg.generic":
        # What reduces has been given what varies.
        return opaque if _is_reduction(op) else _elements_of_body(op, known)
    if op.name in _MOVING:
        parts = [known(each) for each in read]
        varies = all(each.varies for each in parts) and not _cuts_out(op)
        return _mixture(parts, varies=varies)
    if op.name == "func.call":
        return opaque if _call_varies(op, read, known) else NUMBER
    # control flow may be decided
    named = op.name.startswith(("linalg.", "scf.for", "scf.while"))
    return opaque if named else NUMBER


def _cuts_out(op: Operation) -> bool:
    """Whether an op takes a part, perhaps without any element of a source's."""
    source = op.operands[0].owner
    is_slice = op.name == "tensor.extract_slice"
    return is_slice and not isinstance(source, ir.Block) and source.name in _JOINING


def _call_varies(op: Operation, read: Sequence[Value], known: Known) -> bool:
    """Whether the results of what IREE's side defines vary."""
    callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    body = body_of(find(callee)) or ""
    return "optimization_barrier" in body or all(known(each).varies for each in read)


def _is_one_number(constant: Operation) -> bool:
    value = constant.attributes["value"]
    return not isinstance(value, ir.DenseElementsAttr) or value.is_splat


# ---- bodies -------------------------------------------------------------------------


def _elements_of_body(op: Operation, known: Known) -> Elements:
    """Return what is known of the result of a linalg.generic that does not reduce."""
    block = op.regions[0].blocks[0]
    inputs = dict(zip(block.arguments, op.operands, strict=True))
    scalars = {argument: known(operand) for argument, operand in inputs.items()}
    for each in block.operations:
        if each.name == "linalg.yield":
            return scalars.get(each.operands[0], NUMBER)
        read = [scalars.get(operand, NUMBER) for operand in each.operands]
        if each.name == "tensor.extract":
            read = [known(each.operands[0])]
        found = _mixture(read, varies=_result_varies(each, read, scalars, inputs))
        if each.name in _CONVERSIONS and _is_integer(each.operands[0]):
            found = replace(found, is_converted=True)
        elif each.name == _SELECTION and _is_tensor_element(each.operands[0]):
            conditions = found.conditions | read[0].memory
            found = replace(found, conditions=conditions)
        scalars.update(dict.fromkeys(each.results, found))
    raise AssertionError("a body ends in a yield")


def _is_integer(scalar: Value) -> bool:
    return isinstance(scalar.type, ir.IntegerType)


def _is_tensor_element(scalar: Value) -> bool:
    return isinstance(scalar.owner, ir.Block)


def _result_varies(
    op: Operation,
    read: Sequence[Elements],
    scalars: Mapping[Value, Elements],
    inputs: Mapping[Value, Value],
) -> bool:
    """Whether no constant can be left of a scalar op.

    Args:
        op: in a body.
        read: what is known of its operands.
        scalars: what is known of those before it.
        inputs: the tensors of the body's arguments.
    """
    name, operands = op.name, list(op.operands)
    has = [each.varies for each in read]
    if name == _SELECTION:
        condition, *arms = read
        if any(condition.memory & arm.conditions for arm in arms):
            return False
        some = any(has[1:]) or _are_two_numbers(operands, inputs)
        return all(has[1:]) or (condition.varies and some)
    if name == "tensor.extract":
        return has[0]
    if not any(has):
        return False
    compared = exactly_compared(op)
    if compared is not None:
        sides = [scalars.get(each, NUMBER) for each in compared]
        return _comparison_varies(compared, sides, inputs)
    if name == _COMPARISON:
        # What it says of two sides that are one value IREE does not find.
        differ = all(has) and bool(operands[0] != operands[1])
        return differ or _comparison_varies(operands, read, inputs)
    if name in _POWERS:
        return all(has)
    return bool(name.startswith(_KEEPING))


def _comparison_varies(
    compared: Sequence[Value],
    sides: Sequence[Elements],
    inputs: Mapping[Value, Value],
) -> bool:
    """Whether a comparison of floats varies; see Note [comparisons that vary]."""
    one, other = sides
    if one.varies and other.varies:
        return not one.memory & other.memory
    fixed = compared[1] if one.varies else compared[0]
    varying = one if one.varies else other
    return varying.varies and not varying.is_converted and _is_finite(fixed, inputs)


def _is_finite(scalar: Value, inputs: Mapping[Value, Value]) -> bool:
    """Whether a scalar always is the same finite float."""
    number = _number(scalar, inputs)
    return isinstance(number, ir.FloatAttr) and math.isfinite(number.value)


def _are_two_numbers(selected: Sequence[Value], inputs: Mapping[Value, Value]) -> bool:
    """Whether a selection is from two different constants."""
    one, other = (_number(value, inputs) for value in selected[1:])
    return one is not None and other is not None and bool(one != other)


def _number(value: Value, inputs: Mapping[Value, Value]) -> ir.Attribute | None:
    """The constant that a scalar in a body always is, or None."""
    if isinstance(value.owner, ir.Block):
        filled = filled_with(inputs[value]) if value in inputs else None
        return None if filled is None else _constant(filled)
    return _constant(value)


def _constant(value: Value) -> ir.Attribute | None:
    op = value.owner
    is_constant = not isinstance(op, ir.Block) and op.name == "arith.constant"
    found: ir.Attribute | None = op.attributes["value"] if is_constant else None
    return found
