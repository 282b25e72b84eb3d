"""What kernels are written with: index arithmetic, vectors of f32, loops and branches.

Each function writes at the current insertion point. Memory is a memref of one axis, and
a place in it is a number of elements. Elements of bf16 and f16 are f32 from where they
are loaded to where they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aotc.dialects.functions import current_function
from aotc.dialects.lowering.scalars import constant, constant_of
from aotc.mlir import Type, Value, arith, ir, scf

Values = list[Value]


def index(value: int) -> Value:
    """A constant of type index."""
    return constant_of(ir.IntegerAttr.get(ir.IndexType.get(), value))


def add(base: Value, offset: Value | int) -> Value:
    """`base + offset`."""
    if isinstance(offset, int):
        return base if offset == 0 else arith.addi(base, index(offset))
    return arith.addi(base, offset)


def scale(base: Value, factor: int) -> Value:
    """`base * factor`."""
    return base if factor == 1 else arith.muli(base, index(factor))


def vector_type(lanes: int, element: Type | None = None) -> Type:
    """A vector of f32, or of other elements."""
    kind: Type = ir.VectorType.get([lanes], element or ir.F32Type.get())
    return kind


def splat(value: float, lanes: int) -> Value:
    """A constant vector of one number."""
    return constant(vector_type(lanes), value)


def splat_integer(value: int, lanes: int, bits: int) -> Value:
    """A constant vector of one integer, as so many bits have it."""
    element = ir.IntegerType.get_signless(bits)
    signed = value - (1 << bits) if value >= 1 << bits - 1 else value
    number = ir.IntegerAttr.get(element, signed)
    splat = ir.DenseElementsAttr.get_splat(vector_type(lanes, element), number)
    return constant_of(splat)


def elements(values: Sequence[float]) -> Value:
    """A constant vector of some numbers."""
    numbers = np.array(values, np.float32)
    kind = vector_type(len(values))
    return constant_of(ir.DenseElementsAttr.get(numbers, type=kind))


def repeat(element: Value, lanes: int) -> Value:
    """An element in all lanes."""
    return _make("vector.broadcast", [element], vector_type(lanes, element.type))


def load_element(memory: Value, at: Value) -> Value:
    """One element; a float as f32."""
    return _widen(_make("memref.load", [memory, at], memory.type.element_type))


def load(
    memory: Value, at: Value, lanes: int, count: int | Value | None = None
) -> Value:
    """A vector from `at` on; zeros follow the `count` elements of it.

    Floats are f32 from here on, integers what they are.
    """
    if count is None or count == lanes:
        return _widen(load_as_is(memory, at, lanes))
    kind = vector_type(lanes, memory.type.element_type)
    given = [memory, at, _mask(lanes, count), _zeros(kind)]
    return _widen(_make("vector.maskedload", given, kind))


def load_as_is(memory: Value, at: Value, lanes: int) -> Value:
    """A vector of the elements that memory holds."""
    kind = vector_type(lanes, memory.type.element_type)
    return _make("vector.load", [memory, at], kind)


def _zeros(kind: Type) -> Value:
    assert isinstance(kind, ir.VectorType)
    if isinstance(kind.element_type, ir.IntegerType):
        zero = ir.IntegerAttr.get(kind.element_type, 0)
        return constant_of(ir.DenseElementsAttr.get_splat(kind, zero))
    return constant(kind, 0.0)


def zeros(lanes: int, element: Type) -> Value:
    """A vector of zeros."""
    return _zeros(vector_type(lanes, element))


def select_first(x: Value, count: int, otherwise: float) -> Value:
    """The first `count` elements of a vector, and a number in place of the others."""
    lanes = x.type.shape[0]
    if count == lanes:
        return x
    return arith.select(_mask(lanes, count), x, splat(otherwise, lanes))


def store(
    vector: Value, memory: Value, at: Value, lanes: int, count: int | None = None
) -> None:
    """Write a vector, or its first `count` elements.

    Memory narrower than f32 can hold them: they were rounded
    (`aotc.kernels.cpu.rounding`).
    """
    vector = _narrow(vector, memory.type.element_type)
    if count is None or count == lanes:
        ir.Operation.create("vector.store", operands=[vector, memory, at])
        return
    mask = _mask(lanes, count)
    ir.Operation.create("vector.maskedstore", operands=[memory, at, mask, vector])


def _widen(x: Value) -> Value:
    """An element or a vector as f32, which holds all bf16 and f16."""
    element = x.type.element_type if isinstance(x.type, ir.VectorType) else x.type
    if element == ir.F32Type.get() or isinstance(element, ir.IntegerType):
        return x
    wide = ir.F32Type.get() if element == x.type else vector_type(_lanes(x))
    return arith.extf(wide, x)


def _narrow(x: Value, element: Type) -> Value:
    """A vector of f32 that are all bf16 or f16, as such.

    A bf16 is the upper half of its f32. IREE's own conversion rounds, with as many
    operations again.
    """
    if element == x.type.element_type:
        return x
    lanes = _lanes(x)
    if isinstance(element, ir.IntegerType):
        return arith.trunci(vector_type(lanes, element), x)
    if element != ir.BF16Type.get():
        return arith.truncf(vector_type(lanes, element), x)
    i16, i32 = (vector_type(lanes, ir.IntegerType.get_signless(n)) for n in (16, 32))
    half = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 16)
    places = constant_of(ir.DenseElementsAttr.get_splat(i32, half))
    upper = arith.trunci(i16, arith.shrui(arith.bitcast(i32, x), places))
    return arith.bitcast(vector_type(lanes, element), upper)


def repeat_run(memory: Value, at: Value, count: int, lanes: int) -> Value:
    """Elements beside each other that have 32 bits in all, `lanes` times."""
    run = load_as_is(memory, at, count)
    i32 = ir.IntegerType.get_signless(32)
    whole = _make("vector.bitcast", [run], vector_type(1, i32))
    every = _make("vector.broadcast", [whole], vector_type(lanes, i32))
    kind = vector_type(count * lanes, memory.type.element_type)
    return _make("vector.bitcast", [every], kind)


def call_intrinsic(name: str, operands: Sequence[Value], kind: Type) -> Value:
    """What an instruction of the processor makes, by LLVM's name for it."""
    count = len(operands)
    made: Value = ir.Operation.create(
        "llvm.call_intrinsic",
        results=[kind],
        operands=list(operands),
        attributes={
            "intrin": ir.StringAttr.get(name),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([count, 0]),
        },
    ).result
    return made


