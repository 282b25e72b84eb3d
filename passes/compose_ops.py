"""Replace ops that are there for a kernel by others, where the target has no kernel.

    %q, %k, %v, %b = graph.attention_gradient(…)
  →
    %s = graph.dot_general(%query, %key)
    …
    %q = graph.dot_general(%ds, %key)          // each product has a kernel of its own

The class of such an op says so (`is_for_kernels`), and what it is made of
(`composition`). What is written is brought into the order that all else has by then:
the passes that do so run again, if there is anything.

Requires that derivatives are written. Ensures that each such op has a kernel.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from aotc.dialects.builder import replace_op
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.mlir import Function
from aotc.passes.base import Pass, Unit
from aotc.passes.cse import Cse
from aotc.passes.properties import DERIVATIVES_WRITTEN
from aotc.passes.simplify import Simplify
from aotc.passes.sink_reshapes import SinkReshapes
from aotc.passes.sink_transposes import SinkTransposes

_TIDYING = Simplify, Cse, SinkTransposes, Simplify, SinkReshapes, Simplify, Cse


@dataclass(frozen=True)
class ComposeOps(Pass):
    """Replace ops that exist for a fused kernel by simpler ops where the target lacks
    it.

    Args:
        without: families of kernels that are left out, with `+` between.
    """

    without: str = ""

    name = "compose-ops"
    level = 2
    keeps_graph = True
    requires = (DERIVATIVES_WRITTEN,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        capabilities = capabilities_of(unit.target)
        left_out = frozenset(self.without.split("+"))
        bodies = unfused_functions(functions_of(unit.module))
        if not any([_compose_in(each, capabilities, left_out) for each in bodies]):
            return False
        for kind in _TIDYING:
            kind().run(unit)
        return True


def _compose_in(
    function: Function,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str],
) -> bool:
    """Replace a function's fused-kernel ops without a kernel; return whether there were
    any.
    """
    operations = function.entry_block.operations
    found = [op for op in operations if isinstance(op, GraphOp) and op.is_for_kernels]
    changed = False
    with known_contracts(contracts_of(function)):
        for op in found:
            if not _has_kernel(op, capabilities, left_out):
                replace_op(op, type(op).composition)
                changed = True
    return changed


def _has_kernel(
    op: GraphOp, capabilities: Capabilities | NoTargetKernels, left_out: Container[str]
) -> bool:
    """Return whether a kernel family that is not left out computes an op on the
    target.
    """
    if isinstance(capabilities, NoTargetKernels):
        return False
    return capabilities.choose(op, by_weight=False, without=left_out) is not None
