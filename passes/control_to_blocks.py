"""Loops and branches of functions as blocks that jump to one another.

See `aotc.dialects.lowering.blocks` for why.
"""

from aotc.dialects.lowering.blocks import to_blocks
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CONTROL_IN_BLOCKS, LOWERED


class ControlToBlocks(Pass):
    """Rewrite loops and branches (scf) of functions as basic blocks with branches."""

    name = "control-to-blocks"
    level = 0
    keeps_graph = False
    requires = (LOWERED,)
    ensures = (CONTROL_IN_BLOCKS,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether there was structured
        control flow to rewrite.
        """
        return to_blocks(unit.module)