def prefetch(memory: Value, at: Value) -> None:
    """Bring what lies around a place into the first cache; it is read later."""
    ir.Operation.create(
        "memref.prefetch",
        operands=[memory, at],
        attributes={
            "isWrite": ir.BoolAttr.get(False),
            "localityHint": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 3),
            "isDataCache": ir.BoolAttr.get(True),
        },
    )


def transpose(rows: Sequence[Value]) -> Values:
    """A square of as many vectors as they have lanes, transposed.

    In rounds, one for each bit of a place in it: off-diagonal quarters change places
    in all squares of twice the bit (Eklundh, IEEE Transactions on Computers C-21 (1972)
    801).
    """
    found, lanes, bit = list(rows), len(rows), 1
    while bit < lanes:
        low = [n if n & bit == 0 else lanes + n - bit for n in range(lanes)]
        high = [n + bit if n & bit == 0 else lanes + n for n in range(lanes)]
        for number in range(lanes):
            if number & bit == 0:
                x, y = found[number], found[number + bit]
                found[number] = _shuffle(x, y, low)
                found[number + bit] = _shuffle(x, y, high)
        bit *= 2
    return found


def reduce_lanes(
    rows: Sequence[Value], combine: Callable[[Value, Value], Value]
) -> Value:
    """What the elements of each vector make together: of vector n in lane n.

    Of fewer vectors than lanes (a power of two), it is there again in the lanes that
    follow: of one vector, in all of them. The elements are combined in pairs, in rounds
    like those of `transpose`, in which the vectors become fewer.
    """
    found, lanes, bit = list(rows), rows[0].type.shape[0], 1
    while bit < lanes:
        low = [n if n & bit == 0 else lanes + n - bit for n in range(lanes)]
        high = [n + bit if n & bit == 0 else lanes + n for n in range(lanes)]
        found = found if len(found) > 1 else found * 2
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [combine(_shuffle(x, y, low), _shuffle(x, y, high)) for x, y in pairs]
        bit *= 2
    return found[0]


def concatenate(parts: Sequence[Value]) -> Value:
    """One vector of several of equal length; for the processor they stay apart."""
    found = list(parts)
    while len(found) > 1:
        rest = found[2:]
        x, y = found[:2]
        found = [_shuffle(x, y, list(range(_lanes(x) + _lanes(y)))), *rest]
    return found[0]


def split(x: Value, lanes: int) -> Values:
    """The inverse of `concatenate`."""
    whole = _lanes(x)
    return [
        _shuffle(x, x, list(range(first, first + lanes)))
        for first in range(0, whole, lanes)
    ]


def pick(x: Value, places: Sequence[int]) -> Value:
    """The elements at some places of a vector."""
    is_all = list(places) == list(range(_lanes(x)))
    return x if is_all else _shuffle(x, x, list(places))


def gather(found: Sequence[Value], places: Sequence[tuple[int, int]]) -> Value:
    """A vector of elements of some: each by the number of a vector and a place in it.

    A number of none of them stands for any element.
    """
    lanes = len(places)
    made = pick(found[0], [at if number == 0 else 0 for number, at in places])
    for this, vector in enumerate(found[1:], 1):
        chosen = [
            lanes + at if number == this else n for n, (number, at) in enumerate(places)
        ]
        made = _shuffle(made, vector, chosen)
    return made


