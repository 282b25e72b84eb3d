"""Compute differentiated functions, and entries without derivatives, more cheaply.

    func @step(%w, %x) {
      %l, %dw = call @loss.vjp(%w, %x, %one)
    }
    func @loss(%w, %x) { … }
    →
    func @loss(%w, %x) { return call @loss.whole.precision(%w, %x) }
    func @loss.whole(%w, %x) { … }

What is declared as `graph.precision` the pass `autodiff` writes: products in bf16 or
f16, and f32 where an op needs it (`aotc ops`). Arguments, results, gradients and what
makes new states of these keep their dtypes.

An entry that computes no derivative is one such function, whose states that it updates
are not rounded. What the source has put into `aotc.mixed_precision` stays as it is, and
so does what multiplies nothing.

In f16 gradients vanish, so losses are scaled (`aotc.passes.loss_scaling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aotc.dialects.calls.callees import callees, reachable_functions, rules_of
from aotc.dialects.functions import functions
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.transform import (
    CHEAPER,
    Jvp,
    Precision,
    Vjp,
    derive,
    derived_of,
    transformation_of,
    transformations_of,
)
from aotc.dialects.functions.walking import clone, walk
from aotc.dialects.graph import LOW, GraphOp
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Function, Operation
from aotc.passes.base import Pass, Unit
from aotc.passes.loss_scaling import scale_losses
from aotc.passes.properties import IS_GRAPH


@dataclass(frozen=True)
class MixPrecision(Pass):
    """Rewrite entries and differentiated functions to compute products in bf16 or f16.

    Args:
        compute: `bf16` or `f16`.

    Raises:
        InputError: `bad-pass-option`; `no-products`: nothing would be computed in it;
            `loss-not-scaled`: of f16, an entry has no state to keep a scale in, or its
            derivatives are within a loop.
    """

    compute: str

    name = "mix-precision"
    level = 0
    keeps_graph = True
    requires = (IS_GRAPH,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        if self.compute not in CHEAPER:
            raise InputError(
                "bad-pass-option",
                f"expected one of {', '.join(CHEAPER)} for {self.name}'s compute; got "
                f"'{self.compute}'",
            )
        with index_functions(unit.module) as known:
            chosen = {
                name: kept
                for entry in unit.program.entries
                for name, kept in _computed_cheaper(known, entry)
            }
            if not chosen:
                raise InputError(
                    "no-products",
                    f"no entry has products of f32 to be computed in {self.compute}",
                    hint="leave out --precision",
                )
            for name, kept in chosen.items():
                _compute_cheaper(known[name], self.compute, kept)
        if self.compute == "f16":
            scale_losses(unit.program, chosen.keys())
        return True


def _computed_cheaper(
    known_functions: Functions, entry: Entry
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield functions of an entry to make cheaper, with arguments to keep in f32."""
    reached = reachable_functions(known_functions, entry.name)
    derived = [derived_of(known_functions[name]) for name in reached]
    derivatives = [each for each in derived if isinstance(each, Vjp | Jvp)]
    if not derivatives:
        if _multiplies(known_functions, entry.name):
            yield entry.name, tuple(_updated_states(entry))
        return
    for each in derivatives:
        name = _source_function(known_functions, each.of)
        if name is not None and _multiplies(known_functions, name):
            yield name, ()


def _source_function(known_functions: Functions, name: str) -> str | None:
    """Return the source function behind transformations; None if its precision is
    already set.

    None where its precision is settled: by the source, or by rules of its own.
    """
    for made in transformations_of(known_functions, name):
        if isinstance(made, Precision):
            return None
        name = made.of
    rules = rules_of(known_functions[name])
    return None if rules is not None and rules.keeps_precision else name


def _multiplies(known_functions: Functions, name: str) -> bool:
    """Return whether a function, or a callee, has f32 products not already made
    cheaper.
    """
    rest, seen = [name], {name}
    while rest:
        function = known_functions[rest.pop()]
        if isinstance(transformation_of(function), Precision):
            continue
        ops = [] if function.is_external else function.entry_block.operations
        if any(map(_is_product, ops)):
            return True
        for inner in callees(function):
            if inner not in seen:
                seen.add(inner)
                rest.append(inner)
    return False


def _is_product(op: Operation) -> bool:
    """Return whether an op is to compute in low precision and reads f32."""
    is_cheaper = isinstance(op, GraphOp) and type(op).precision == LOW
    return is_cheaper and any(Tensor.of(x).dtype == "f32" for x in op.operands)


def _updated_states(entry: Entry) -> Iterator[int]:
    """Yield the indices of arguments that are states which the entry updates."""
    updated = {port.name for port in entry.results if port.kind == "state"}
    for number, port in enumerate(entry.arguments):
        if port.kind == "state" and port.name in updated:
            yield number


def _compute_cheaper(function: Function, compute: str, kept: tuple[int, ...]) -> None:
    """Outline a function's body, and call it in mixed precision in its place."""
    block = function.entry_block
    ops = [*block.operations]
    returned = ops.pop()
    with functions.before(returned):
        whole = functions.define(
            f"{functions.name_of(function)}.whole",
            functions.types_of(block.arguments),
            lambda arguments: walk(block, arguments, clone),
        )
        mixed = derive(Precision(whole, compute, kept))
        results = functions.call(mixed, [*block.arguments])
    for number, value in enumerate(results):
        returned.operands[number] = value
    for op in reversed(ops):
        op.operation.erase()
