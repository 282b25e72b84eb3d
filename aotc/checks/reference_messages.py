"""Messages between a build and the processes that evaluate calls for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.checks.samples import CheckItem
from aotc.core.pytree import PyTree
from aotc.mlir import bytecode
from aotc.programs.program import Program


@dataclass(frozen=True)
class SourceInputs:
    """The inputs that the source of an entry brings along, as a network has them."""

    example: Mapping[str, PyTree] | None

    @property
    def original(self) -> SourceInputs:
        """Return what has the example."""
        return self


@dataclass(frozen=True)
class ReferenceSource:
    """A program as it goes to a process that evaluates calls of its entries.

    Args:
        module: its bytecode; derivatives may be unwritten.
        parameters: its weights, and the first values of its states.
        inputs: those that sources of entries bring along, by entry.
        blas_threads: that a product of matrices may take.
    """

    module: bytes
    parameters: Mapping[str, np.ndarray]
    inputs: Mapping[str, SourceInputs]
    blas_threads: int

    @classmethod
    def of(cls, program: Program, blas_threads: int) -> ReferenceSource:
        """Make the source of a program, of which it holds all arrays."""
        examples = {
            name: SourceInputs(network.original.example)
            for name, network in program.networks.items()
            if network.original is not None
        }
        parameters = {name: np.asarray(x) for name, x in program.parameters.items()}
        return cls(bytecode(program.module), parameters, examples, blas_threads)


@dataclass(frozen=True)
class Reply:
    """The answer to a question about a trial.

    Args:
        found: what was asked for, or why there is nothing to compare.
        taken: the work that the trial has taken so far.
        needed: see `WorkBudget`.
    """

    found: Any
    taken: float
    needed: float


@dataclass(frozen=True)
class TrialFacts:
    """The facts of a trial that calls of compiled code need.

    Args:
        item: that the calls are of.
        inputs: the leaves of the inputs of each call.
        states: leaves of states before the first call that are not those of the
            program, by name.
    """

    item: CheckItem
    inputs: tuple[list[Any], ...]
    states: Mapping[str, np.ndarray]
