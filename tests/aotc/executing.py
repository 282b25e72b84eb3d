"""Functions executed op by op."""

import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc import (
    reference,
)
from aotc.errors import AotcError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

X = np.array([0.5, -1.0, 2.0], "f4")


# ---- the two ways -------------------------------------------------------------------


def entry_of(function, arrays):
    """An entry of arrays of these types."""
    specs = [aotc.Spec(x.shape, x.dtype) for x in arrays]

    @aotc.entry(xs=specs)
    def entry(xs):
        return [*function(*xs), anp.asarray(0)]  # an entry returns something

    return entry


def compiled(declared, arrays):
    """The results of the entry's graph, or the code of the error."""
    program = trace([declared], {})
    run_passes(program.module, ["autodiff", "inline"])
    return reference.evaluate(program.module, "entry", arrays)


# ---- derivatives --------------------------------------------------------------------


def wave(x):
    return (anp.sin(x) * x * x).sum()


# ---- what is refused ----------------------------------------------------------------


def error_here(function, *arrays):
    """The error of a call, which names a line of the tests."""
    with pytest.raises(AotcError) as caught:
        function(*arrays)
    assert caught.value.where.startswith(("test_eager", "executing.py:"))
    return caught.value
