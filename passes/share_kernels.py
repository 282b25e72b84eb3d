"""Compile kernels that differ in constants alone once: these become operands of one.

    call @iree.contraction.kernel.dispatch(%x, %w, %shares)        (zero point 131)
    call @iree.contraction_1.kernel.dispatch(%y, %v, %shares)      (zero point 128)
    →
    call @iree.contraction.kernel.dispatch_1(%x, %w, %c131, %shares)
    call @iree.contraction.kernel.dispatch_1(%y, %v, %c128, %shares)

Each layer of a quantised model has zero points of its own, and tables of its own where
functions of bytes are looked up. Kernels of one structure become the first of them,
whose constants are replaced where they differ (`aotc.kernels.cpu.parameters`). The
manifest lists the ops of the first.
"""

from __future__ import annotations

from aotc.kernels.cpu.shared_code import share_kernels
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import LOWERED


class ShareKernels(Pass):
    """Merge CPU kernels that differ in constants alone; the constants become
    operands.
    """

    name = "share-kernels"
    level = 2
    keeps_graph = False
    requires = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any kernels were
        merged.
        """
        return share_kernels(unit.module)
