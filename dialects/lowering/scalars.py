"""Scalar bodies with exact results: signs, shifts, integer division, comparison.

Each takes elements of operands, inside of a `linalg.generic`, and returns an element.
"""

from collections.abc import Callable, Sequence
from functools import wraps

from aotc.core import dtypes
from aotc.mlir import (
    Block,
    ElementType,
    Operation,
    Type,
    Value,
    arith,
    ir,
    math,
    scf,
)

# Elements of the operands → the element of the result, written at the insertion point.
Body = Callable[..., Value]


def constant(element: Type, value: float) -> Value:
    """Emit `value` as a scalar of MLIR type `element`, or in all lanes of a vector."""
    if isinstance(element, ir.VectorType):
        number = _attribute(element.element_type, value)
        return constant_of(ir.DenseElementsAttr.get_splat(element, number))
    return constant_of(_attribute(element, value))


def _attribute(element: Type, value: float) -> ir.Attribute:
    """Return an integer or float attribute of type `element`."""
    if isinstance(element, ir.IntegerType):
        return ir.IntegerAttr.get(element, int(value))
    return ir.FloatAttr.get(element, float(value))


def constant_of(value: ir.Attribute) -> Value:
    """Emit an arith.constant of an MLIR attribute, a number or a tensor."""
    made: Value = ir.Operation.create(
        "arith.constant", attributes={"value": value}, infer_type=True
    ).result
    return made


def float_compare(predicate: str, x: Value, y: Value) -> Value:
    """Emit a comparison of floats; "greater" is swapped, where VMVX gets NaN right."""
    if predicate in ("OGT", "OGE"):
        predicate, x, y = predicate.replace("G", "L"), y, x
    return arith.cmpf(getattr(arith.CmpFPredicate, predicate), x, y)


def int_compare(predicate: str, x: Value, y: Value) -> Value:
    """Emit a comparison of integers: eq, ne; `s` or `u` before lt, le, gt, ge."""
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), x, y)


def sign_float(x: Value) -> Value:
    """Emit -1, 0 or 1, also of subnormal numbers; 0 for both zeros, NaN for NaN."""
    unit, magnitude = with_sign(constant(x.type, 1.0), x), math.absf(x)
    size = _bits(magnitude)
    nonzero = int_compare("slt", constant(size.type, 0), size)
    known = int_compare("sle", size, constant(size.type, _infinity_bits(x.type)))
    return arith.select(arith.andi(nonzero, known), unit, magnitude)


def with_sign(magnitude: Value, x: Value) -> Value:
    """Emit a nonnegative `magnitude` with the sign of `x` (VMVX has no copysign)."""
    return arith.select(is_negative(x), arith.negf(magnitude), magnitude)


def is_negative(x: Value) -> Value:
    """Emit whether the sign bit of a float is set."""
    bits = _bits(x)
    return int_compare("slt", bits, constant(bits.type, 0))


def never(number: Value) -> Value:
    """Emit False in a form that MLIR cannot fold, as it depends on `number`.

    It is the second bit of a square; LLVM knows that, but only once all has its order.
    """
    integer = ir.IntegerType.get_signless(number.type.width)
    bits = number if number.type == integer else arith.bitcast(integer, number)
    second = arith.andi(arith.muli(bits, bits), constant(integer, 2))
    return int_compare("ne", second, constant(integer, 0))


def power_of_two(exponent: Value, element: ElementType) -> Value:
    """Emit 2**exponent as a float of the same width, which must be a normal number."""
    fraction = _FRACTION_BITS[str(element)]
    bias = (1 << (element.width - fraction - 2)) - 1
    biased = arith.addi(exponent, constant(exponent.type, bias))
    bits = arith.shli(biased, constant(exponent.type, fraction))
    return arith.bitcast(element, bits)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Emit a polynomial in x by Horner's scheme, highest power first."""
    value = constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        value = math.fma(value, x, constant(x.type, coefficient))
    return value


def in_f32(body: Body) -> Body:
    """Wrap a scalar body of f32 or f64 so that half precision is computed in f32."""

    @wraps(body)
    def wide(*elements: Value) -> Value:
        element = elements[0].type
        if isinstance(element, ir.VectorType) or element.width > 16:  # vectors of f32
            return body(*elements)
        f32 = ir.F32Type.get()
        return arith.truncf(element, body(*(arith.extf(f32, x) for x in elements)))

    return wide


