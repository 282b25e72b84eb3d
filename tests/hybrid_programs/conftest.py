"""What tests of programs share."""

from types import SimpleNamespace

import numpy as np
import pytest

from aotc import reference
from aotc.just_in_time import function as jit_functions
from aotc.just_in_time.compiling import Compilation
from aotc.passes import run_passes


@pytest.fixture
def without_compiler(monkeypatch):
    """Code is what the reference evaluator computes; all around it is as ever."""

    def evaluated(program, target, threads):
        program = program.copy()
        run_passes(program.module, ("autodiff",), silently=True)
        (entry,) = program.entries

        def call_flat(leaves):
            found = reference.evaluate(program.module, entry.name, leaves)
            arrays = [np.array(each) for each in found]
            for each in arrays:
                each.flags.writeable = False
            return arrays

        spec = SimpleNamespace(result=entry.output_tree.to_json())
        code = SimpleNamespace(spec=spec, call_flat=call_flat)
        model = SimpleNamespace(
            entry=lambda name: code, manifest=SimpleNamespace(states=())
        )
        return Compilation(model, 0.0, is_cached=False)

    monkeypatch.setattr(jit_functions, "compile_program", evaluated)
