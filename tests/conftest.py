"""How Hypothesis draws, and what tests of all folders share.

Hypothesis draws anew on every run, but the same examples in CI. Time limits per example
are off, because compilers and shared machines take their time.
"""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

from aotc.target import Target

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# One CPU target for a build that names none: compiles dominate the time of the tests.
os.environ["AOTC_TARGETS"] = str(Target.parse("cpu"))
# What a test builds is compiled: the cache has tests of its own.
os.environ["AOTC_CACHE"] = "off"


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def deadly_lowering():
    """A `lower` rule of unary ops on floats: its code ends the process (SIGFPE)."""
    from aotc.dialects.types import Tensor
    from aotc.mlir import arith, ir

    def divide_by_zero(element):
        number, whole = element.type, ir.IntegerType.get_signless(64)
        most, none = (
            arith.fptosi(
                whole, arith.mulf(element, arith.ConstantOp(number, scale).result)
            )
            for scale in (1e4, 1e-9)
        )
        return arith.sitofp(number, arith.divsi(most, none))

    def lower(low, op, x):
        return low.pointwise([x], Tensor.of(op.y), divide_by_zero)

    return lower


@pytest.fixture
def without_compiler(monkeypatch):
    """Code is what the reference evaluator computes; all around it is as ever."""
    from aotc import reference
    from aotc.just_in_time import function as jit_functions
    from aotc.just_in_time.compiling import Compilation
    from aotc.passes import run_passes

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
