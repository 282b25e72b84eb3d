"""Make a padded entry for each of the buckets that calls are padded to.

    func @f(%x: tensor<?x8xf32, …>)
      attributes {graph.specializations = [{batch = 4}],
                  graph.symbols = [{name = "batch", policy = "bucket", …}]}
    →
    func @f(%x: tensor<?x8xf32, …>)
    func @f__batch_4_padded(%x: tensor<4x8xf32>, %sizes: tensor<?x0xi8, …>)
      attributes {graph.specializes = {entry = "f", sizes = {batch = 4},
                                       padded = ["batch"]}}

Ops that a rule pads, such as a sum with zeros after the call's elements, have static
sizes then; `aotc.dialects.rules.padding` has the rules. It comes after `recover-ops`,
because a softmax is padded as one op, and its parts are not.
"""

from aotc.dialects.calls.padded_entries import add_padded_entry
from aotc.dialects.calls.specialization import add_specialization
from aotc.dialects.functions.entries import Entry, Sizes, drop_wanted_specializations
from aotc.dialects.functions.function_table import erase, index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.passes.base import Pass, Unit
from aotc.passes.inline import drop_uncalled
from aotc.passes.properties import CALLS_INLINED, SIZES_PADDED, SIZES_SPECIALIZED


class PadEntries(Pass):
    """Add an entry padded to each bucket size, for entries with the policy `bucket`."""

    name = "pad-entries"
    level = 0
    keeps_graph = True
    requires = (
        CALLS_INLINED,
        SIZES_SPECIALIZED,
    )
    ensures = (SIZES_PADDED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        asking = [each for each in unit.program.entries if each.specializations]
        with index_functions(unit.module):
            for entry in asking:
                for sizes in reversed(entry.specializations):  # each goes behind it
                    _add_padded(unit, entry, sizes)
                drop_wanted_specializations(unit.module, entry.name)
        if asking:
            drop_uncalled(unit.module)
        return bool(asking)


def _add_padded(unit: Unit, entry: Entry, sizes: Sizes) -> None:
    """Add the padded copy of an entry for one bucket; symbols of other policies are
    fixed.
    """
    padded = {name: size for name, size in sizes if name in entry.padded_symbols}
    exact = {name: size for name, size in sizes if name not in padded}
    if not exact:
        add_padded_entry(unit.module, entry, padded)
        return
    name = add_specialization(unit.module, entry, exact)
    add_padded_entry(unit.module, unit.program.entry(name), padded)
    erase(functions_of(unit.module)[name])
