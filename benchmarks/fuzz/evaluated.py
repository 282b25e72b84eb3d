"""Functions of `aotc.jit` without a compiler: their code is the reference evaluator.

What traces, guards, keeps and chooses variants is as ever, and a program takes
milliseconds instead of seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from aotc import reference
from aotc.just_in_time import function as jit_functions
from aotc.just_in_time.compiling import Compilation
from aotc.passes import run_passes


@dataclass(frozen=True)
class Evaluated:
    """A traced program that `aotc.jit` would have compiled, and its calls.

    Args:
        program: as it was traced.
        calls: the leaves of the inputs and of the results of each.
    """

    program: Any
    calls: list[tuple[list[Any], list[Any]]] = field(default_factory=list)


@contextmanager
def without_compiler(evaluated: list[Evaluated] | None = None) -> Iterator[None]:
    """Make `aotc.jit` use the reference evaluator instead of a compiler in this
    context.

    Args:
        evaluated: gets the programs that would have been compiled.
    """
    compiler = partial(_evaluated_program, [] if evaluated is None else evaluated)
    with mock.patch.object(jit_functions, "compile_program", compiler):
        yield


def _evaluated_program(
    evaluated: list[Evaluated], program: Any, target: Any, threads: int | None
) -> Compilation:
    """Return a program's function that evaluates and records calls instead of
    compiling.
    """
    noted = Evaluated(program.copy())
    evaluated.append(noted)
    program = program.copy()
    run_passes(program.module, ("autodiff",), silently=True)
    (entry,) = program.entries

    def call_flat(leaves: Sequence[Any]) -> list[Any]:
        found = reference.evaluate(program.module, entry.name, leaves)
        arrays = [np.array(each) for each in found]
        for each in arrays:
            each.flags.writeable = False
        noted.calls.append(([np.array(each) for each in leaves], arrays))
        return arrays

    spec = SimpleNamespace(result=entry.output_tree.to_json())
    code = SimpleNamespace(spec=spec, call_flat=call_flat)
    model: Any = SimpleNamespace(
        entry=lambda name: code, manifest=SimpleNamespace(states=())
    )
    return Compilation(model, 0.0, is_cached=False)
