"""Write the bodies of transformed functions: derivatives, and functions over a stack.

    func private @f.vjp(%x, %dy) -> (…) attributes {graph.vjp = {of = @f, wrt = [0]}}
    →
    func private @f.vjp(%x, %dy) {
      %y = graph.exp(%x)                 // the forward ops of @f
      %dx = graph.multiply(%y, %dy)      // their vjp rules, in reverse
      return %y, %dx
    }

What a function calls is written before it, so transformations may be nested in any
order. The sweeps know no op: each gives its own rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aotc.dialects.calls.callees import rules_of
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.functions import SYMBOLS, callee_of
from aotc.dialects.functions.transform import (
    Batch,
    Derived,
    Jvp,
    Precision,
    Vjp,
    Widened,
    derived_of,
)
from aotc.dialects.functions.walking import clone, walk
from aotc.mlir import Block, Function, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.inline import inline_calls
from aotc.passes.properties import DERIVATIVES_WRITTEN
from aotc.passes.sweeps import batch, forward, precision, reverse, widen

# writes the body of a transformed function: given what it is, the block that begins
# with the primal function's ops, its arguments and its results
Sweep = Callable[[Any, Block, list[Value], list[Value]], Sequence[Value]]
_SWEEPS: dict[type, Sweep] = {Vjp: reverse.sweep, Jvp: forward.sweep}

# the same where the primal function's ops are written anew: given what it is, that
# function and the block
Rewrite = Callable[[Any, Function, Block], Sequence[Value]]
_REWRITES: dict[type, Rewrite] = {
    Batch: batch.sweep,
    Precision: precision.sweep,
    Widened: widen.sweep,
}


class Autodiff(Pass):
    """Write the bodies of all functions declared as transformations (vjp, jvp, batch,
    …).
    """

    name = "autodiff"
    level = 0
    keeps_graph = True
    ensures = (DERIVATIVES_WRITTEN,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed, seen = False, 0
        with index_functions(unit.module) as functions:
            while rest := [*functions][seen:]:  # bodies may declare more of them
                seen += len(rest)
                for name in rest:
                    changed |= derived_of(functions[name]) is not None
                    _define(functions, name)
        return changed


def _define(functions: Functions, name: str) -> None:
    """Write the body of the function `name` if it is declared as a transformation.

    Those of the functions that it is derived from are written first.
    """
    function = functions[name]
    derived = derived_of(function)
    if derived is None:
        return
    _define(functions, derived.of)
    _flatten(functions, derived.of)
    primal = functions[derived.of]
    block = function.add_entry_block()
    if SYMBOLS in primal.attributes:
        function.attributes[SYMBOLS] = primal.attributes[SYMBOLS]
    with ir.InsertionPoint(block), function.location:
        func.ReturnOp(_body(derived, primal, block))


def _body(derived: Derived, primal: Function, block: Block) -> Sequence[Value]:
    """Emit the ops of a transformed function into its entry block; return its
    results.
    """
    if type(derived) in _REWRITES:
        return _REWRITES[type(derived)](derived, primal, block)
    count = len(primal.entry_block.arguments)
    inputs, given = list(block.arguments)[:count], list(block.arguments)[count:]
    # the return holds the outputs while rules replace the ops that compute them
    held = func.ReturnOp(walk(primal.entry_block, inputs, clone))
    with ir.InsertionPoint(held):
        found = _SWEEPS[type(derived)](derived, block, inputs, given)
    outputs = list(held.operands)
    held.operation.erase()
    return [*outputs, *found]


def _flatten(functions: Functions, name: str) -> None:
    """Inline all calls in `name` whose callee has no rule of its own, defining the
    callees first.
    """

    def chosen(call: func.CallOp) -> Function | None:
        callee = functions[callee_of(call)]
        if rules_of(callee) is not None:
            return None
        _define(functions, callee_of(call))
        return callee

    inline_calls(functions[name], chosen)