def is_nan(x: Value) -> Value:
    """Emit whether a float is NaN, by its bits: VMVX takes `x != x` for false."""
    bits = _bits(x)
    size = arith.andi(bits, constant(bits.type, (1 << (x.type.width - 1)) - 1))
    return int_compare("sgt", size, constant(bits.type, _infinity_bits(x.type)))


def _infinity_bits(element: ElementType) -> int:
    """Return the bits of infinity as an integer."""
    fraction, width = _FRACTION_BITS[str(element)], int(element.width)
    return ((1 << (width - 1)) - 1) >> fraction << fraction


_FRACTION_BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def _bits(x: Value) -> Value:
    """Emit a bitcast of a float to an integer."""
    return arith.bitcast(ir.IntegerType.get_signless(x.type.width), x)


@in_f32
def remainder(x: Value, y: Value) -> Value:
    """Emit x less a whole multiple of y, with the sign of x: C's fmod, exact.

    A long division of the fractions in integers, as many bits at a time as there is
    room for. (IREE's `remf` has no f64 code, and rounds to even on VMVX.)
    """
    fraction = _FRACTION_BITS[str(x.type)]
    a, b = _bits(math.absf(x)), _bits(math.absf(y))
    (high, dividend), (low, divisor) = _unpack(a, fraction), _unpack(b, fraction)
    divisor = arith.maxsi(divisor, constant(a.type, 1))
    rest = _long_division(dividend, divisor, arith.subi(high, low), fraction)
    unit = arith.bitcast(x.type, arith.shli(low, constant(a.type, fraction)))
    scaled = arith.mulf(arith.sitofp(x.type, rest), constant(x.type, 2.0**-fraction))
    value = arith.select(
        int_compare("slt", a, b), math.absf(x), arith.mulf(scaled, unit)
    )
    infinity = constant(a.type, _infinity_bits(x.type))
    undefined = arith.ori(
        int_compare("sge", a, infinity), int_compare("sgt", b, infinity)
    )
    by_zero = int_compare("eq", b, constant(a.type, 0))
    undefined = arith.ori(undefined, by_zero)
    nan = constant(x.type, float("nan"))
    return arith.select(undefined, nan, with_sign(value, x))


def _unpack(bits: Value, fraction: int) -> tuple[Value, Value]:
    """Emit the biased exponent and the whole fraction of a positive float's bits."""
    one, width = constant(bits.type, 1), constant(bits.type, fraction)
    exponent = arith.shrsi(bits, width)
    rest = arith.andi(bits, constant(bits.type, (1 << fraction) - 1))
    leading = arith.shli(arith.minsi(exponent, one), width)  # a subnormal has none
    return arith.maxsi(exponent, one), arith.ori(rest, leading)


def _long_division(
    dividend: Value, divisor: Value, places: Value, fraction: int
) -> Value:
    """Emit `dividend * 2**places` modulo `divisor`, by a loop of divisions."""
    kind = dividend.type
    room = constant(kind, kind.width - fraction - 2)
    first = arith.remsi(dividend, divisor)
    loop = scf.WhileOp([kind, kind], [first, places])
    before = loop.before.blocks.append(kind, kind)
    with ir.InsertionPoint(before):
        more = int_compare("sgt", before.arguments[1], constant(kind, 0))
        scf.ConditionOp(more, list(before.arguments))
    after = loop.after.blocks.append(kind, kind)
    with ir.InsertionPoint(after):
        rest, left = after.arguments
        step = arith.minsi(left, room)
        rest = arith.remsi(arith.shli(rest, step), divisor)
        scf.YieldOp([rest, arith.subi(left, step)])
    return loop.results[0]


def sign_int(x: Value) -> Value:
    """Emit -1, 0 or 1 of an integer: max(min(x, 1), -1)."""
    below = arith.minsi(x, constant(x.type, 1))
    return arith.maxsi(below, constant(x.type, -1))


def invert(x: Value) -> Value:
    """Emit an integer with all bits flipped."""
    return arith.xori(x, constant(x.type, -1))


