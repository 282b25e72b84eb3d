"""Index arithmetic and vectors of f32, with which kernels are written.

Each function writes at the current insertion point. Memory is a memref of one axis, and
a place in it is a number of elements. Elements of bf16 and f16 are f32 from where they
are loaded to where they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc.dialects.functions.functions import current_function
from aotc.dialects.lowering.scalars import constant, constant_of
from aotc.mlir import Type, Value, arith, ir

Values = list[Value]


def index(value: int) -> Value:
    """Emit a constant of type index."""
    return constant_of(ir.IntegerAttr.get(ir.IndexType.get(), value))


def add(base: Value, offset: Value | int) -> Value:
    """Emit `base + offset`."""
    if isinstance(offset, int):
        return base if offset == 0 else arith.addi(base, index(offset))
    return arith.addi(base, offset)


def scale(base: Value, factor: int) -> Value:
    """Emit `base * factor`."""
    return base if factor == 1 else arith.muli(base, index(factor))


def vector_type(lanes: int, element: Type | None = None) -> Type:
    """Return a vector type, of f32 by default."""
    kind: Type = ir.VectorType.get([lanes], element or ir.F32Type.get())
    return kind


def splat(value: float, lanes: int) -> Value:
    """Emit a constant vector of one f32 number."""
    return constant(vector_type(lanes), value)


def elements(values: Sequence[float]) -> Value:
    """Emit a constant vector of several f32 numbers."""
    numbers = np.array(values, np.float32)
    kind = vector_type(len(values))
    return constant_of(ir.DenseElementsAttr.get(numbers, type=kind))


def repeat(element: Value, lanes: int) -> Value:
    """Emit a vector that repeats an element in all lanes."""
    return _make("vector.broadcast", [element], vector_type(lanes, element.type))


def load_element(memory: Value, at: Value) -> Value:
    """Emit the load of one element, floats extended to f32."""
    return _widen(load_element_as_is(memory, at))


def load_element_as_is(memory: Value, at: Value) -> Value:
    """Emit the load of one element, in the type of memory."""
    return _make("memref.load", [memory, at], memory.type.element_type)


def load(
    memory: Value, at: Value, lanes: int, count: int | Value | None = None
) -> Value:
    """Emit the load of `count` elements from `at` on; zeros follow in the vector.

    Floats are f32 from here on, integers what they are.
    """
    return _widen(load_as_is(memory, at, lanes, count))


def load_as_is(
    memory: Value, at: Value, lanes: int, count: int | Value | None = None
) -> Value:
    """Emit the load of a vector in the type of memory; zeros after `count`."""
    kind = vector_type(lanes, memory.type.element_type)
    if count is None or count == lanes:
        return _make("vector.load", [memory, at], kind)
    given = [memory, at, _mask(lanes, count), constant(kind, 0)]
    return _make("vector.maskedload", given, kind)


def load_each(memory: Value, places: Value) -> Value:
    """Emit a gather: one element of memory for each i32 of a vector of places."""
    lanes = _lanes(places)
    kind = vector_type(lanes, memory.type.element_type)
    given = [memory, index(0), places, _mask(lanes, lanes), constant(kind, 0)]
    return _make("vector.gather", given, kind)


def bits_of(x: Value) -> Value:
    """Emit the bits of a vector of f32, as i32."""
    return arith.bitcast(_integers(_lanes(x)), x)


def as_words(x: Value) -> Value:
    """Emit a bitcast of narrower elements, side by side, to i32."""
    size = _lanes(x) * x.type.element_type.width // 32
    return _make("vector.bitcast", [x], _integers(size))


def as_elements(x: Value, element: Type) -> Value:
    """Emit the inverse of `as_words`, and of `bitcast_to_floats`."""
    if element == x.type.element_type:
        return x
    known: Any = element
    size = _lanes(x) * 32 // known.width
    return _make("vector.bitcast", [x], vector_type(size, element))


def bitcast_to_floats(x: Value) -> Value:
    """Emit a bitcast of narrower elements, side by side, to f32."""
    if x.type.element_type == ir.F32Type.get():
        return x
    words = as_words(x)
    return arith.bitcast(vector_type(_lanes(words)), words)


def select_first(x: Value, count: int, otherwise: float) -> Value:
    """Emit a vector's first `count` elements, with `otherwise` in the other lanes."""
    lanes = x.type.shape[0]
    if count == lanes:
        return x
    return arith.select(_mask(lanes, count), x, splat(otherwise, lanes))


def first_of(x: Value) -> Value:
    """Emit the extraction of a vector's first element."""
    place = ir.DenseI64ArrayAttr.get([0])
    return _make("vector.extract", [x], x.type.element_type, static_position=place)


def store_element(element: Value, memory: Value, at: Value) -> None:
    """Emit the store of one element, of the type that memory has."""
    ir.Operation.create("memref.store", operands=[element, memory, at])


