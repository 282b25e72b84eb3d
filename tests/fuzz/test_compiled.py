"""What `aotc.jit` would compile is told apart, compiled together and compared."""

import numpy as np

import aotc
from aotc import numpy as anp
from aotc.machine.target import Target
from benchmarks.fuzz.compiled import distinct, failures
from benchmarks.fuzz.evaluated import Evaluated, without_compiler
from benchmarks.fuzz.running import Runner


def evaluated(*functions) -> list[Evaluated]:
    """What would be compiled of functions that are called with 3 and with 5 numbers."""
    found: list[Evaluated] = []
    with without_compiler(found):
        for function in functions:
            called = aotc.jit(function)
            for size in (3, 5):
                called(np.arange(size, dtype="f4"))
    return found


def double(x):
    return x * 2.0


def twice(y):
    return y * 2.0


def largest(x):
    return anp.max(x), x[0] > 1


def test_graphs_that_differ_by_names_alone_are_compiled_once():
    graphs = distinct(evaluated(double, twice))
    assert [len(each.calls) for each in graphs] == [2, 2]  # of 3, and of any number


def test_compiled_graphs_are_called_again_and_a_wrong_result_is_told():
    graphs = distinct(evaluated(double, largest))
    with Runner() as runner:
        assert not list(failures(graphs, runner, Target.parse("cpu")))
        (_, results), *_ = graphs[0].calls
        results[0] = results[0] + 1
        ((graph, failure),) = failures(graphs, runner, Target.parse("cpu"))
    assert graph is graphs[0]
    assert failure.kind == "differs"
