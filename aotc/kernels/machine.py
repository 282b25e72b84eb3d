"""What a kernel has to know of the processor that it is for."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.target import Target


@dataclass(frozen=True)
class Machine:
    """A model of one core.

    Args:
        lanes: f32 elements of a vector.
        registers: vectors that it holds.
        cache: bytes of its own second-level cache that a kernel may count on.
    """

    lanes: int
    registers: int
    cache: int


# Caches are what the smallest common processors of a level have (256 KiB, of which half
# is for what streams by); a tile of a larger one would not be faster by much.
_AVX2 = Machine(lanes=8, registers=16, cache=192 << 10)
_AVX512 = Machine(lanes=16, registers=32, cache=384 << 10)


def machine_of(target: Target) -> Machine | None:
    """The model of a target's processor; None where there are no kernels for it."""
    if target.backend != "llvm-cpu" or target.arch != "x86_64":
        return None
    features = set(target.cpu_features_required)
    if features >= {"avx512f", "avx512vl"}:
        return _AVX512
    return _AVX2 if features >= {"avx2", "fma"} else None