def shift(operation: Body, beyond: Body) -> Body:
    """Return a body for a shift, defined for negative and too large counts as well.

    Args:
        operation: the shift proper.
        beyond: the result for such a count, from the shifted element.
    """

    def body(x: Value, count: Value) -> Value:
        width = constant(x.type, x.type.width)
        defined = int_compare("ult", count, width)
        shifted = operation(x, arith.select(defined, count, constant(x.type, 0)))
        return arith.select(defined, shifted, beyond(x))

    return body


def with_zero_extension(operation: Body) -> Body:
    """Return `operation` run in at least 32 bits: VMVX sign-extends narrow integers."""

    def body(x: Value, y: Value) -> Value:
        if x.type.width >= 32:
            return operation(x, y)
        i32 = ir.IntegerType.get_signless(32)
        wide = operation(arith.extui(i32, x), arith.extui(i32, y))
        return arith.trunci(x.type, wide)

    return body


def zero(x: Value) -> Value:
    """Emit 0 in the type of `x`."""
    return constant(x.type, 0)


def sign_bits(x: Value) -> Value:
    """Emit an integer's sign bit in every bit: 0 or -1."""
    return arith.shrsi(x, constant(x.type, x.type.width - 1))


def divide_signed(x: Value, y: Value) -> Value:
    """Emit division towards zero: -1 for y = 0, and no trap on overflow."""
    zero, minus_one = constant(x.type, 0), constant(x.type, -1)
    by_zero = int_compare("eq", y, zero)
    negating = int_compare("eq", y, minus_one)
    risky = arith.ori(by_zero, negating)
    quotient = arith.divsi(x, arith.select(risky, constant(x.type, 1), y))
    negated = arith.subi(zero, x)
    return arith.select(by_zero, minus_one, arith.select(negating, negated, quotient))


def divide_unsigned(x: Value, y: Value) -> Value:
    """Emit division of unsigned integers; all bits are one for y = 0."""
    by_zero = int_compare("eq", y, constant(x.type, 0))
    quotient = with_zero_extension(arith.divui)(
        x, arith.select(by_zero, constant(x.type, 1), y)
    )
    return arith.select(by_zero, constant(x.type, -1), quotient)


def comparison(dtype: str, direction: str, *, is_exact: bool = False) -> Body:
    """Return a function that emits the comparison of two elements of `dtype`.

    Args:
        dtype: of both.
        direction: eq, ne, lt, le, gt or ge.
        is_exact: whether subnormal numbers are told from 0. (Those of f16 always are:
            it is compared in f32, where they are normal.)
    """
    if dtypes.is_float(dtype) and is_exact and dtype != "f16":
        return lambda x, y: _compare_floats(direction, x, y)
    if dtypes.is_float(dtype):
        predicate = "UNE" if direction == "ne" else f"O{direction.upper()}"
        return lambda x, y: float_compare(predicate, x, y)
    if direction not in ("eq", "ne"):
        signed = dtype in dtypes.SIGNED
        direction = ("s" if signed else "u") + direction
    return lambda x, y: int_compare(direction, x, y)


def _compare_floats(direction: str, x: Value, y: Value) -> Value:
    """Emit a comparison of floats that tells subnormal ones from 0.

    Note [subnormal numbers]: IREE 3.13 calls compiled code with a processor that takes
    them for 0, on CPUs and VMVX. What it finds equal is told apart by the bits, whose
    order as integers is that of the numbers; what it does not is NaN.
    """
    if direction in ("gt", "ge"):
        direction, x, y = direction.replace("g", "l"), y, x
    nearly = {"lt": "OLE", "le": "OLE", "eq": "OEQ", "ne": "UNE"}[direction]
    exactly = direction if direction in ("eq", "ne") else f"s{direction}"
    join = arith.ori if direction == "ne" else arith.andi
    found: Value = join(
        float_compare(nearly, x, y),
        int_compare(exactly, _ordered_bits(x), _ordered_bits(y)),
    )
    return found


