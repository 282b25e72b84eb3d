"""What a kernel has to know of the processor that it is for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from aotc.target import Target

# Of all processors alike.
LINE_BYTES = 64  # of a line of a cache
PREFETCH_BYTES = 1 << 13  # from what is read at once to what is fetched then
KEPT_BYTES = 1 << 20  # of weights that may stay in a cache from call to call
STACK_BYTES = 1 << 15  # that IREE grants a kernel


@dataclass(frozen=True)
class Mma:
    """An instruction that multiplies elements of two operands and adds to sums.

    Args:
        dtypes: of the left and of the right operand in memory: pairs of them.
        terms: products that it adds to each sum, of elements that lie beside each other
            in both operands.
        factor: the dtype that elements are multiplied in, which has all of their
            values.
        sums: the dtype of the sums.
        intrinsic: LLVM's name of it; "" for the multiply-add of vectors.
        adds: whether it adds to sums that it is given; else another one does.
        operations: that both take together.
        offset: what elements of the left operand are increased by before they are
            multiplied, which makes them unsigned; the sums get rid of it.
    """

    dtypes: tuple[tuple[str, str], ...]
    terms: int
    factor: str
    sums: str
    intrinsic: str = ""
    adds: bool = True
    operations: int = 1
    offset: int = 0


def _alike(*dtypes: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of one dtype each."""
    return tuple((dtype, dtype) for dtype in dtypes)


FMA = Mma(_alike("f32", "bf16", "f16"), 1, "f32", "f32")


