"""Callees: the meaning of a function to its callers, the same for all passes.

A function without a body is declared as something that stands for one: control flow, or
a transformation whose body is yet to be written. And calls of some functions have rules
of their own, as ops have: those of control flow, and of functions that say how they are
differentiated; all other calls give way to the ops of the function.

A new kind of callee gives what `Declaration` or `Rules` ask for, and is found here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from aotc.dialects.calls.custom import custom_of
from aotc.dialects.control import control_of
from aotc.dialects.control.parts import Arrays, Inliner, Run, Types
from aotc.dialects.functions.functions import Values, callee_of
from aotc.dialects.functions.transform import derived_of
from aotc.dialects.functions.walking import control_regions
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering import Lowering
from aotc.mlir import Function, func


class Declaration(Protocol):
    """Interface of what a function without a body is declared as: a dataclass."""

    @property
    def kind(self) -> str:
        """The kind of declaration, as messages and listings name it."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions that the declared one runs, or is made from."""

    def evaluate(
        self, run: Run, arrays: Arrays, symbols: Sequence[int], results: Types, /
    ) -> Arrays:
        """Return the results of a call on arrays; `run` evaluates the functions."""

    def lower(
        self, low: Lowering, op: func.CallOp, operands: Values, inline: Inliner, /
    ) -> Values:
        """Emit the lowered ops of a call, and return its lowered results."""


class Rules(Protocol):
    """Rules of calls of a function, as an op's class has; a `Reason` where one lacks.

    The operands and results of a call have no names, so `jvp` takes a list of tangents
    and gives those of the float results; `vjp` gives the cotangents of the operands in
    `wanted`.
    """

    @property
    def jvp(self) -> Callable[..., Values]:
        """The `jvp` rule: (builder, call, tangents) → tangents of the results."""

    @property
    def vjp(self) -> Callable[..., Values]:
        """The `vjp` rule: (builder, call, cotangents, wanted) → cotangents."""

    @property
    def batch(self) -> Callable[..., Values]:
        """The `batch` rule: (builder, call, operands, batched, size) → results."""

    @property
    def keeps_precision(self) -> bool:
        """True if mixed precision leaves the function's computation unchanged."""

    def title(self, name: str, /) -> str:
        """Return how messages name a call of the function."""

    def call_transformed(
        self, name: str, operands: Values, transform: Callable[[str], str], /
    ) -> Values:
        """Emit a call of `name` where each function it depends on is transformed."""


def declaration_of(function: Function) -> Declaration | None:
    """Return the declaration of a function; None if it has a body."""
    return control_of(function) or derived_of(function)


def rules_of(function: Function) -> Rules | None:
    """Return the derivative and batch rules of a function; None if its body is used."""
    return control_of(function) or custom_of(function)


def calls_in(function: Function) -> list[func.CallOp]:
    """Return the calls among a function's ops, including its loops and branches."""
    found: list[func.CallOp] = []
    rest = control_regions(function)
    while rest:
        for block in rest.pop().blocks:
            for op in block.operations:
                if isinstance(op, func.CallOp):
                    found.append(op)
                elif not isinstance(op, GraphOp):
                    rest += control_regions(op)
    return found


def callees(function: Function) -> list[str]:
    """Return the names of the functions that a function calls, runs or is made from."""
    declared = declaration_of(function)
    if declared is not None:
        return list(declared.functions)
    return [callee_of(op) for op in calls_in(function)]


def reachable_functions(known: Mapping[str, Function], name: str) -> list[str]:
    """Return the names of all functions that `name` reaches, itself first."""
    rest, found = [name], dict.fromkeys([name])
    while rest:
        for inner in callees(known[rest.pop()]):
            if inner not in found:
                found[inner] = None
                rest.append(inner)
    return list(found)
