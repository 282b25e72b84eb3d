"""Functions of `aotc.jit` without a compiler: their code is the reference evaluator.

What traces, guards, keeps and chooses variants is as ever, and a program takes
milliseconds instead of seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from aotc import reference
from aotc.just_in_time import function as jit_functions
from aotc.just_in_time.compiling import Compilation
from aotc.passes import run_passes


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within this block, the reference evaluator is the code of `aotc.jit`."""
    with mock.patch.object(jit_functions, "compile_program", _evaluated_program):
        yield


def _evaluated_program(program: Any, target: Any, threads: int | None) -> Compilation:
    """A traced program, as if it were compiled."""
    program = program.copy()
    run_passes(program.module, ("autodiff",), silently=True)
    (entry,) = program.entries

    def call_flat(leaves: Sequence[Any]) -> list[Any]:
        found = reference.evaluate(program.module, entry.name, leaves)
        arrays = [np.array(each) for each in found]
        for each in arrays:
            each.flags.writeable = False
        return arrays

    spec = SimpleNamespace(result=entry.output_tree.to_json())
    code = SimpleNamespace(spec=spec, call_flat=call_flat)
    model: Any = SimpleNamespace(
        entry=lambda name: code, manifest=SimpleNamespace(states=())
    )
    return Compilation(model, 0.0, is_cached=False)
