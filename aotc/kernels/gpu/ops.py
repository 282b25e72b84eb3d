"""Writes ops of Triton's IR at the insertion point.

A tile is a tensor of two axes, of which each may be 1; a number is no tensor. Integers
that the emitter knows stay Python's until a tile takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aotc.mlir import Block, Type, Value, arith, ir, scf

Shape = tuple[int, int]
Int = int | Value

_CACHE = 1  # no hint of where to keep what is read or written
PRECISIONS = {"tf32": 0, "tf32x3": 1, "ieee": 2}


def make(
    name: str, operands: Sequence[Value], result: Type | None, **attributes: int
) -> Value:
    """Emit an op with i32 attributes; return its result, or the op if it has none."""
    i32 = ir.IntegerType.get_signless(32)
    made = ir.Operation.create(
        name,
        results=[] if result is None else [result],
        operands=[*operands],
        attributes={k: ir.IntegerAttr.get(i32, v) for k, v in attributes.items()},
    )
    found: Value = made if result is None else made.result
    return found


def pointer_to(element: Type) -> Type:
    """Return Triton's type of pointers to an element type."""
    found: Type = ir.Type.parse(f"!tt.ptr<{element}>")
    return found


def tensor_of(shape: Sequence[int], element: Type) -> ir.RankedTensorType:
    """Return a ranked tensor type."""
    return ir.RankedTensorType.get([*shape], element)


def shape_of(x: Value) -> Shape | None:
    """Return the shape of a tile; None for a scalar."""
    if not isinstance(x.type, ir.RankedTensorType):
        return None
    rows, columns = x.type.shape
    return rows, columns


def is_tile(x: Value) -> bool:
    """Return whether a value is a tile, not a scalar."""
    return shape_of(x) is not None


def element_of(x: Value) -> Type:
    """Return the type of a scalar, or of the elements of a tile."""
    is_tile = isinstance(x.type, ir.RankedTensorType)
    found: Type = x.type.element_type if is_tile else x.type
    return found


def constant(kind: Type, value: float) -> Value:
    """Emit a constant scalar, or a tile filled with it."""
    is_tile = isinstance(kind, ir.RankedTensorType)
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    is_whole = isinstance(element, ir.IntegerType)
    number = (
        ir.IntegerAttr.get(element, int(value))
        if is_whole
        else ir.FloatAttr.get(element, float(value))
    )
    said = ir.DenseElementsAttr.get_splat(kind, number) if is_tile else number
    made: Value = ir.Operation.create(
        "arith.constant", attributes={"value": said}, results=[kind]
    ).result
    return made


def spread(x: Value, shape: Shape | None) -> Value:
    """Emit a broadcast of a scalar or smaller tile to a shape, if necessary."""
    own = shape_of(x)
    if own == shape or shape is None:
        return x
    kind = tensor_of(shape, element_of(x))
    return make("tt.splat" if own is None else "tt.broadcast", [x], kind)


def common_shape(values: Sequence[Value]) -> Shape | None:
    """Return the shape that tiles broadcast to; None for scalars alone."""
    shapes = [shape for x in values if (shape := shape_of(x)) is not None]
    if not shapes:
        return None
    return max(rows for rows, _ in shapes), max(columns for _, columns in shapes)


def together(*values: Value) -> list[Value]:
    """Emit broadcasts of tiles and scalars to their common shape."""
    shape = common_shape(values)
    return [spread(x, shape) for x in values]


class IndexArithmetic:
    """An emitter of integer arithmetic for sizes, indices and offsets, with folding.

    Args:
        bits: of them.
    """

    def __init__(self, bits: int) -> None:
        self.kind = ir.IntegerType.get_signless(bits)

    def value(self, x: Int) -> Value:
        """Return an integer as an IR value."""
        return constant(self.kind, x) if isinstance(x, int) else x

    def wide(self, x: Value) -> Value:
        """Emit the extension of an i32 to the integer type of indices."""
        if self.kind.width == 32:
            return x
        shape = shape_of(x)
        kind = self.kind if shape is None else tensor_of(shape, self.kind)
        return arith.extsi(kind, x)

    def add(self, x: Int, y: Int) -> Int:
        """Emit or fold x + y."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        for known, other in ((x, y), (y, x)):
            if isinstance(known, int) and known == 0:
                return other
        return arith.addi(*self._pair(x, y))

    def multiply(self, x: Int, y: Int) -> Int:
        """Emit or fold x * y."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        for known, other in ((x, y), (y, x)):
            if isinstance(known, int) and known in (0, 1):
                return other if known else 0
        return arith.muli(*self._pair(x, y))

    def divide(self, x: Int, y: Int) -> Int:
        """Emit or fold x // y, neither of them negative."""
        if isinstance(y, int) and (y == 1 or isinstance(x, int)):
            return x if isinstance(x, Value) else x // y
        return arith.divsi(*self._pair(x, y))

    def remainder(self, x: Int, y: Int) -> Int:
        """Emit or fold x % y, neither of them negative."""
        if isinstance(y, int) and (y == 1 or isinstance(x, int)):
            return 0 if isinstance(x, Value) else x % y
        return arith.remsi(*self._pair(x, y))

    def least(self, x: Int, y: Int) -> Int:
        """Emit or fold min(x, y)."""
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        return arith.minsi(*self._pair(x, y))

    def most(self, x: Int, y: Int) -> Int:
        """Emit or fold max(x, y)."""
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y)
        return arith.maxsi(*self._pair(x, y))

    def is_less(self, x: Int, y: Int) -> Value:
        """Emit the comparison x < y."""
        return arith.cmpi(arith.CmpIPredicate.slt, *self._pair(x, y))

    def is_at_least(self, x: Int, y: Int) -> Value:
        """Emit the comparison x >= y."""
        return arith.cmpi(arith.CmpIPredicate.sge, *self._pair(x, y))

    def _pair(self, x: Int, y: Int) -> list[Value]:
        """Return two integers as IR values of one shape."""
        return together(self.value(x), self.value(y))


