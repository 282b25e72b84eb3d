"""Compute equal things once: upstream's common-subexpression elimination.

    %1 = graph.exp(%x)                %1 = graph.exp(%x)
    %2 = graph.exp(%x)          →     %3 = graph.add(%1, %1)
    %3 = graph.add(%1, %2)

Ops without effects are marked Pure.
"""

from aotc.mlir import passmanager
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import VALUES_UNIQUE


class Cse(Pass):
    """Run MLIR's common-subexpression elimination on the module."""

    name = "cse"
    level = 1
    keeps_graph = True
    ensures = (VALUES_UNIQUE,)

    def run(self, unit: Unit) -> bool:
        """Run MLIR's `cse`; return True, as it does not report whether anything
        changed.
        """
        manager = passmanager.PassManager.parse("builtin.module(cse)")
        manager.enable_verifier(False)  # the runner verifies
        manager.run(unit.module.operation)
        return True
