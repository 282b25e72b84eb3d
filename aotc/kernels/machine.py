"""Facts on a CPU that its kernels depend on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from aotc.machine.target import Target

# Of all processors alike.
LINE_BYTES = 64  # of a line of a cache
PREFETCH_BYTES = 1 << 13  # from what is read at once to what is fetched then
# The cache that weights of few rows are fetched into: the first has few fill buffers
STREAM_CACHE = 2
KEPT_BYTES = 1 << 20  # of weights that may stay in a cache from call to call
STACK_BYTES = 1 << 15  # that IREE grants a kernel


@dataclass(frozen=True)
class Mma:
    """A multiply-add instruction for vectors (or small matrices) of some dtypes.

    Args:
        dtypes: of the left and of the right operand in memory: pairs of them.
        terms: products that it adds to each sum, of elements that lie beside each other
            in both operands.
        factor: the dtype that elements are multiplied in, which has all of their
            values, in 8 bits those of the left operand less `offset`.
        sums: the dtype of the sums.
        intrinsic: LLVM's name of it; "" for the multiply-add of vectors, or where
            upstream ops say it.
        adds: whether it adds to sums that it is given; else another one does.
        operations: that all of them take together, in multiply-adds of f32.
        offset: what elements of the left operand are increased by before they are
            multiplied, which gives them the other sign; the sums get rid of it.
        pairs: LLVM's name of what adds neighbours of narrower products up to sums; ""
            where `intrinsic` gives sums.
        ones: whether that multiplies, here by ones, before it adds.
        within: the greatest absolute value that elements of the right operand may
            have, so that no narrower product saturates; 0 for any.
        rows: of the left operand that it multiplies at a time, by as many times fewer
            columns; its sums are those of a square.
    """

    dtypes: tuple[tuple[str, str], ...]
    terms: int
    factor: str
    sums: str
    intrinsic: str = ""
    adds: bool = True
    operations: float = 1
    offset: int = 0
    pairs: str = ""
    ones: bool = False
    within: int = 0
    rows: int = 1

    @property
    def spare(self) -> int:
        """The number of scratch registers beside those of operands and sums."""
        return int(not self.adds) + int(self.ones)


def _alike(*dtypes: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of equal dtypes, one for each dtype."""
    return tuple((dtype, dtype) for dtype in dtypes)


FMA = Mma(_alike("f32", "bf16", "f16"), 1, "f32", "f32")


@dataclass(frozen=True)
class Machine:
    """A performance model of one CPU core: vectors, instructions and caches.

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
        rounds_bf16: LLVM's name of what rounds a vector of f32 to bf16; "" for none.
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
    rounds_bf16: str = ""
    multipliers: tuple[Mma, ...] = ()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The float dtypes that kernels can load and store, computing in f32."""
        return ("f32", "bf16", "f16") if self.converts_f16 else ("f32", "bf16")

    def manifest_facts(self) -> dict[str, Any]:
        """Return the core's peak rates for the manifest: flops and bytes per cycle."""
        return {
            "flops_per_cycle": 2 * self.lanes * self.multiply_adds,
            "bytes_per_cycle": self.memory_bytes,
        }

    def to_plain(self) -> dict[str, object]:
        """Return the model as plain data, by which tuning files and IR identify it."""
        rows = [
            {**asdict(mma), "dtypes": [[*pair] for pair in mma.dtypes]}
            for mma in self.multipliers
        ]
        return {**asdict(self), "multipliers": rows}

    def multipliers_of(self, left: str, right: str, within: int = 0) -> list[Mma]:
        """Return the multiply-adds for operand dtypes and right bound, best first.

        Args:
            left: the dtype of the left operand.
            right: that of the right one.
            within: the greatest absolute value that elements of the right operand are
                known to have; 0 if none is.
        """
        return [
            mma
            for mma in (*self.multipliers, FMA)
            if (left, right) in mma.dtypes
            and (not mma.within or 0 < within <= mma.within)
        ]

    def multiplier_of(self, left: str, right: str, terms: int) -> Mma:
        """Return the instruction that sums `terms` products of two dtypes, else FMA."""
        found = [
            mma
            for mma in (*self.multipliers, FMA)
            if (left, right) in mma.dtypes and mma.terms == terms
        ]
        return found[0] if found else FMA

    @property
    def looks_up(self) -> bool:
        """Return whether vector instructions look bytes up in tables of 256 bytes.

        AVX-512 does in four instructions for 16 (`aotc.kernels.cpu.lookup`). Others
        read one entry after the other, which IREE's code does as well.
        """
        return self.lanes == 16

    def half_fills(self, elements: int) -> bool:
        """Return whether `elements` contiguous f32 fill at least half a vector."""
        return 2 * elements >= self.lanes

    @property
    def under_way(self) -> int:
        """The multiply-adds in flight that hide the latency of one."""
        return self.latency * self.multiply_adds

    def tile_cycles(
        self, steps: int, rows: int, vectors: int, busy: float | None = None
    ) -> float:
        """Return the modelled cycles of computing a register tile of sums, in `steps`.

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
        """The bytes of a way of the L1 cache: addresses so far apart share a set."""
        return self.first_cache // self.ways


_BYTES = "i8", "u8"
_INTEGERS = (*product(_BYTES, _BYTES), *_alike("i16"))
_U8_I8, _I8_I8 = (("u8", "i8"),), (("i8", "i8"),)


def _products_of_pairs(intrinsic: str, operations: float) -> Mma:
    """Return x86's instruction that multiplies i16 and adds neighbouring products."""
    return Mma(_INTEGERS, 2, "i16", "i32", intrinsic, False, operations)


