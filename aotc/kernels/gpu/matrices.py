"""Products as those of matrices, and how long a chip takes for them.

The loops of a product are those of matrices: a batch along which both factors vary,
rows along which the left one does, columns along which the right one does, and what is
summed up. A convolution has windows among the latter; groups are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from aotc.core.dtypes import bits, is_float
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Apply, Expression, Read, Statement
from aotc.kernels.typical import typical_size

LEAST_DEPTH = {"i8": 32, "f32": 16, "f16": 16, "bf16": 16}
_USUAL = 1024  # of a size that no contract says
_REGISTERS = 64  # of a thread that sums may take: of more, epilogues spill
_MADE = 52  # the same, with factors that it computes: of more, some spill
_LINE = 128  # bytes of a row of a factor in a step, at most
_SPLIT = 64  # columns of a tile in strips, at least
_STAGES = 3, 4  # steps whose factors are loaded ahead


@dataclass(frozen=True)
class ProductTile(Schedule):
    """The schedule of a product or convolution on a GPU.

    Args:
        rows: of a tile of sums.
        columns: of it.
        depth: products that are added to each in one step.
        warps: that compute it.
        stages: steps whose factors are loaded ahead.
        strips: that the columns are in: a thread has some of each, and what follows the
            sums is computed for one after the other.
    """

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3
    strips: int = 1


@dataclass(frozen=True)
class Loops:
    """The loops of a product by role: batch, rows (M), columns (N), summed (K)."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    summed: tuple[int, ...]

    @classmethod
    def of(cls, statement: Statement) -> Loops:
        """Return the loops of a sum of products by role."""
        left, right = map(_varying, statement.factors)
        kept = statement.nest.result_loops
        batch = tuple(n for n in kept if n in left and n in right)
        columns = tuple(n for n in kept if n in right and n not in left)
        rows = tuple(n for n in kept if n not in batch and n not in columns)
        return cls(batch, rows, columns, tuple(statement.nest.combined_loops))


def _varying(factor: Expression) -> set[int]:
    """Return the loops along which a factor varies."""
    return {
        loop
        for read in factor.reads()
        for loop, strides in enumerate(read.views[0].axes)
        if any(not stride.repeats for stride in strides)
    }


def before_widening(factor: Expression) -> Expression:
    """Return a factor before its casts to wider dtypes, which lose nothing."""
    while isinstance(factor, Apply) and isinstance(factor.op, Cast):
        (inner,) = factor.operands
        source, target = (Tensor.of(x.value).dtype for x in (inner, factor))
        is_wider = is_float(source) == is_float(target) and bits(source) < bits(target)
        if not is_wider or source not in LEAST_DEPTH:
            break
        factor = inner
    return factor


def factor_dtype(anchor: Statement) -> str:
    """Return the dtype in which a product's factors are multiplied; "" for none."""
    found = {Tensor.of(before_widening(x).value).dtype for x in anchor.factors}
    if len(found) == 1 and anchor.dtype in ("f32", "i32"):
        (dtype,) = found
        is_exact = dtype in LEAST_DEPTH and is_float(dtype) == is_float(anchor.dtype)
        if is_exact:
            return dtype
    return "f32" if anchor.dtype == "f32" else ""


@dataclass(frozen=True)
class Counts:
    """The typical sizes of a product: batch, M, N and K.

    Args:
        batch: of matrices.
        rows: of the left factor.
        columns: of the right one.
        depth: products that a sum has.
        has_windows: whether several loops are summed over.
        is_made: whether a factor is computed of what is read, such as of integers.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    has_windows: bool = False
    is_made: bool = False

    @classmethod
    def of(cls, anchor: Statement) -> Counts:
        """Return the typical sizes of a product's statement."""
        loops = Loops.of(anchor)
        batch, rows, columns, depth = (
            typical_size(total(anchor, own), _USUAL)
            for own in (loops.batch, loops.rows, loops.columns, loops.summed)
        )
        sizes = [anchor.nest.sizes[loop] for loop in loops.summed]
        has_windows = sum(n != 1 for n in sizes) > 1
        is_made = not all(isinstance(before_widening(x), Read) for x in anchor.factors)
        return cls(batch, rows, columns, depth, has_windows, is_made)


