"""Applies elementwise ops to tiles, by the rules that they have for elements.

The rule of an op is written for one element, and each op of that is then written for a
tile: all of them are elementwise. What Triton has no code for is made of what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aotc.dialects.graph import GraphOp, as_tuple, has_view
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.scalars import constant as number
from aotc.dialects.lowering.scalars import float_compare, in_f32, polynomial, with_sign
from aotc.dialects.types import Tensor, lowered_element
from aotc.errors import CompileError
from aotc.kernels.gpu import ops
from aotc.mlir import Operation, Type, Value, arith, func, ir, math

_HALF = 0.5  # where tanh and expm1 go from a series to e**x

# odd in x: tanh x = x + x**3 p(x**2) for |x| <= 0.5, least relative error, 2e-8
_TANH = (-0.00717537, 0.02107489, -0.05391628, 0.13333178, -0.33333331)


def _tanh(x: Value) -> Value:
    """Emit tanh x: 1 - 2 / (e**2|x| + 1) with the sign of x, or a series near 0."""
    size, square = math.absf(x), arith.mulf(x, x)
    one, two = number(x.type, 1.0), number(x.type, 2.0)
    power = math.exp(arith.mulf(two, size))
    far = with_sign(arith.subf(one, arith.divf(two, arith.addf(power, one))), x)
    near = math.fma(arith.mulf(x, square), polynomial(square, _TANH), x)
    return arith.select(_is_near(size), near, far)


def _expm1(x: Value) -> Value:
    """Emit e**x - 1, by Taylor's series near 0."""
    terms = [1 / 362880, 1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1]
    near = arith.mulf(x, polynomial(x, terms))
    far = arith.subf(math.exp(x), number(x.type, 1.0))
    return arith.select(_is_near(math.absf(x)), near, far)


def _log1p(x: Value) -> Value:
    """Emit ln(1 + x) as ln u x / (u - 1), where u is 1 + x as it was rounded.

    (Goldberg, "What every computer scientist should know about floating-point
    arithmetic", ACM Computing Surveys 23 (1991) 5, theorem 4.)
    """
    one = number(x.type, 1.0)
    u = arith.addf(one, x)
    rest = arith.subf(u, one)
    is_exact = float_compare("OEQ", rest, number(x.type, 0.0))
    safe = arith.select(is_exact, one, rest)
    found = arith.mulf(math.log(u), arith.divf(x, safe))
    infinite = float_compare("OEQ", u, number(x.type, float("inf")))
    found = arith.select(infinite, u, found)
    return arith.select(is_exact, x, found)


def _round_even(x: Value) -> Value:
    """Emit rounding to the nearest integer, ties to even, by adding 2**23."""
    size, big = math.absf(x), number(x.type, 2.0**23)
    whole = arith.subf(arith.addf(size, big), big)
    return with_sign(arith.select(float_compare("OLT", size, big), whole, size), x)


def _truncate(x: Value) -> Value:
    """Emit rounding towards zero."""
    return with_sign(math.floor(math.absf(x)), x)


def _is_near(size: Value) -> Value:
    """Emit the condition that |x| is near enough to 0 for a series."""
    return float_compare("OLT", size, number(size.type, _HALF))


# f16 and bf16 go through f32; there is nothing for f64
_REPLACED: Mapping[str, Callable[..., Value]] = {
    "math.tanh": in_f32(_tanh),
    "math.expm1": in_f32(_expm1),
    "math.log1p": in_f32(_log1p),
    "math.roundeven": in_f32(_round_even),
    "math.trunc": in_f32(_truncate),
}
# rounded as IEEE 754 says, where the plain op may come near to that only
_PRECISE = {"arith.divf": "tt.precise_divf", "math.sqrt": "tt.precise_sqrt"}

_ARITHMETIC = """addf addi andi bitcast cmpf cmpi constant divf divsi divui extf extsi
extui fptosi fptoui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli
negf ori remsi remui select shli shrsi shrui sitofp subf subi truncf trunci uitofp
xori"""
_FUNCTIONS = "absf absi ceil erf exp exp2 floor fma log log2 rsqrt sqrt"
# computed in f32, of elements of half as many bits
_IN_F32 = {"arith.divf", *(f"math.{name}" for name in _FUNCTIONS.split())}
_IN_F32 -= {"math.absf", "math.absi"}
_KNOWN = {f"arith.{name}" for name in _ARITHMETIC.split()}
_KNOWN |= {f"math.{name}" for name in _FUNCTIONS.split()}


