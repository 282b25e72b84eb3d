"""Random programs and their derivatives, executed op by op, give what graphs give."""

import numpy as np
import pytest

from aotc import reference
from aotc.core.pytree import flatten
from aotc.errors import AotcError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from aotc.tracing.entry_calls import execute_entry
from benchmarks.fuzz.executing import entry_of
from benchmarks.fuzz.generation import random_program, variants
from benchmarks.fuzz.jax_peer import examples
from benchmarks.fuzz.source import model_source

SEEDS = [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 25))]


def outcome(run):
    try:
        return [np.asarray(x) for x in run()]
    except AotcError as error:
        return error.code


def by_graph(declared, arrays):
    program = trace([declared], {})
    run_passes(program.module, ["autodiff", "inline"])
    return reference.evaluate(program.module, "program", arrays)


def is_near(x, y, narrow):
    """Equal but for the order of sums, which second derivatives may change."""
    tolerance = 3e-2 if narrow else 1e-4
    x, y = x.astype("f8"), y.astype("f8")
    largest = max(1.0, np.abs(np.nan_to_num(y)).max(initial=0.0))
    return np.allclose(x, y, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_executes_to_what_its_graph_gives(seed):
    drawn, _ = random_program(seed)
    for program in (drawn, *variants(drawn)):
        declared = entry_of(program, "program")
        for sizes in program.sizes:
            arrays = examples(program, sizes)
            expected = outcome(lambda: by_graph(declared, arrays))  # noqa: B023
            found = outcome(lambda: flatten(execute_entry(declared, arrays, {}))[0])  # noqa: B023
            if isinstance(expected, str) or isinstance(found, str):
                assert found == expected, model_source(program)
                continue
            source = model_source(program)
            narrow = "float16" in source
            for x, y in zip(found, expected, strict=True):
                assert (x.dtype, x.shape) == (y.dtype, y.shape), source
                assert is_near(x, y, narrow), source