def total(anchor: Statement, loops: tuple[int, ...]) -> Size:
    """Return the number of iterations of some loops of a statement."""
    return element_count(tuple(anchor.nest.sizes[loop] for loop in loops))


def candidates(counts: Counts, dtype: str, machine: Gpu) -> list[ProductTile]:
    """Return the schedules of a product that fit a chip's registers and memory.

    Where numbers are multiplied one by one, a thread has the factors of a step in
    registers; those that it makes itself take more than those that it loads.
    """
    found = []
    sides, steps = (16, 32, 64, 128, 256), (16, 32, 64, 128)
    fewest = (2,) if dtype in machine.scalar else ()  # Hopper's have four warps
    for rows, columns, step, warps in product(sides, sides, steps, (*fewest, 4, 8)):
        least, most = LEAST_DEPTH[dtype], 8 * _LINE // bits(dtype)
        if not least <= step <= min(most, max(2 * counts.depth, least)):
            continue
        threads = warps * machine.warp
        registers = rows * columns // threads
        made = registers + (rows + columns) * step // threads
        if counts.is_made and dtype in machine.scalar and made > _MADE:
            continue
        if registers > _REGISTERS or rows * columns < 2 * warps * machine.warp:
            continue
        is_split = dtype in machine.scalar and registers == _REGISTERS
        strips = machine.strips if is_split and columns >= _SPLIT else 1
        step_bytes = (rows + columns) * step * bits(dtype) // 8
        most = min(_STAGES[-1], machine.shared_bytes // step_bytes)
        for stages in {each for each in _STAGES if each <= most} or {most}:
            if stages >= 2:
                found.append(ProductTile(rows, columns, step, warps, stages, strips))
    return found


@lru_cache(maxsize=4096)  # layers of a model are alike, and several passes ask
def fastest(joined: tuple[Counts, ...], dtype: str, machine: Gpu) -> ProductTile:
    """Return the schedule of least modelled time for products of one left factor.

    Args:
        joined: the products that one kernel computes, of one left factor.
        dtype: that factors are multiplied in.
        machine: the chip.
    """
    found = candidates(joined[0], dtype, machine)
    return min(found, key=lambda tile: joined_nanoseconds(tile, joined, dtype, machine))


# ---- the model of a chip ------------------------------------------------------------

# Fitted to 500 kernels of matrices and of convolutions, in f32 and bf16, on an H200
# (`benchmarks.gpu.schedules`): times are off by 10 %, the geometric mean of how far,
# and what is chosen takes 1.03 times as long as the best of those measured.
START = 3000.0  # nanoseconds of a launch
_WAIT = 300.0  # until what is asked of memory is there
_WINDOWS = 200.0  # the same, more, where addresses are of windows
_MANY_ROWS = 128  # of windows, whose addresses are all that a step waits for
_STEP = 10.0  # of a step of a program, whatever it multiplies
_END = 0.04  # of a sum of a tile, when all are there
_SHARED = 128.0  # bytes of shared memory in a nanosecond, of a multiprocessor
_FULL = 1024  # sums of a tile for which instructions for matrices do not wait
_LOW = 0.3  # of the rate, where a tile has fewer rows than an instruction
_BESIDE = 24  # warps that a multiprocessor has of programs side by side, at most
_OVERLAP = 3  # the norm by which what goes on together adds up


def nanoseconds(tile: ProductTile, counts: Counts, dtype: str, machine: Gpu) -> float:
    """Return the modelled time of a product on a chip, under a schedule.

    A multiprocessor has some programs side by side, as many as it has room for, until
    none is left. A step of theirs takes as long as it multiplies, as the factors come
    from the cache, and then from shared memory, or as it waits for memory, whichever
    is longest, and a little longer if others are nearly as long.
    """
    tiles = counts.batch * -(-counts.rows // tile.rows)
    tiles *= -(-counts.columns // tile.columns)
    steps = -(-counts.depth // tile.depth)
    loaded = (tile.rows + tile.columns) * tile.depth * bits(dtype) / 8
    arriving = machine.cached / min(tiles, machine.multiprocessors)
    share = machine.rate(dtype) / machine.multiprocessors
    multiplied = 2 * tile.rows * tile.columns * tile.depth / share
    waited = _WAIT / (tile.stages - 1)
    if counts.has_windows:
        waited += _WINDOWS * max(1.0, tile.rows / _MANY_ROWS)
    finished = _END * tile.rows * tile.columns
    is_scalar = dtype in machine.scalar

    def together(count: int) -> float:
        """Return how long `count` programs side by side take on a multiprocessor."""
        if is_scalar:
            used = _used_by_scalars(tile, count * tile.warps, machine)
        else:
            used = _used_by_matrices(tile, machine)
        own = multiplied / used, loaded / arriving, loaded / _SHARED
        parts = [*(count * each for each in own), waited]
        step: float = sum(each**_OVERLAP for each in parts) ** (1 / _OVERLAP)
        return steps * (step + count * _STEP) + count * finished

    most = (_BESIDE_OF_SCALARS if is_scalar else _BESIDE) // tile.warps
    room = int(machine.shared_bytes // (loaded * tile.stages))
    beside, own = max(1, min(most, room)), -(-tiles // machine.multiprocessors)
    rounds, rest = divmod(own, beside)
    computed = rounds * together(beside) + (together(rest) if rest else 0)
    read = 0 if counts.has_windows else counts.rows  # windows share what they read
    moved = (read + counts.columns) * counts.depth
    floor = counts.batch * moved * bits(dtype) / 8 / machine.bandwidth
    return START + max(computed, floor)


def joined_nanoseconds(
    tile: ProductTile, joined: Sequence[Counts], dtype: str, machine: Gpu
) -> float:
    """Return the modelled time of several products in one kernel."""
    first, *others = joined
    if not others:
        return nanoseconds(tile, first, dtype, machine)
    blocks = sum(-(-each.columns // tile.columns) for each in joined)
    whole = replace(first, columns=blocks * tile.columns)
    return nanoseconds(tile, whole, dtype, machine)


def _used_by_matrices(tile: ProductTile, machine: Gpu) -> float:
    """Return the fraction of the peak rate that matrix instructions reach."""
    used = min(1.0, tile.rows * tile.columns / _FULL)
    return used * (_LOW if tile.rows < machine.rows else 1)


_BESIDE_OF_SCALARS = 12
_USED = 0.66  # of the rate, with as many lanes as instructions are issued in a cycle
_ISSUED = 0.89  # of the instructions of a loop, those that multiply
_SLOTS = 128  # lanes that a multiprocessor issues instructions for in a cycle
_ENOUGH = 6  # warps that use so much
_FEW_WARPS = 4
_SUMS = 32  # of a thread that do
_ROWS, _COLUMNS, _DEPTH = 32, 64, 32  # of a tile that do


def _used_by_scalars(tile: ProductTile, warps: int, machine: Gpu) -> float:
    """Return the fraction of the peak rate that scalar multiply-adds reach.

    Few warps wait for their own sums, and few sums of a thread, or a narrow tile, for
    shared memory. Where fewer lanes multiply than instructions are issued for, other
    instructions than multiplications take no time of theirs.
    """
    sums = tile.rows * tile.columns / (tile.warps * machine.warp)
    used: float = (
        _USED
        * min(1 / _ISSUED, _SLOTS / machine.lanes)
        * min(1.0, warps / _ENOUGH)
        * min(1.0, _FEW_WARPS / tile.warps) ** 0.1  # which wait for each other
        * min(1.0, sums / _SUMS) ** 0.2
        * min(1.0, tile.rows / _ROWS) ** 0.2
        * min(1.0, tile.columns / _COLUMNS) ** 0.4
        * min(1.0, tile.depth / _DEPTH) ** 0.1
    )
    return used