def any_of(conditions: Value) -> Value:
    """Whether any lane of a vector of i1 is true."""
    made: Value = ir.Operation.create(
        "vector.reduction",
        results=[ir.IntegerType.get_signless(1)],
        operands=[conditions],
        attributes={"kind": ir.Attribute.parse("#vector.kind<or>")},
    ).result
    return made


def _shuffle(x: Value, y: Value, places: list[int]) -> Value:
    """The elements at some places of two vectors, one after the other."""
    made: Value = ir.Operation.create(
        "vector.shuffle",
        results=[vector_type(len(places), x.type.element_type)],
        operands=[x, y],
        attributes={"mask": ir.DenseI64ArrayAttr.get(places)},
    ).result
    return made


def iota_from(first: Value, lanes: int) -> Value:
    """A vector of i32: a number of type index and those after it."""
    kind = ir.VectorType.get([lanes], ir.IntegerType.get_signless(32))
    numbers = np.arange(lanes, dtype=np.int32)
    steps = constant_of(ir.DenseElementsAttr.get(numbers, type=kind))
    return arith.addi(repeat_index(first, lanes), steps)


def repeat_index(value: Value, lanes: int) -> Value:
    """A number of type index as i32, in all lanes."""
    kind = ir.IntegerType.get_signless(32)
    narrow = _make("arith.index_cast", [value], kind)
    return _make("vector.broadcast", [narrow], ir.VectorType.get([lanes], kind))


def allocate(count: int, element: Type | None = None) -> Value:
    """Memory of a workgroup for some elements, on its stack.

    It is allocated where the function begins: in a loop, each round would take more.
    """
    with ir.InsertionPoint.at_block_begin(current_function().entry_block):
        made: Value = ir.Operation.create(
            "memref.alloca",
            results=[ir.MemRefType.get([count], element or ir.F32Type.get())],
            attributes={
                "alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
            },
        ).result
    return made


def multiply_add(x: Value, y: Value, total: Value) -> Value:
    """`x * y + total`, rounded once."""
    return _make("vector.fma", [x, y, total], total.type)


def outer_product(
    element: Callable[[int], Value],
    right: Callable[[int], Value],
    sizes: tuple[int, int],
    sums: Values,
    combine: Callable[[Value, Value, Value], Value] = multiply_add,
) -> Values:
    """`sums`, by rows, plus all products of elements and vectors.

    The fewer of the two are held in registers, and of the others one at a time: no more
    than `rows * vectors + min(rows, vectors) + 1` registers are in use. `combine` adds
    the product of its first two arguments to the third.
    """
    rows, count = sizes
    found = list(sums)
    if rows >= count:
        held = [right(number) for number in range(count)]
        for row in range(rows):
            x = element(row)
            for number, y in enumerate(held):
                place = row * count + number
                found[place] = combine(x, y, sums[place])
        return found
    held = [element(row) for row in range(rows)]
    for number in range(count):
        y = right(number)
        for row, x in enumerate(held):
            place = row * count + number
            found[place] = combine(x, y, sums[place])
    return found


def loop(
    first: Value | int,
    last: Value | int,
    step: int,
    carried: Sequence[Value],
    body: Callable[[Value, Values], Sequence[Value]],
) -> Values:
    """Count from `first` to before `last`; `body(i, values)` gives the next values."""
    bounds = [index(x) if isinstance(x, int) else x for x in (first, last, step)]
    op = scf.ForOp(*bounds, list(carried))
    with ir.InsertionPoint(op.body):
        scf.YieldOp(list(body(op.induction_variable, list(op.inner_iter_args))))
    return list(op.results)


def repeat_for(
    first: Value | int, last: Value | int, step: int, body: Callable[[Value], None]
) -> None:
    """Count from `first` to before `last`, and do something with each number."""

    def write(number: Value, _: Values) -> Values:
        body(number)
        return []

    loop(first, last, step, [], write)


def branch(
    condition: Value | bool, then: Callable[[], None], otherwise: Callable[[], None]
) -> None:
    """Do one thing or the other."""
    if isinstance(condition, bool):
        (then if condition else otherwise)()
        return
    op = scf.IfOp(condition, has_else=True)
    for block, write in ((op.then_block, then), (op.else_block, otherwise)):
        with ir.InsertionPoint(block):
            write()
            scf.YieldOp([])


def _lanes(x: Value) -> int:
    count: int = x.type.shape[0]
    return count


def _mask(lanes: int, count: int | Value) -> Value:
    kind = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    if isinstance(count, Value):
        return _make("vector.create_mask", [count], kind)
    made: Value = ir.Operation.create(
        "vector.constant_mask",
        results=[kind],
        attributes={"mask_dim_sizes": ir.DenseI64ArrayAttr.get([count])},
    ).result
    return made


def _make(name: str, operands: Sequence[Value], kind: Type) -> Value:
    made: Value = ir.Operation.create(name, results=[kind], operands=operands).result
    return made