def _dot_of_bytes(intrinsic: str) -> tuple[Mma, ...]:
    """Return x86's dot-product instructions (VNNI) for unsigned by signed bytes."""
    return (
        Mma(_U8_I8, 4, "i8", "i32", intrinsic),
        Mma(_I8_I8, 4, "i8", "i32", intrinsic, offset=128),
    )


def _saturating(bytes_by: str, pairs_by: str) -> tuple[Mma, ...]:
    """Return x86's instructions that sum pairs of byte products, saturating at i16.

    They do not saturate for right elements up to 64: an i16 holds 255 * 64 * 2.
    """
    return tuple(
        replace(
            dot,
            intrinsic=bytes_by,
            adds=False,
            operations=2,
            pairs=pairs_by,
            ones=True,
            within=64,
        )
        for dot in _dot_of_bytes("")
    )


_MADD_256, _MADD_512 = "llvm.x86.avx2.pmadd.wd", "llvm.x86.avx512.pmaddw.d.512"
# measured on a Zen 5: additions take turns with products, 1.6 times those of f32
_MADD_OPERATIONS = 1.25
_AVX2 = Machine(
    lanes=8,
    registers=16,
    multipliers=(
        *_saturating("llvm.x86.avx2.pmadd.ub.sw", _MADD_256),
        _products_of_pairs(_MADD_256, _MADD_OPERATIONS),
    ),
)
_AVX2_DOT = replace(
    _AVX2,
    multipliers=(
        *_dot_of_bytes("llvm.x86.avx512.vpdpbusd.256"),
        _products_of_pairs(_MADD_256, 1),  # with the addition, vpdpwssd
    ),
)
_AVX512 = Machine(
    lanes=16,
    registers=31,  # one is the compiler's
    multipliers=(
        *_saturating("llvm.x86.avx512.pmaddubs.w.512", _MADD_512),
        _products_of_pairs(_MADD_512, _MADD_OPERATIONS),
    ),
)
_AVX512_DOT = replace(
    _AVX512,
    rounds_bf16="llvm.x86.avx512bf16.cvtneps2bf16.512",
    multipliers=(
        *_dot_of_bytes("llvm.x86.avx512.vpdpbusd.512"),
        _products_of_pairs(_MADD_512, 1),  # LLVM makes it and the addition vpdpwssd
        Mma(_alike("bf16"), 2, "bf16", "f32", "llvm.x86.avx512bf16.dpbf16ps.512"),
    ),
)

# Caches and units of a Neoverse N1, which a Cortex-A76 is much like (Arm, "Neoverse N1
# Core Technical Reference Manual" and "Software Optimization Guide"). Of 32 registers
# two are left to the compiler, which loads an element before the last one is used up.
# One of the two units multiplies integers, the other adds neighbours.
_ARM = "llvm.aarch64.neon."
_SMLAL = Mma(_INTEGERS, 1, "i16", "i32", f"{_ARM}smull.v4i32", False, 2)


def _products_of_bytes(dtype: str, sign: str) -> Mma:
    """Return Arm's widening byte product, followed by a pairwise addition."""
    pairs = f"{_ARM}{sign}addlp.v4i32.v8i16"
    multiply = f"{_ARM}{sign}mull.v8i16"
    return Mma(_alike(dtype), 2, dtype, "i32", multiply, False, 2, pairs=pairs)


def _with_offset(mma: Mma, pair: tuple[str, str], offset: int) -> Mma:
    """Return an instruction for a left operand of the other sign, by an offset."""
    return replace(mma, dtypes=(pair,), offset=offset)


def _for_bytes(signed: Mma, unsigned: Mma) -> tuple[Mma, ...]:
    """Return instructions for all sign pairs of bytes, given those of equal signs."""
    return (
        signed,
        unsigned,
        _with_offset(signed, ("u8", "i8"), -128),
        _with_offset(unsigned, ("i8", "u8"), 128),
    )


def _dot(dtype: str, name: str) -> Mma:
    """Return Arm's dot-product instruction of four bytes: `sdot`, `udot` or `usdot`."""
    return Mma(_alike(dtype), 4, dtype, "i32", f"{_ARM}{name}.v4i32.v16i8")


def _square(pair: tuple[str, str], name: str) -> Mma:
    """Return Arm's matrix instruction: two rows of eight bytes by two such columns."""
    intrinsic = f"{_ARM}{name}.v4i32.v16i8"
    return Mma((pair,), 8, pair[1], "i32", intrinsic, rows=2)


_NEON = Machine(
    lanes=4,
    registers=30,
    first_cache=64 << 10,
    second_cache=512 << 10,
    ways=4,
    multipliers=(
        *_for_bytes(_products_of_bytes("i8", "s"), _products_of_bytes("u8", "u")),
        _SMLAL,
    ),
)
_DOTS = _for_bytes(_dot("i8", "sdot"), _dot("u8", "udot"))
_NEON_DOT = replace(_NEON, multipliers=(*_DOTS, *_NEON.multipliers))
_NEON_BF16 = replace(
    _NEON_DOT,
    multipliers=(
        _square(("i8", "i8"), "smmla"),
        _square(("u8", "u8"), "ummla"),
        _square(("u8", "i8"), "usmmla"),
        replace(_dot("i8", "usdot"), dtypes=_U8_I8),
        Mma(_alike("bf16"), 2, "bf16", "f32", f"{_ARM}bfdot.v4f32.v8bf16"),
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
    multipliers=(Mma(_INTEGERS, 1, "i16", "i32"),),  # vwmacc
)


def machine_of(target: Target) -> Machine | None:
    """Return the CPU model for a target's features; None where it has no kernels."""
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
    """Return the CPU model for the features of an Arm processor; None without NEON."""
    if "neon" not in features:
        return None
    if "dotprod" not in features:
        return _NEON
    return _NEON_BF16 if features >= {"bf16", "i8mm"} else _NEON_DOT
