"""Make an entry for each of the sizes that are to have code of their own.

    func @f(%x: tensor<?x8xf32, …>) attributes {graph.specializations = [{batch = 4}]}
    →
    func @f(%x: tensor<?x8xf32, …>)
    func @f__batch_4(%x: tensor<4x8xf32>)
      attributes {graph.specializes = {entry = "f", sizes = {batch = 4}}}

The loader calls it in the place of `f` where the sizes of a call are these. To every
pass after this one it is an entry like any other.

Requires: nothing. Ensures: no entry has sizes left that it is to be specialized for.
"""

from aotc.dialects.entries import SPECIALIZATIONS
from aotc.dialects.function_table import index_functions
from aotc.dialects.functions import functions_of
from aotc.dialects.specialization import add_specialization
from aotc.passes.base import Pass, Unit


class Specialize(Pass):
    """Put specializations beside the entries that ask for them."""

    name = "specialize"
    level = 0
    keeps_graph = True

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        asking = [each for each in unit.program.entries if each.specializations]
        with index_functions(unit.module):
            for entry in asking:
                for sizes in reversed(entry.specializations):  # each goes behind it
                    add_specialization(unit.module, entry, dict(sizes))
        for entry in asking:
            del functions_of(unit.module)[entry.name].attributes[SPECIALIZATIONS]
        return bool(asking)
