"""Facts on a chip that schedules depend on.

Rates and bandwidths are nominal ones, of a common model of each architecture (NVIDIA's
whitepapers of A100, RTX 3090, L40S, H100, B200 and RTX 5090; AMD's data sheets of
MI300X, RX 7900 XTX and RX 9070 XT): they choose between schedules and promise nothing.
What the cache of sm_90 gives is fitted to times on an H200 (`kernels.gpu.matrices`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from aotc.core.numerics import STRICT
from aotc.kernels.machine import Mma
from aotc.machine.target import Target

_STRICT = "ieee"
_PRODUCTS = 3  # of TF32 in the place of one of f32
_BYTES = Mma((("i8", "i8"),), 1, "i8", "i32")


@dataclass(frozen=True)
class Gpu:
    """A performance model of one GPU: rates, bandwidths and limits.

    Args:
        arch: its name among targets: `sm_80`, `gfx942`, ….
        multiprocessors: that run programs side by side.
        shared_bytes: of memory that the warps of a program share, at most: as much as
            all chips have that run its code.
        bandwidth: bytes of main memory in a nanosecond.
        cached: the same of the cache that all multiprocessors share.
        rates: operations of products in a nanosecond, by the dtype of factors; those of
            f32 without instructions for matrices.
        warp: threads that go together.
        relaxed: how products of f32 are computed where numerics are relaxed, as Triton
            names it.
        scalar: dtypes that are multiplied without instructions for matrices.
        rows: that its widest instruction for matrices multiplies at once.
        lanes: of a multiprocessor that multiply f32.
        strips: of a tile of 64 sums of a thread that it multiplies one by one: in two,
            a thread loads 16 numbers for 64 products, and not 20. Code for sm_8x spills
            then, as Triton has some of the next factors in registers there.
    """

    arch: str
    multiprocessors: int
    shared_bytes: int
    bandwidth: int
    cached: int
    rates: tuple[tuple[str, int], ...]
    warp: int = 32
    relaxed: str = "tf32x3"
    scalar: tuple[str, ...] = ("f32",)
    rows: int = 16
    lanes: int = 128
    strips: int = 1

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of floats that kernels compute with."""
        return "f32", "bf16", "f16"

    @property
    def multipliers(self) -> tuple[Mma, ...]:
        """The multiply-add instructions for integers."""
        return (_BYTES,)

    def multipliers_of(self, left: str, right: str) -> list[Mma]:
        """Return the multiply-add instructions for integers of two dtypes."""
        return [mma for mma in self.multipliers if (left, right) in mma.dtypes]

    @property
    def looks_up(self) -> bool:
        """Return False, as kernels look up no tables of bytes."""
        return False

    def precision(self, numerics: str) -> str:
        """Return Triton's name of the precision of f32 products at a numerics level."""
        return _STRICT if numerics == STRICT else self.relaxed

    def multiplying(self, precision: str) -> Gpu:
        """Return the model with the rates of f32 products in a precision.

        TF32 has half the rate of f16 on chips that have both.
        """
        if precision == _STRICT:
            return self
        rates = {**dict(self.rates), "f32": self.rate("f16") // 2 // _PRODUCTS}
        return replace(self, rates=(*rates.items(),), scalar=())

    def manifest_facts(self) -> dict[str, Any]:
        """Return the whole chip's peak rates for the manifest."""
        return {
            "name": self.arch,
            "flops_per_ns": dict(self.rates),
            "bytes_per_ns": self.bandwidth,
        }

    def to_plain(self) -> dict[str, object]:
        """Return the model as plain data, by which tuning files and IR identify it."""
        rates = [[*pair] for pair in self.rates]
        return {**asdict(self), "rates": rates, "scalar": [*self.scalar]}

    def rate(self, dtype: str) -> int:
        """Return the operations per nanosecond of products of a dtype."""
        rates = dict(self.rates)
        return rates.get(dtype, rates["f32"])


def _rates(f32: int, halves: int, bytes_: int) -> tuple[tuple[str, int], ...]:
    """Return the (dtype, operations per nanosecond) pairs of a chip."""
    return ("f32", f32), ("f16", halves), ("bf16", halves), ("i8", bytes_)


_KIB = 1 << 10
_MACHINES = (
    # PTX for an A100, which has 163 KiB, is that of chips with less, too
    Gpu(
        "sm_80",
        108,
        99 * _KIB,
        1555,
        4000,
        _rates(19_500, 312_000, 624_000),
        lanes=64,
    ),
    Gpu("sm_86", 82, 99 * _KIB, 936, 2500, _rates(35_600, 71_000, 284_000)),
    Gpu("sm_89", 142, 99 * _KIB, 864, 4500, _rates(91_600, 362_000, 733_000)),
    Gpu(
        "sm_90",
        132,
        227 * _KIB,
        3350,
        16000,
        _rates(66_900, 989_000, 1_979_000),
        rows=64,
        strips=2,
    ),
    Gpu(
        "sm_100",
        148,
        227 * _KIB,
        8000,
        12000,
        _rates(75_000, 2_250_000, 4_500_000),
        rows=64,
        strips=2,
    ),
    Gpu("sm_120", 170, 99 * _KIB, 1792, 6000, _rates(104_800, 209_500, 838_000)),
    Gpu(
        "gfx942",
        304,
        64 * _KIB,
        5300,
        12000,
        _rates(163_400, 1_307_000, 2_614_000),
        warp=64,
        relaxed="ieee",
        scalar=(),
    ),
    Gpu(
        "gfx1100",
        96,
        64 * _KIB,
        960,
        3500,
        _rates(61_400, 123_000, 123_000),
        relaxed="ieee",
    ),
    Gpu(
        "gfx1201",
        64,
        64 * _KIB,
        640,
        3000,
        _rates(48_700, 195_000, 389_000),
        relaxed="ieee",
    ),
)
MACHINES = {each.arch: each for each in _MACHINES}


def gpu_of(target: Target) -> Gpu | None:
    """Return the model of a target's chip; None if it is no GPU with kernels."""
    chip = target.sm or target.gfx or ""
    return MACHINES.get(chip.removesuffix("a"))  # sm_90a is for that chip alone