def exactly_compared(op: Operation) -> tuple[Value, Value] | None:
    """Return x and y if `op` ends an exact float comparison of them, else None."""
    if op.name not in ("arith.andi", "arith.ori"):
        return None
    nearly, exactly = (operand.owner for operand in op.operands)
    if not (_is_named(nearly, "arith.cmpf") and _is_named(exactly, "arith.cmpi")):
        return None
    predicates = tuple(
        ir.IntegerAttr(each.attributes["predicate"]).value for each in (nearly, exactly)
    )
    x, y = nearly.operands
    same = [*map(_ordered_float, exactly.operands)] == [x, y]
    return (x, y) if same and (op.name, *predicates) in _EXACT else None


# the ops of `_compare_floats`: that which joins, and the predicates of those it joins
_EXACT = {
    (f"arith.{join}", int(nearly), int(exactly))
    for join, nearly, exactly in (
        ("andi", arith.CmpFPredicate.OLE, arith.CmpIPredicate.slt),
        ("andi", arith.CmpFPredicate.OLE, arith.CmpIPredicate.sle),
        ("andi", arith.CmpFPredicate.OEQ, arith.CmpIPredicate.eq),
        ("ori", arith.CmpFPredicate.UNE, arith.CmpIPredicate.ne),
    )
}


def _is_named(owner: Operation | Block, name: str) -> bool:
    """Return whether the owner of a value is an op of this name, and no block."""
    return not isinstance(owner, ir.Block) and owner.name == name


def _ordered_bits(x: Value) -> Value:
    """Emit a signed integer in the order of floats; the same for 0 and -0."""
    bits = _bits(x)
    least = constant(bits.type, -(1 << (x.type.width - 1)))
    negative = int_compare("slt", bits, constant(bits.type, 0))
    return arith.select(negative, arith.subi(least, bits), bits)


def _ordered_float(integer: Value) -> Value | None:
    """Return x if `integer` is made by `_ordered_bits(x)`, else None."""
    if not _is_named(integer.owner, "arith.select"):
        return None
    _, other, bits = integer.owner.operands
    is_other = _is_named(other.owner, "arith.subi") and other.owner.operands[1] == bits
    is_float = is_other and _is_named(bits.owner, "arith.bitcast")
    return bits.owner.operands[0] if is_float else None


def power_signed(x: Value, y: Value) -> Value:
    """Emit x**y of integers; for y < 0 towards zero, so 0 unless x is 1 or -1."""
    base, exponent = (_at_least_32(arith.extsi, value) for value in (x, y))
    negative = int_compare("slt", exponent, constant(base.type, 0))
    vanishing = int_compare("ne", sign_int(base), base)  # |x| > 1
    vanishing = arith.andi(negative, vanishing)
    base = arith.select(vanishing, constant(base.type, 0), base)
    value = _power_by_squaring(base, math.absi(exponent))
    return value if value.type == x.type else arith.trunci(x.type, value)


def power_unsigned(x: Value, y: Value) -> Value:
    """Emit x**y of unsigned integers."""
    value = _power_by_squaring(*(_at_least_32(arith.extui, v) for v in (x, y)))
    return value if value.type == x.type else arith.trunci(x.type, value)


def _at_least_32(extend: Body, x: Value) -> Value:
    """Emit an integer extended to 32 bits, if it is narrower."""
    i32 = ir.IntegerType.get_signless(32)
    return x if x.type.width >= 32 else extend(i32, x)


def _power_by_squaring(x: Value, exponent: Value) -> Value:
    """Emit a loop that computes x**exponent by squaring, for an unsigned exponent."""
    kind = x.type
    one = constant(kind, 1)
    loop = scf.WhileOp([kind] * 3, [one, x, exponent])
    before = loop.before.blocks.append(kind, kind, kind)
    with ir.InsertionPoint(before):
        more = int_compare("ne", before.arguments[2], constant(kind, 0))
        scf.ConditionOp(more, list(before.arguments))
    after = loop.after.blocks.append(kind, kind, kind)
    with ir.InsertionPoint(after):
        value, square, bits = after.arguments
        odd = int_compare("ne", arith.andi(bits, one), constant(kind, 0))
        value = arith.select(odd, arith.muli(value, square), value)
        rest = arith.shrui(bits, one)
        scf.YieldOp([value, arith.muli(square, square), rest])
    return loop.results[0]