# what is known of ops, by class, dtypes and attributes
_LIFTABLE: dict[tuple[type[GraphOp], tuple[str, ...], str], bool] = {}


class CannotLiftError(Exception):
    """An error for an op that has no code on tiles."""


class _OfElements(Lowering):
    """A lowering of elementwise ops on single elements, not on tensors."""

    def pointwise(
        self,
        inputs: Sequence[Value],
        result: Tensor,
        body: Callable[..., Value],
    ) -> Value:
        """Call the body on the elements themselves."""
        found: Value = body(*inputs)
        return found


def apply(op: GraphOp, operands: Sequence[Value]) -> Value:
    """Emit an elementwise op on tiles and scalars; return its result.

    Raises:
        CannotLiftError: there is no code for it.
    """

    def body(*elements: Value) -> Value:
        try:
            found = as_tuple(type(op).lower(_OfElements([]), op, *elements))
        except (AttributeError, TypeError, CompileError) as error:
            raise CannotLiftError(str(error)) from error
        value: Value = found[0]
        return value

    return lift(body, operands)


def can_lift(op: GraphOp) -> bool:
    """Return whether an elementwise op can be emitted on tiles of Triton's IR."""
    is_elementwise = type(op).on_scalars and len(op.operands) > 0 and not has_view(op)
    if not is_elementwise or len(op.results) != 1:
        return False
    kinds = tuple(Tensor.of(x).dtype for x in (*op.operands, *op.results))
    key = type(op), kinds, str(type(op).attributes_of(op))
    if key not in _LIFTABLE:
        with op.operation.context, ir.Location.unknown():
            module = ir.Module.create()
            elements = [lowered_element(kind) for kind in kinds[:-1]]
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("lifted", (elements, []))
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                try:
                    apply(op, [*block.arguments])
                    _LIFTABLE[key] = True
                except CannotLiftError:
                    _LIFTABLE[key] = False
    return _LIFTABLE[key]


def lift(body: Callable[..., Value], operands: Sequence[Value]) -> Value:
    """Emit, on tiles and scalars, the ops that a body emits for one element.

    Raises:
        CannotLiftError: it has an op that there is no code for.
    """
    operands = ops.together(*operands)
    shape = ops.common_shape(operands)
    holder = ir.Operation.create("builtin.module", regions=1)
    try:
        block = holder.regions[0].blocks.append(*map(ops.element_of, operands))
        with ir.InsertionPoint(block):
            result = body(*block.arguments)
        known = dict(zip(block.arguments, operands, strict=True))
        for each in block.operations:
            op = each.operation
            if op.name not in _KNOWN and op.name not in _REPLACED:
                raise CannotLiftError(op.name)
            known[op.result] = _write(op, known, shape)
        found: Value = known[result]
        return found
    finally:
        holder.erase()


def _write(
    op: Operation, tiles: Mapping[Value, Value], shape: ops.Shape | None
) -> Value:
    """Emit an op on elements as the same op, or a replacement, on tiles."""
    operands = [tiles[value] for value in op.operands]
    element = op.result.type
    kind = element if shape is None else ops.tensor_of(shape, element)
    if op.name == "arith.constant":
        return ops.constant(kind, op.attributes["value"].value)
    if op.name in _REPLACED:
        if isinstance(element, ir.F64Type):
            raise CannotLiftError(f"{op.name} of {element}")
        return lift(_REPLACED[op.name], operands)
    if op.name in _IN_F32 and isinstance(element, ir.F16Type | ir.BF16Type):
        return _write_in_f32(op, operands, kind)
    name = op.name
    if isinstance(element, ir.F32Type):
        name = _PRECISE.get(name, name)
    if name == "arith.bitcast":
        name = "tt.bitcast"
    attributes = {} if name != op.name else {k: op.attributes[k] for k in op.attributes}
    made: Value = ir.Operation.create(
        name, results=[kind], operands=operands, attributes=attributes
    ).result
    return made


def _write_in_f32(op: Operation, operands: Sequence[Value], kind: Type) -> Value:
    """Emit an op on tiles of f16 or bf16 in f32, rounded at the end.

    Of a quotient and a square root that is the one nearest (Figueroa, see
    `aotc.kernels.cpu.epilogue`).
    """

    def wide(*elements: Value) -> Value:
        f32 = ir.F32Type.get()
        given = [arith.extf(f32, x) for x in elements]
        made: Value = ir.Operation.create(op.name, results=[f32], operands=given).result
        return made

    narrow: Value = arith.truncf(kind, lift(wide, operands))
    return narrow
