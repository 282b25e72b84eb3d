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
    """

    lanes: int
    registers: int


_AVX2 = Machine(lanes=8, registers=16)
_AVX512 = Machine(lanes=16, registers=32)


def machine_of(target: Target) -> Machine | None:
    """The model of a target's processor; None where there are no kernels for it."""
    if target.backend != "llvm-cpu" or target.arch != "x86_64":
        return None
    features = set(target.cpu_features_required)
    if features >= {"avx512f", "avx512vl"}:
        return _AVX512
    return _AVX2 if features >= {"avx2", "fma"} else None
