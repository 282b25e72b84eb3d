"""Leave no code of entries whose calls are all computed by specializations of them.

    func @f(%x: tensor<?x8xf32, …>)
      attributes {graph.symbols = [{name = "batch", policy = "bucket", …}]}
    →
    func private @f(tensor<?x8xf32, …>) attributes {graph.symbols = […]}

Sizes that have another policy than `dynamic` are refused or padded, so no call has the
code for any. What callers see of the entry is still said at its declaration. The
self-check compares with the entry of the stage before, which is the same for all
targets.
"""

from aotc.dialects.functions.entries import declare_entry
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.passes.base import Pass, Unit
from aotc.passes.inline import drop_uncalled
from aotc.passes.properties import GENERAL_CODE_DROPPED, SIZES_PADDED, SIZES_SPECIALIZED


class DropGeneral(Pass):
    """Drop the body of entries whose calls all go to specialized or padded copies."""

    name = "drop-general"
    level = 0
    keeps_graph = True
    requires = (
        SIZES_SPECIALIZED,
        SIZES_PADDED,
    )
    ensures = (GENERAL_CODE_DROPPED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        idle = [
            each.name
            for each in unit.program.entries
            if each.specializes is None and not each.has_general_code
        ]
        with index_functions(unit.module):
            for name in idle:
                declare_entry(functions_of(unit.module)[name])
        if idle:
            drop_uncalled(unit.module)
        return bool(idle)
