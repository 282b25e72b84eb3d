"""Make an entry for each of the sizes that are to have code of their own.

    func @f(%x: tensor<?x8xf32, …>) attributes {graph.specializations = [{batch = 4}]}
    →
    func @f(%x: tensor<?x8xf32, …>)
    func @f__batch_4(%x: tensor<4x8xf32>)
      attributes {graph.specializes = {entry = "f", sizes = {batch = 4}}}

The loader calls it in the place of `f` where the sizes of a call are these. To every
pass after this one it is an entry like any other.

Sizes that calls are padded to are left to `pad-entries`.
"""

from dataclasses import replace

from aotc.dialects.calls.specialization import add_specialization
from aotc.dialects.functions.entries import drop_wanted_specializations, write_entry
from aotc.dialects.functions.function_table import index_functions
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import SIZES_SPECIALIZED


class Specialize(Pass):
    """Add an entry for each combination of fixed sizes that entries ask for."""

    name = "specialize"
    level = 0
    keeps_graph = True
    ensures = (SIZES_SPECIALIZED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        with index_functions(unit.module):
            for entry in unit.program.entries:
                padded = {*entry.padded_symbols}
                later = [x for x in entry.specializations if padded & {*dict(x)}]
                now = [x for x in entry.specializations if x not in later]
                for sizes in reversed(now):  # each goes behind it
                    add_specialization(unit.module, entry, dict(sizes))
                if now:
                    changed = True
                    drop_wanted_specializations(unit.module, entry.name)
                    write_entry(
                        unit.module, replace(entry, specializations=tuple(later))
                    )
        return changed
