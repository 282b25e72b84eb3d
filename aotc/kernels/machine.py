"""What a kernel has to know of the processor that it is for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.target import Target


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
        integer_pairs: operations that multiply vectors of pairs of i16 and add both
            products to sums of i32; 0 if it cannot.
        bf16_pairs: the same of bf16 and sums of f32.
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
    integer_pairs: int = 0
    bf16_pairs: int = 0

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of the floats that it computes with, as f32: bf16 is half of one."""
        return ("f32", "bf16", "f16") if self.converts_f16 else ("f32", "bf16")

    def pair_operations(self, dtype: str) -> int:
        """How many multiply pairs of elements, as they are or wider; 0 if none do."""
        if factor_of(dtype) == "i16":
            return self.integer_pairs
        return self.bf16_pairs if dtype == "bf16" else 0

    @property
    def way_bytes(self) -> int:
        """The distance of addresses that have one place in the first cache."""
        return self.first_cache // self.ways


def factor_of(dtype: str) -> str:
    """The dtype in which elements are multiplied in pairs, exactly."""
    return "i16" if dtype in ("i8", "u8", "i16") else dtype


_AVX2 = Machine(lanes=8, registers=16, integer_pairs=2)
_AVX512 = Machine(lanes=16, registers=31, integer_pairs=2)  # one is the compiler's
_AVX512_DOT = replace(_AVX512, integer_pairs=1, bf16_pairs=1)

# Caches and units of a Neoverse N1, which a Cortex-A76 is much like (Arm, "Neoverse N1
# Core Technical Reference Manual" and "Software Optimization Guide"). Of 32 registers
# two are left to the compiler, which loads an element before the last one is used up.
_NEON = Machine(
    lanes=4, registers=30, first_cache=64 << 10, second_cache=512 << 10, ways=4
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
        return _NEON if "neon" in features else None
    if target.arch == "riscv64":
        return _RVV if "v" in features else None
    if features >= {"avx512bf16", "avx512vnni"}:
        return _AVX512_DOT
    if features >= {"avx512f", "avx512vl"}:
        return _AVX512
    return _AVX2 if features >= {"avx2", "fma"} else None


def why_no_machine(target: Target) -> str:
    """Why there are no kernels for a target of which there is no model."""
    if target.backend != "llvm-cpu":
        return f"kernels are native code of processors, which {target} is not"
    return f"kernels need multiply-adds of vectors, which {target} does not have"
