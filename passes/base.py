"""Base of passes, and the unit that they work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from aotc.dialects.functions.functions import functions_of
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import Function, Module
from aotc.programs.program import Program


@dataclass(frozen=True)
class PassRecord:
    """Timing record of one run of a pass: its name, seconds, and whether the IR
    changed.

    Args:
        name: of the pass, with its options.
        seconds: wall time.
        changed: whether it changed the IR.
    """

    name: str
    seconds: float
    changed: bool

    def to_json(self) -> dict[str, Any]:
        """Return the record as the build report holds it."""
        return {"pass": self.name, "seconds": self.seconds, "changed": self.changed}


@dataclass
class Unit:
    """The input of passes: a program for all targets, or its copy for one target.

    Args:
        program: module and parameters; both are the passes' to change.
        target: None before the program is forked, one for each target.
        records: what has been done to it, in order.
        notes: what passes have to tell, such as how an entry was made to fit.
    """

    program: Program
    target: Target | None = None
    records: list[PassRecord] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)

    @property
    def module(self) -> Module:
        """The MLIR module of the program."""
        return self.program.module

    def fork(self, target: Target) -> Unit:
        """Return a copy of the unit for one target; passes on it leave the original
        unchanged.
        """
        program = self.program.copy()
        program.target = str(target)
        return Unit(program, target)


@dataclass(frozen=True)
class Property:
    """A property of units: a predicate with its name.

    Args:
        name: of it.
        says: what is true.
        violations: the places of a unit where it is not.
        lasts: whether it stays true in all stages that follow.
    """

    name: str
    says: str
    violations: Callable[[Unit], Iterator[str]]
    lasts: bool = True


@dataclass(frozen=True)
class Pass:
    """A module pass: rewrites the module of a unit in place. Its fields are its
    options.

    Each class says what it is called, from which level of optimisation on a build runs
    it (0 for those that a build cannot do without), and whether it takes IR of the
    graph dialect and leaves it that. It may require properties of the unit, and ensure
    others: the order of the stages follows from them.
    """

    name: ClassVar[str]
    level: ClassVar[int]
    keeps_graph: ClassVar[bool]
    requires: ClassVar[tuple[Property, ...]] = ()
    ensures: ClassVar[tuple[Property, ...]] = ()

    def __init_subclass__(cls, *, is_base: bool = False) -> None:
        if is_base:
            return
        missing = [n for n in ("name", "level", "keeps_graph") if not hasattr(cls, n)]
        if missing:
            raise TypeError(
                f"the pass {cls.__name__} has no {' and no '.join(missing)}"
            )

    def run(self, unit: Unit) -> bool:
        """Run the pass on the module of `unit` in place; return whether the IR changed.

        Returns:
            False if nothing changed; True if something did, or may have.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the spelling that `aotc opt --passes` parses: `cse`,
        `rematerialize{entry=f,bytes=9}`.
        """
        options = [f"{each.name}={getattr(self, each.name)}" for each in fields(self)]
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


class FunctionPass(Pass, is_base=True):
    """A pass that works on one function at a time."""

    def run(self, unit: Unit) -> bool:
        """Run `change` on every function with a body; return whether any changed."""
        functions = functions_of(unit.module).values()
        return any([self.change(each) for each in functions if not each.is_external])

    def change(self, function: Function) -> bool:
        """Rewrite one function with a body, in place; return whether its IR changed."""
        raise NotImplementedError


def lowered_error(graph_pass: Pass, op: str) -> InputError:
    """Return the error for running a graph pass on IR that holds the lowered op
    `op`.
    """
    return InputError(
        "bad-option",
        f"expected IR that is a graph for the pass '{graph_pass}'; got the lowered op "
        f"{op}",
        hint="run it before lower-to-linalg, on IR of the stage graph or optimized",
    )