@dataclass(frozen=True)
class Machine:
    """A model of one core.

    Args:
        lanes: f32 elements of a vector.
        registers: vectors that it holds.
        multiply_adds: of vectors, in a cycle.
        loads: of vectors, in a cycle.
        latency: cycles until the result of a multiply-add is there.
        first_cache: bytes of the first data cache.
        second_cache: bytes of the core's own second cache.
        third_cache: bytes that a call finds in the cache that cores share, if the call
            before it left them there; a nominal size.
        memory_bytes: of main memory, in a cycle; a nominal one, for rooflines.
        ways: of the first cache: how many lines with one place in it there are.
        together: vectors that go through a long formula as one longer vector.
        converts_f16: 1 if it converts vectors of f16 to f32 and back, else 0.
        multipliers: its instructions that multiply and add, the best first, but for
            `FMA`, which all have.
    """

    lanes: int
    registers: int
    multiply_adds: int = 2
    loads: int = 2
    latency: int = 4
    first_cache: int = 32 << 10
    second_cache: int = 1 << 20
    third_cache: int = 16 << 20
    memory_bytes: int = 8
    ways: int = 8
    together: int = 4
    converts_f16: int = 1
    multipliers: tuple[Mma, ...] = ()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of the floats that it computes with, as f32: bf16 is half of one."""
        return ("f32", "bf16", "f16") if self.converts_f16 else ("f32", "bf16")

    def stated(self) -> dict[str, Any]:
        """What a manifest says of the model: rates are of one core."""
        return {
            "flops_per_cycle": 2 * self.lanes * self.multiply_adds,
            "bytes_per_cycle": self.memory_bytes,
        }

    def to_plain(self) -> dict[str, Any]:
        """As a tuning file and the IR hold it, to tell whom schedules are for."""
        rows = [
            {**asdict(mma), "dtypes": [[*pair] for pair in mma.dtypes]}
            for mma in self.multipliers
        ]
        return {**asdict(self), "multipliers": rows}

    def multipliers_of(self, left: str, right: str) -> list[Mma]:
        """Return the instructions for elements of two dtypes, the best first."""
        pair = left, right
        return [mma for mma in (*self.multipliers, FMA) if pair in mma.dtypes]

    def half_fills(self, elements: int) -> bool:
        """Whether elements beside each other fill half a vector, or more."""
        return 2 * elements >= self.lanes

    @property
    def under_way(self) -> int:
        """Multiply-adds in flight: latency times throughput."""
        return self.latency * self.multiply_adds

    def tile_cycles(
        self, steps: int, rows: int, vectors: int, busy: float | None = None
    ) -> float:
        """Return the cycles that the sums of a tile take, by a model.

        A step takes as long as its multiply-adds, its loads, or one of them until its
        result is there, whichever is longest; a tile pays for its beginning and end.

        Args:
            steps: so many.
            rows: of the tile, of which each step loads an element.
            vectors: of each row, that each step loads.
            busy: multiply-adds of a step, and what takes as long as some of them; by
                default one of each row and vector.
        """
        busy = rows * vectors if busy is None else busy
        loads = (rows + vectors) / self.loads
        step = max(self.latency, busy / self.multiply_adds, loads)
        return steps * step + 2 * rows * vectors + 12

    @property
    def way_bytes(self) -> int:
        """The distance of addresses that have one place in the first cache."""
        return self.first_cache // self.ways


_BYTES = "i8", "u8"
_INTEGERS = (*product(_BYTES, _BYTES), *_alike("i16"))


def _pairs_of_integers(intrinsic: str, operations: int) -> Mma:
    return Mma(_INTEGERS, 2, "i16", "i32", intrinsic, False, operations)


_MADD_512 = "llvm.x86.avx512.pmaddw.d.512"
_DOT_512 = "llvm.x86.avx512.vpdpbusd.512"  # of unsigned by signed bytes
_AVX2 = Machine(
    lanes=8,
    registers=16,
    multipliers=(_pairs_of_integers("llvm.x86.avx2.pmadd.wd", 2),),
)
_DOT_256 = "llvm.x86.avx512.vpdpbusd.256"
_AVX2_DOT = replace(
    _AVX2,
    multipliers=(
        Mma((("u8", "i8"),), 4, "i8", "i32", _DOT_256),
        Mma((("i8", "i8"),), 4, "i8", "i32", _DOT_256, offset=128),
        _pairs_of_integers("llvm.x86.avx2.pmadd.wd", 1),  # with the addition, vpdpwssd
    ),
)
_AVX512 = Machine(
    lanes=16,
    registers=31,  # one is the compiler's
    multipliers=(_pairs_of_integers(_MADD_512, 2),),
)
_AVX512_DOT = replace(
    _AVX512,
    multipliers=(
        Mma((("u8", "i8"),), 4, "i8", "i32", _DOT_512),
        Mma((("i8", "i8"),), 4, "i8", "i32", _DOT_512, offset=128),
        _pairs_of_integers(_MADD_512, 1),  # LLVM makes it and the addition vpdpwssd
        Mma(_alike("bf16"), 2, "bf16", "f32", "llvm.x86.avx512bf16.dpbf16ps.512"),
    ),
)

# Caches and units of a Neoverse N1, which a Cortex-A76 is much like (Arm, "Neoverse N1
# Core Technical Reference Manual" and "Software Optimization Guide"). Of 32 registers
# two are left to the compiler, which loads an element before the last one is used up.
_NEON = Machine(
    lanes=4,
    registers=30,
    first_cache=64 << 10,
    second_cache=512 << 10,
    ways=4,
    multipliers=(
        # LLVM makes it and the addition smlal, which one of the two units computes.
        Mma(_INTEGERS, 1, "i16", "i32", "llvm.aarch64.neon.smull.v4i32", False, 2),
    ),
)
_NEON_DOT = replace(
    _NEON,
    multipliers=(
        Mma(_alike("i8"), 4, "i8", "i32", "llvm.aarch64.neon.sdot.v4i32.v16i8"),
        Mma(_alike("u8"), 4, "u8", "i32", "llvm.aarch64.neon.udot.v4i32.v16i8"),
        *_NEON.multipliers,
    ),
)
_NEON_BF16 = replace(
    _NEON_DOT,
    multipliers=(
        Mma(_alike("bf16"), 2, "bf16", "f32", "llvm.aarch64.neon.bfdot.v4f32.v8bf16"),
        *_NEON_DOT.multipliers,
    ),
)

# V promises 128 bits at least, and all that a kernel does is of a fixed length: longer
# registers are used in part. A longer vector is a group of neighbouring registers, in
# which the compiler would then keep the sums of a tile, too, and run out of groups. No
# processor stands for all: the rates are nominal ones.
_RVV = Machine(
    lanes=4,
    registers=30,
    multiply_adds=1,
    loads=1,
    second_cache=512 << 10,
    ways=4,
    together=1,
    converts_f16=0,  # Zvfhmin, which V does not promise
)


def machine_of(target: Target) -> Machine | None:
    """The model of a target's processor; None where there are no kernels for it."""
    if target.backend != "llvm-cpu":
        return None
    features = set(target.cpu_features_required)
    if target.arch == "aarch64":
        return _arm_machine(features)
    if target.arch == "riscv64":
        return _RVV if "v" in features else None
    if features >= {"avx512bf16", "avx512vnni"}:
        return _AVX512_DOT
    if features >= {"avx512f", "avx512vl"}:
        return _AVX512
    if not features >= {"avx2", "fma"}:
        return None
    return _AVX2_DOT if "avxvnni" in features else _AVX2


def _arm_machine(features: set[str]) -> Machine | None:
    if "neon" not in features:
        return None
    if "dotprod" not in features:
        return _NEON
    return _NEON_BF16 if "bf16" in features else _NEON_DOT


def multiplier_of(left: str, right: str, lanes: int, terms: int) -> Mma:
    """Return the instruction for `terms` terms and vectors of `lanes` sums.

    A schedule says so much, and no two machines have different ones of that.
    """
    machines = [m for m in (_AVX2_DOT, _AVX512_DOT, _NEON_BF16) if m.lanes == lanes]
    known = [mma for each in machines for mma in each.multipliers_of(left, right)]
    return next((mma for mma in known if mma.terms == terms), FMA)