def part_of(memory: Value, begin: Value, size: Value | int) -> Value:
    """Emit a memref of `size` elements of another memref, from `begin` on."""
    dynamic = ir.ShapedType.get_dynamic_size()
    is_static = isinstance(size, int)
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), [1])
    count = size if isinstance(size, int) else dynamic
    kind = ir.MemRefType.get([count], memory.type.element_type, layout)
    return _make(
        "memref.subview",
        [memory, begin, *([] if isinstance(size, int) else [size])],
        kind,
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, 1, int(not is_static), 0]),
        static_offsets=ir.DenseI64ArrayAttr.get([dynamic]),
        static_sizes=ir.DenseI64ArrayAttr.get([count]),
        static_strides=ir.DenseI64ArrayAttr.get([1]),
    )


def store(
    vector: Value,
    memory: Value,
    at: Value,
    lanes: int,
    count: int | Value | None = None,
) -> None:
    """Emit the store of a vector, or of its first `count` elements.

    Memory narrower than f32 can hold them: they were rounded
    (`aotc.kernels.cpu.rounding`).
    """
    vector = as_stored(vector, memory.type.element_type)
    if count is None or count == lanes:
        ir.Operation.create("vector.store", operands=[vector, memory, at])
        return
    mask = _mask(lanes, count)
    ir.Operation.create("vector.maskedstore", operands=[memory, at, mask, vector])


def _widen(x: Value) -> Value:
    """Emit the extension of bf16 or f16 to f32; other types stay as they are."""
    element = x.type.element_type if isinstance(x.type, ir.VectorType) else x.type
    if element == ir.F32Type.get() or isinstance(element, ir.IntegerType):
        return x
    wide = ir.F32Type.get() if element == x.type else vector_type(_lanes(x))
    return arith.extf(wide, x)


def as_stored(x: Value, element: Type) -> Value:
    """Emit the narrowing of a vector to the type of memory, which loses nothing.

    A bf16 is the upper half of its f32. IREE's own conversion rounds, with as many
    operations again.
    """
    if element == x.type.element_type:
        return x
    kind = vector_type(_lanes(x), element)
    if isinstance(element, ir.IntegerType):
        return arith.trunci(kind, x)
    if element != ir.BF16Type.get():
        return arith.truncf(kind, x)
    places = constant(_integers(_lanes(x)), 16)
    upper = arith.shrui(bits_of(x), places)
    return arith.bitcast(kind, arith.trunci(_integers(_lanes(x), 16), upper))


def repeat_run(memory: Value, at: Value, count: int, lanes: int) -> Value:
    """Emit a vector that repeats a run of `count` elements `lanes` times."""
    element = memory.type.element_type
    size = count * element.width
    if lanes == 1:
        return load_as_is(memory, at, count)
    if (count, size) == (2, 16):  # LLVM takes a vector of two bytes apart on Arm
        whole = _two_bytes(memory, at)
    else:
        run = load_as_is(memory, at, count)
        whole = _make("vector.bitcast", [run], _integers(1, size))
    every = _make("vector.broadcast", [whole], _integers(lanes, size))
    return _make("vector.bitcast", [every], vector_type(count * lanes, element))


def _two_bytes(memory: Value, at: Value) -> Value:
    """Emit the load of two contiguous bytes as an i16, the first one lower."""
    wide = ir.IntegerType.get_signless(16)
    low, high = (
        arith.extui(wide, load_element_as_is(memory, add(at, n))) for n in range(2)
    )
    return arith.ori(low, arith.shli(high, constant(wide, 8)))


def call_intrinsic(name: str, operands: Sequence[Value], kind: Type) -> Value:
    """Emit a call of an LLVM intrinsic."""
    return _make(
        "llvm.call_intrinsic",
        operands,
        kind,
        intrin=ir.StringAttr.get(name),
        op_bundle_sizes=ir.DenseI32ArrayAttr.get([]),
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([len(operands), 0]),
    )


def prefetch(memory: Value, at: Value, cache: int = 1) -> None:
    """Emit the prefetch of a cache line into the L1 or L2 cache."""
    ir.Operation.create(
        "memref.prefetch",
        operands=[memory, at],
        attributes={
            "isWrite": ir.BoolAttr.get(False),
            "localityHint": ir.IntegerAttr.get(
                ir.IntegerType.get_signless(32), 4 - cache
            ),
            "isDataCache": ir.BoolAttr.get(True),
        },
    )


def transpose(rows: Sequence[Value]) -> Values:
    """Emit the transpose of a square: as many vectors as they have lanes.

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
    """Emit the reduction of each vector's lanes: vector n's result in lane n.

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
    """Emit the concatenation of vectors of equal length."""
    found = list(parts)
    while len(found) > 1:
        rest = found[2:]
        x, y = found[:2]
        found = [_shuffle(x, y, list(range(_lanes(x) + _lanes(y)))), *rest]
    return found[0]


