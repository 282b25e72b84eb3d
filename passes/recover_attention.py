"""Recover attention from its parts in functions of which derivatives are taken.

    %s = graph.dot_general(%query, %key)
    %p = graph.softmax(%s)                 →    %y, %l = graph.attention(…)
    %y = graph.dot_general(%p, %value)

An op is differentiated whole, so what is to have the derivative of attention, which
stores nothing of queries by keys, must be one op before. The derivative of its parts
reads the probabilities, so `recover-ops` finds no attention after.

Attention is found as `recover-ops` finds it (`recovery/attention.py`), and it alone:
other ops may have other derivatives than their parts, where these have none.
"""

from __future__ import annotations

from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.functions.transform import Jvp, Vjp, derived_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.mlir import Function
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import IS_GRAPH
from aotc.passes.recover_ops import replace_attention
from aotc.passes.recovery.known import KnownValues
from aotc.passes.recovery.labels import SplatValues


class RecoverAttention(Pass):
    """Replace product-softmax-product by one attention op in functions to be
    differentiated.
    """

    name = "recover-attention"
    level = 2
    keeps_graph = True
    requires = (IS_GRAPH,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        functions = functions_of(unit.module)
        found = {
            name
            for each in functions.values()
            if isinstance(derived := derived_of(each), Vjp | Jvp)
            for name in reachable_functions(functions, derived.of)
        }
        bodies = {name: x for name, x in functions.items() if name in found}
        return any([_recover(each) for each in unfused_functions(bodies)])


def _recover(function: Function) -> bool:
    """Replace the attentions in one function; return whether there were any."""
    products = [
        op for op in function.entry_block.operations if isinstance(op, DotGeneral)
    ]
    known = KnownValues(SplatValues({}), {})
    with known_contracts(contracts_of(function)):
        return any([replace_attention(op, known) for op in products])
