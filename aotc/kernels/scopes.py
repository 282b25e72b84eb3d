"""The functions in which kernels are looked for: entries, and bodies of their loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aotc.dialects.control import Scan, While, control_of
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Module, Value, func

Weights = dict[str, set[Value]]


def functions_with_weights(
    module: Module, *, with_invariants: bool = False
) -> Iterator[tuple[Function, set[Value]]]:
    """Yield entries and loop bodies with their weight values, under their contracts."""
    functions = functions_of(module)
    for entry in entries_of(module):
        scopes = scopes_of(functions, entry.name, with_invariants=with_invariants)
        for name, weights in scopes.items():
            with known_contracts(contracts_of(functions[name])):
                yield functions[name], weights


def scopes_of(
    functions: Mapping[str, Function], entry: str, *, with_invariants: bool = False
) -> Weights:
    """Return, by function name, the weight values in an entry and in its loops' bodies.

    What every step of a loop reads is a weight in its body if it is one outside.

    Args:
        functions: of the module, by name.
        entry: the name of the entry.
        with_invariants: whether whatever every step of a loop reads counts as a weight
            of the body: what is computed of it alone, such as its packing, is computed
            once before the loop (`hoist-invariants`).
    """
    found: Weights = {}
    _add(functions, entry, [], found, with_invariants=with_invariants)
    return found


def _add(
    functions: Mapping[str, Function],
    name: str,
    weights: list[Value],
    recorded: Weights,
    *,
    with_invariants: bool,
) -> None:
    """Record the weight values of a function and, recursively, of its loops' bodies."""
    function = functions[name]
    recorded[name] = known = weight_values(function, weights)
    for op, loop in _loops_in(function, functions):
        captured = range(loop.first_capture, len(op.operands))
        given = [n for n in captured if with_invariants or op.operands[n] in known]
        for body in loop.functions:
            if body not in recorded:
                arguments = functions[body].entry_block.arguments
                inner = [arguments[n] for n in given]
                _add(functions, body, inner, recorded, with_invariants=with_invariants)


def _loops_in(
    function: Function, functions: Mapping[str, Function]
) -> Iterator[tuple[func.CallOp, Scan | While]]:
    """Yield the calls of a function that are loops, each with its loop declaration."""
    for op in function.entry_block.operations:
        if isinstance(op, func.CallOp):
            control = control_of(functions[callee_of(op)])
            if isinstance(control, Scan | While):
                yield op, control