def both(masks: Sequence[Value]) -> Value | None:
    """Emit the conjunction of masks; None for no masks."""
    found: Value | None = None
    for mask in masks:
        found = mask if found is None else arith.andi(*together(found, mask))
    return found


def program_id(axis: int = 0) -> Value:
    """Emit the number of this program instance, an i32."""
    i32 = ir.IntegerType.get_signless(32)
    return make("tt.get_program_id", [], i32, axis=axis)


def make_range(count: int, axis: int) -> Value:
    """Emit 0 … count - 1 along an axis of a tile, as i32."""
    i32 = ir.IntegerType.get_signless(32)
    line = make("tt.make_range", [], tensor_of([count], i32), start=0, end=count)
    shape = (count, 1) if axis == 0 else (1, count)
    return make("tt.expand_dims", [line], tensor_of(shape, i32), axis=1 - axis)


def load(pointers: Value, element: Type, mask: Value | None, other: float = 0) -> Value:
    """Emit a load at pointers, with `other` where a mask is not set."""
    if mask is not None:
        pointers, mask = together(pointers, mask)
    shape = shape_of(pointers)
    kind = element if shape is None else tensor_of(shape, element)
    rest = [] if mask is None else [mask, constant(kind, other)]
    made = ir.Operation.create(
        "tt.load",
        results=[kind],
        operands=[pointers, *rest],
        attributes={
            "operandSegmentSizes": _segments(1, *[1 if rest else 0] * 2),
            "cache": _i32(_CACHE),
            "evict": _i32(_CACHE),
            "isVolatile": ir.BoolAttr.get(False),
        },
    )
    found: Value = made.result
    return found


def store(pointers: Value, values: Value, mask: Value | None) -> None:
    """Emit a store of values at pointers, where a mask is set."""
    shape = shape_of(pointers)
    rest = [] if mask is None else [spread(mask, shape)]
    make(
        "tt.store",
        [pointers, spread(values, shape), *rest],
        None,
        cache=_CACHE,
        evict=_CACHE,
    )


def move_pointers(base: Value, number: Int, along: Int) -> Value:
    """Emit `base` advanced by a scalar offset and by a tile of distances."""
    pointer = base.type
    if isinstance(number, Value):
        base = make("tt.addptr", [base, number], pointer)
    elif number:
        at = constant(ir.IntegerType.get_signless(32), number)
        base = make("tt.addptr", [base, at], pointer)
    if isinstance(along, int):
        return base
    kind = tensor_of(along.type.shape, pointer)
    return make("tt.addptr", [make("tt.splat", [base], kind), along], kind)


def transpose(x: Value, kind: Type) -> Value:
    """Emit the transpose of a tile."""
    order: ir.Attribute = ir.DenseI32ArrayAttr.get([1, 0])
    made = ir.Operation.create(
        "tt.trans", results=[kind], operands=[x], attributes={"order": order}
    )
    found: Value = made.result
    return found


def dot(x: Value, y: Value, total: Value, precision: str) -> Value:
    """Emit the matrix product of two tiles, added to a third."""
    return make(
        "tt.dot",
        [x, y, total],
        total.type,
        inputPrecision=PRECISIONS[precision],
        maxNumImpreciseAcc=0,
    )


def reduce(x: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Emit the reduction of each row of a tile; return a tile of one column."""
    rows, element = x.type.shape[0], x.type.element_type
    made = _reduce(x, 1, tensor_of([rows], element), combine)
    return make("tt.expand_dims", [made], tensor_of([rows, 1], element), axis=1)


def reduce_all(x: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Emit the reduction of all elements of a tile to a scalar."""
    rows, element = x.type.shape[0], x.type.element_type
    made = _reduce(x, 1, tensor_of([rows], element), combine)
    return _reduce(made, 0, element, combine)


def _reduce(
    x: Value, axis: int, kind: Type, combine: Callable[[Value, Value], Value]
) -> Value:
    """Emit the reduction of a tensor along an axis to the type `kind`."""
    element = x.type.element_type
    made = ir.Operation.create(
        "tt.reduce",
        results=[kind],
        operands=[x],
        attributes={"axis": _i32(axis)},
        regions=1,
    )
    block = made.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        make("tt.reduce.return", [combine(*block.arguments)], None)
    found: Value = made.result
    return found


def loop(
    end: Value,
    step: Value,
    carried: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], Sequence[Value]],
) -> list[Value]:
    """Emit a loop from 0 to `end` with carried values; return their final values."""
    zero = constant(end.type, 0)
    made = scf.ForOp(zero, end, step, [*carried])
    block: Block = made.body
    with ir.InsertionPoint(block):
        scf.YieldOp(body(made.induction_variable, [*made.inner_iter_args]))
    return [*made.results]


def when(condition: Value, body: Callable[[], None]) -> None:
    """Emit a body that runs only if a condition holds."""
    made = ir.Operation.create("scf.if", operands=[condition], regions=2)
    with ir.InsertionPoint(made.regions[0].blocks.append()):
        body()
        scf.YieldOp([])


def _i32(value: int) -> ir.IntegerAttr:
    """Return an i32 attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def _segments(*sizes: int) -> ir.Attribute:
    """Return an attribute of operand segment sizes."""
    found: ir.Attribute = ir.DenseI32ArrayAttr.get([*sizes])
    return found
