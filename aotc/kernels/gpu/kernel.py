"""A kernel of a GPU: its text, and how it is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aotc.dialects.ops.creation import Dimension
from aotc.dialects.types import Size, Tensor, bounds, symbols_of
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.compiling import KernelSource
from aotc.kernels.gpu.frames import KernelSizes
from aotc.kernels.gpu.printing import print_module
from aotc.kernels.gpu.tiles import KernelPointers, memory_element
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Term
from aotc.mlir import Type, Value, arith, ir

_HALF = 32  # bits
_LOW = 2**_HALF - 1
_FEW = 2**31 - 2**16  # elements of which i32 counts all, and those of a tile beyond


@dataclass(frozen=True)
class GpuKernel:
    """A GPU kernel: its Triton IR and its launch parameters.

    It takes the memory of the arguments of the region and of its results, and then the
    values of the region's symbols, as i32: two for each, the lower half first, where it
    computes with i64. IREE launches kernels with memory and 32-bit numbers alone.

    Args:
        name: of its function.
        text: of a module of Triton's IR.
        programs: how many there are, along one axis of the grid; no launch where that
            is 0 (`aotc.worker.empty_work`).
        symbols: how many it takes.
        schedule: how its work is cut up.
        warps: of a program.
        stages: of what is loaded ahead.
        is_large: whether it computes with i64.
        precision: of products of f32, as Triton names it.
    """

    name: str
    text: str
    programs: Size
    symbols: int
    schedule: Schedule
    warps: int
    stages: int
    is_large: bool
    precision: str

    @property
    def multiplies(self) -> bool:
        """Return whether the kernel has `tt.dot` products."""
        return '"tt.dot"(' in self.text

    @property
    def source(self) -> KernelSource:
        """The kernel as input of Triton's compiler."""
        return KernelSource(self.name, self.text, self.warps, self.stages)

    def numbers(self, symbols: Sequence[int]) -> list[int]:
        """Return the 32-bit arguments of a launch, given the values of the symbols."""
        taken = symbols[: self.symbols]
        if not self.is_large:
            return [*taken]
        return [half for x in taken for half in (_signed(x & _LOW), x >> _HALF)]


def _signed(half: int) -> int:
    """Return the signed 32-bit integer with the bits of an unsigned one."""
    return half - (_LOW + 1) if half > _LOW // 2 else half


@dataclass(frozen=True)
class Writing:
    """The context in which a kernel's body is written: term, sizes and pointers.

    Args:
        term: of the region.
        sizes: writes sizes.
        memories: the pointers of arguments and results.
        precision: of products of f32, as Triton names it.
    """

    term: Term
    sizes: KernelSizes
    memories: KernelPointers
    precision: str


def write_text(
    name: str,
    term: Term,
    precision: str,
    write: Callable[[Writing], None],
    *,
    is_large: bool,
) -> str:
    """Return the Triton IR of a kernel whose body `write` emits."""
    values = [*term.arguments, *term.results]
    elements = [memory_element(Tensor.of(value).dtype) for value in values]
    with _knowing_triton(term.function.context), ir.Location.unknown():
        ints = ops.IndexArithmetic(64 if is_large else 32)
        count = symbol_count(term) * (2 if is_large else 1)
        number = ir.IntegerType.get_signless(_HALF)
        kinds = [*map(ops.pointer_to, elements), *[number] * count]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            block = _function(name, kinds, len(values))
        with ir.InsertionPoint(block):
            given = [*block.arguments]
            sizes = KernelSizes(
                ints, _symbols(given[len(values) :], ints, is_large=is_large)
            )
            first = len(term.arguments)
            read = dict(zip(term.arguments, given[:first], strict=True))
            written = [*zip(term.results, given[first : len(values)], strict=True)]
            writing = Writing(term, sizes, KernelPointers(read, written), precision)
            write(writing)
            ops.make("tt.return", [], None)
        return print_module(module)


@contextmanager
def _knowing_triton(context: ir.Context) -> Iterator[None]:
    """Allow unregistered dialects (Triton's) in a context, in a `with` block."""
    before = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = True
    try:
        with context:
            yield
    finally:
        context.allow_unregistered_dialects = before


def symbol_count(term: Term) -> int:
    """Return how many symbols a kernel takes: up to the last one that sizes mention."""
    kinds = map(Tensor.of, [*term.arguments, *term.results])
    sizes = [size for kind in kinds for size in kind.shape]
    for op in term.function.entry_block.operations:
        sizes += op.size if isinstance(op, Dimension) else ()
    used = [n for size in sizes for n in symbols_of(size)]
    return max(used, default=-1) + 1


def _symbols(
    numbers: Sequence[Value], ints: ops.IndexArithmetic, *, is_large: bool
) -> list[Value]:
    """Emit the values of symbols from the 32-bit arguments of a kernel."""
    if not is_large:
        return [*numbers]
    by = ops.constant(ints.kind, _HALF)
    return [
        arith.ori(
            arith.extui(ints.kind, low), arith.shli(arith.extui(ints.kind, high), by)
        )
        for low, high in zip(numbers[::2], numbers[1::2], strict=True)
    ]


def needs_long_integers(term: Term) -> bool:
    """Return whether offsets or loop bounds of a term may exceed i32."""
    counts = [Tensor.of(x).elements for x in (*term.arguments, *term.results)]
    counts += [size for each in term.statements for size in each.nest.sizes]
    return any(bounds(count)[1] > _FEW for count in counts)


def _function(name: str, kinds: Sequence[Type], pointers: int) -> ir.Block:
    """Emit an empty `tt.func`, its pointers aligned; return its entry block."""
    i32 = ir.IntegerType.get_signless(32)
    aligned = ir.DictAttr.get({"tt.divisibility": ir.IntegerAttr.get(i32, 16)})
    told = [aligned] * pointers + [ir.DictAttr.get({})] * (len(kinds) - pointers)
    made = ir.Operation.create(
        "tt.func",
        attributes={
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("public"),
            "arg_attrs": ir.ArrayAttr.get(told),
        },
        regions=1,
    )
    block: ir.Block = made.regions[0].blocks.append(*kinds)
    return block
