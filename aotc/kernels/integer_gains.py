"""Whether products of integers are faster than those of floats, by a machine's model.

Integers read fewer bytes; what they take to be multiplied depends on the instructions
that a processor has (`machine.Mma`). Results of integers are the same on all targets,
so a build keeps them, and says where floats would be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotc.dialects.functions import functions_of
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.kernels.capabilities import Capabilities, NoKernels
from aotc.kernels.geometry import Geometry, geometry_of
from aotc.kernels.machine import Machine
from aotc.kernels.planning.contraction import time_of
from aotc.kernels.planning.tile import Tile, choose_tile
from aotc.mlir import Module

_WORTH_SAYING = 1.05  # of the time of floats; the model is not more exact


@dataclass(frozen=True)
class SlowIntegers:
    """That the integer products of a program take longer than those of floats would.

    Args:
        products: how many kernels of them there are.
        ratio: of the times of all, by the model.
        where: the user's line of the one that loses most, or "".
    """

    products: int
    ratio: float
    where: str

    def __str__(self) -> str:
        place = f" (most at {self.where})" if self.where else ""
        count = "1 product" if self.products == 1 else f"{self.products} products"
        return (
            f"{count} of integers{place} take {self.ratio:.1f} times as long as floats "
            "would, by the model of the processor: its instructions multiply no more "
            "bytes at a time than floats"
        )


def slow_integers_in(
    module: Module, capabilities: Capabilities | NoKernels
) -> list[SlowIntegers]:
    """Return a note if integer products are slower than floats would be; else none.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
    """
    if isinstance(capabilities, NoKernels):
        return []
    times = [*_times(module, capabilities)]
    integers = sum(own for _, own, _ in times)
    floats = sum(others for _, _, others in times)
    if not times or integers <= _WORTH_SAYING * floats:
        return []
    worst = max(times, key=lambda each: each[1] - each[2])
    return [SlowIntegers(len(times), integers / floats, where_of(worst[0]) or "")]


def _times(
    module: Module, capabilities: Capabilities
) -> Iterator[tuple[GraphOp, float, float]]:
    """Yield each product of integers, its cycles, and what floats would take."""
    for function in functions_of(module).values():
        kernel = capabilities.planned(function)
        if kernel is None or not isinstance(kernel.schedule, Tile):
            continue
        with known_contracts(contracts_of(function)):
            geometry = geometry_of(kernel.anchor)
            if geometry is None or geometry.is_float:
                continue
            found = cycles_of_both(
                geometry.typical, kernel.schedule, capabilities.machine
            )
        yield kernel.anchor, *found


def cycles_of_both(
    geometry: Geometry, tile: Tile, machine: Machine
) -> tuple[float, float]:
    """Return the cycles of integers, and of floats of the same shape."""
    floats = replace(geometry, dtype="f32", right_dtype="f32", within=0)
    best = choose_tile(floats, machine)
    return time_of(geometry, tile, machine), time_of(floats, best, machine)