def interleave(parts: Sequence[Value]) -> Value:
    """Emit the interleaving of vectors: all first elements, then all second ones, ….

    There are one, two, four, … of them.
    """
    if len(parts) == 1:
        return parts[0]
    element = parts[0].type.element_type
    known: Any = element
    x, y = (
        _make("vector.bitcast", [part], _integers(_lanes(part), known.width))
        for part in (interleave(parts[::2]), interleave(parts[1::2]))
    )  # LLVM has no shuffles of some lengths for bf16
    count = _lanes(x)
    found = _shuffle(x, y, [at for n in range(count) for at in (n, count + n)])
    return _make("vector.bitcast", [found], vector_type(2 * count, element))


def split(x: Value, lanes: int) -> Values:
    """Emit the inverse of `concatenate`: vectors of `lanes` elements."""
    whole = _lanes(x)
    return [
        _shuffle(x, x, list(range(first, first + lanes)))
        for first in range(0, whole, lanes)
    ]


def pick(x: Value, places: Sequence[int]) -> Value:
    """Emit a shuffle of one vector: its elements at some places."""
    is_all = list(places) == list(range(_lanes(x)))
    return x if is_all else _shuffle(x, x, list(places))


def gather(sources: Sequence[Value], places: Sequence[tuple[int, int]]) -> Value:
    """Emit a shuffle of several vectors, by (number of a vector, element in it).

    A number of none of them stands for any element.
    """
    lanes = len(places)
    made = pick(sources[0], [at if number == 0 else 0 for number, at in places])
    for this, vector in enumerate(sources[1:], 1):
        chosen = [
            lanes + at if number == this else n for n, (number, at) in enumerate(places)
        ]
        made = _shuffle(made, vector, chosen)
    return made


def any_of(conditions: Value) -> Value:
    """Emit whether any lane of a vector of i1 is true."""
    how = ir.Attribute.parse("#vector.kind<or>")
    made = ir.IntegerType.get_signless(1)
    return _make("vector.reduction", [conditions], made, kind=how)


def greatest_index(x: Value) -> Value:
    """Emit the greatest element of a vector of i32, cast to the index type."""
    how = ir.Attribute.parse("#vector.kind<maxsi>")
    found = _make("vector.reduction", [x], x.type.element_type, kind=how)
    return arith.index_cast(ir.IndexType.get(), found)


def _shuffle(x: Value, y: Value, places: list[int]) -> Value:
    """Emit a shuffle of two vectors, places counting through both."""
    kind = vector_type(len(places), x.type.element_type)
    mask = ir.DenseI64ArrayAttr.get(places)
    return _make("vector.shuffle", [x, y], kind, mask=mask)


def iota_from(first: Value, lanes: int) -> Value:
    """Emit the i32 vector first, first + 1, …, from a number of type index."""
    numbers = np.arange(lanes, dtype=np.int32)
    steps = constant_of(ir.DenseElementsAttr.get(numbers, type=_integers(lanes)))
    return arith.addi(repeat_index(first, lanes), steps)


def repeat_index(value: Value, lanes: int) -> Value:
    """Emit an index value as i32, in all lanes."""
    return _make("vector.broadcast", [narrow(value)], _integers(lanes))


def narrow(value: Value) -> Value:
    """Emit the cast of an index value to i32."""
    return arith.index_cast(ir.IntegerType.get_signless(32), value)


def allocate(count: int, element: Type | None = None) -> Value:
    """Emit a stack allocation of some elements, where the function begins.

    Inside of a loop, each iteration would allocate more.
    """
    with ir.InsertionPoint.at_block_begin(current_function().entry_block):
        return _make(
            "memref.alloca",
            [],
            ir.MemRefType.get([count], element or ir.F32Type.get()),
            alignment=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([0, 0]),
        )


def multiply_add(x: Value, y: Value, total: Value) -> Value:
    """Emit `x * y + total`, rounded once."""
    return _make("vector.fma", [x, y, total], total.type)


def outer_product(
    element: Callable[[int], Value],
    right: Callable[[int], Value],
    sizes: tuple[int, int],
    sums: Values,
    combine: Callable[[Value, Value, Value], Value] = multiply_add,
) -> Values:
    """Emit `sums` plus the products of all elements and vectors, row by row.

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


def _lanes(x: Value) -> int:
    """Return the number of elements of a vector."""
    count: int = x.type.shape[0]
    return count


def _mask(lanes: int, count: int | Value) -> Value:
    """Emit a mask that is true in the first `count` lanes."""
    kind = _integers(lanes, 1)
    if isinstance(count, Value):
        return _make("vector.create_mask", [count], kind)
    sizes = ir.DenseI64ArrayAttr.get([count])
    return _make("vector.constant_mask", [], kind, mask_dim_sizes=sizes)


def _integers(lanes: int, bits: int = 32) -> Type:
    """Return a vector type of integers."""
    return vector_type(lanes, ir.IntegerType.get_signless(bits))


def _make(
    name: str, operands: Sequence[Value], result: Type, **attributes: ir.Attribute
) -> Value:
    """Emit an op with one result, by name; return the result."""
    made: Value = ir.Operation.create(
        name, results=[result], operands=list(operands), attributes=attributes
    ).result
    return made
