"""How Hypothesis draws, and what tests of all folders share.

Hypothesis draws anew on every run, but the same examples in CI. Time limits per example
are off, because compilers and shared machines take their time.
"""

import os
import signal

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
def without_compiler():
    """Code is what the reference evaluator computes; all around it is as ever."""
    from benchmarks.fuzz import evaluated

    with evaluated.without_compiler():
        yield
