"""Comparison of products of narrow dtypes with those of f32, by a machine's model.

Integers and half floats read fewer bytes; what they take to be multiplied depends on
the instructions that a processor has (`machine.Mma`). A build keeps them on all
targets, as results follow from the dtype, and says where f32 would be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.kernels.capabilities import Capabilities, NoTargetKernels
from aotc.kernels.geometry import ConvolutionGeometry, geometry_of
from aotc.kernels.machine import Machine
from aotc.kernels.planning.caches import time_of
from aotc.kernels.planning.tile import ContractionTile, choose_tile
from aotc.mlir import Module

_WORTH_SAYING = 1.05  # of the time of floats; the model is not more exact


@dataclass(frozen=True)
class SlowProducts:
    """A warning that products of narrow dtypes are slower than f32 ones would be.

    Args:
        dtypes: what they are of: integers, bf16 or f16.
        products: how many kernels of them there are.
        ratio: of the times of all, by the model.
        where: the user's line of the one that loses most, or "".
    """

    dtypes: str
    products: int
    ratio: float
    where: str

    def __str__(self) -> str:
        one = self.products == 1
        most = "at" if one else "most at"
        place = f" ({most} {self.where})" if self.where else ""
        count = "1 product" if one else f"{self.products} products"
        verb = "takes" if one else "take"
        return (
            f"{count} of {self.dtypes}{place} {verb} {self.ratio:.1f} times as long as "
            "f32 would, by the model of the processor: its instructions multiply no "
            "more of them at a time"
        )


def slow_products_in(
    module: Module, capabilities: Capabilities | NoTargetKernels, mixed: str | None
) -> Iterator[SlowProducts]:
    """Yield a warning for each narrow dtype whose products are slower than in f32.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
        mixed: the half float that the build chose; others the model has chosen.
    """
    if isinstance(capabilities, NoTargetKernels):
        return
    times = [*_times(module, capabilities)]
    for dtypes in ("integers", *([mixed] if mixed else ())):
        some = [each for each in times if each[1] == dtypes]
        own = sum(cycles for _, _, cycles, _ in some)
        wide = sum(cycles for _, _, _, cycles in some)
        if own > _WORTH_SAYING * wide:
            worst = max(some, key=lambda each: each[2] - each[3])
            where = where_of(worst[0]) or ""
            yield SlowProducts(dtypes, len(some), own / wide, where)


def _times(
    module: Module, capabilities: Capabilities
) -> Iterator[tuple[GraphOp, str, float, float]]:
    """Yield (op, dtypes, cycles, cycles in f32) of each product of a narrow dtype."""
    for function in functions_of(module).values():
        kernel = capabilities.planned_kernel(function)
        if kernel is None or not isinstance(kernel.schedule, ContractionTile):
            continue
        with known_contracts(contracts_of(function)):
            geometry = geometry_of(kernel.anchor)
            if geometry is None or geometry.dtype == "f32":
                continue
            found = cycles_of_both(
                geometry.typical, kernel.schedule, capabilities.machine
            )
        kind = geometry.dtype if geometry.is_float else "integers"
        yield kernel.anchor, kind, *found


def cycles_of_both(
    geometry: ConvolutionGeometry, tile: ContractionTile, machine: Machine
) -> tuple[float, float]:
    """Return the modelled cycles of a product, and those of the same product in f32."""
    floats = replace(geometry, dtype="f32", right_dtype="f32", within=0)
    best = choose_tile(floats, machine)
    return time_of(geometry, tile, machine), time_of(floats, best, machine)
