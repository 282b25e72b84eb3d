"""What aotc does before IREE grows with the graph, and not with its square.

Counted, not timed: calls, and what C code visits for them (`benchmarks/growth_counts`),
in every step of a build with the kernels of a CPU, on the graphs of
`benchmarks/growth_model.py`. A pass that is added to the stages is counted, too.
"""

import pytest

import aotc
from aotc import numpy as np
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.lowering import variation
from aotc.passes import PASSES, run_passes
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.tracing.assembly import trace
from benchmarks.growth_counts import counts_of, forget, growth_of, suspects
from benchmarks.growth_stages import OPS_OF_STEP, GrowingBuild, size_of

# Linear is 2. Names and numbers get longer, and lists are sorted: the logarithm of the
# size makes it 2.08 at most.
MOST = 2.1
FEW = 100  # calls that a step may take beside what grows

# Of no stage: what an option asks for.
UNCOUNTED = {
    "mix-precision": "runs on the graph as it was imported, where it is asked for",
    "set-io-layout": "runs on the graph as it was imported, for images alone",
    "rematerialize": "is a search, which goes over a program several times",
}

# kind → batch, and ops of the smallest of three graphs
GRAPHS = {
    "chain": ("batch", 100),
    "residual": ("4", 80),
    "branching": ("batch", 80),
    "differentiated": ("batch", 130),
    "reducing": ("4", 120),
    "training": ("4", 90),
    "looping": ("batch", 40),
    "unrolled": ("4", 460),  # fewer steps are lowered several at once
    "calling": ("4", 96),
    "nesting": ("batch", 40),
    "enclosing": ("4", 50),
    "deciding": ("batch", 60),
    "sharing": ("4", 40),
    "decoding": ("4", 66),
    "convolving": ("batch", 70),
}


def counts_by_step(kind, batch, size, runs=lambda each: each):
    build = GrowingBuild(kind, size, batch)
    return {step.name: counts_of(step.run) for step in build.steps(runs)}


def growing_steps(kind, batch, ops, runs=lambda each: each):
    """The steps that grow faster than the graph, each with the functions to blame."""
    forget()
    size = size_of(kind, ops)
    sizes = (size, size, 2 * size, 4 * size)  # the first time, all is new
    _, *counts = (counts_by_step(kind, batch, each, runs) for each in sizes)
    found = {}
    for name in counts[0]:
        three = [each[name] for each in counts]
        grown = three[2].total() - three[1].total()
        if growth_of(three) > MOST and grown > FEW:
            found[name] = round(growth_of(three), 2), suspects(three, MOST)[:5]
    return found


# What others of them have, too, is counted with `-m slow` alone.
LESS_OFTEN = {"chain", "residual", "reducing", "calling", "enclosing", "deciding"}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind in LESS_OFTEN))
        for kind in OPS_OF_STEP
    ],
)
def test_no_step_grows_faster_than_the_graph(kind):
    assert not growing_steps(kind, *GRAPHS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("ops", [500, 2_000])  # up to four times as many
@pytest.mark.parametrize("kind", OPS_OF_STEP)
def test_no_step_grows_faster_than_a_large_graph(kind, ops):
    assert not growing_steps(kind, GRAPHS[kind][0], ops)


def test_all_passes_are_counted():
    counted = {each.name for each in all_passes()}
    assert counted.isdisjoint(UNCOUNTED)
    assert counted | UNCOUNTED.keys() == PASSES.keys()


# ---- the counts see what they are for -----------------------------------------------


def walk_for_each_op(block):
    for _ in block.operations:
        for _ in block.operations:
            pass


def copy_for_each_op(block):
    for _ in block.operations:
        list(block.operations)


def search_for_each_op(block):
    ops = [*block.operations]
    for op in ops:
        ops.index(op)


def membership_of_each_value(block):
    values = [value for op in block.operations for value in op.results]
    for value in values:
        assert value in values


def place_of_each_op(block):
    for number in range(sum(1 for _ in block.operations)):
        block.operations[number]


FAULTS = (
    walk_for_each_op,
    copy_for_each_op,
    search_for_each_op,
    membership_of_each_value,
    place_of_each_op,
)


class Faulty:
    """A pass that has a fault in every block beside what it does."""

    def __init__(self, given, fault):
        self._given, self._fault = given, fault

    def __getattr__(self, name):
        return getattr(self._given, name)

    def run(self, unit):
        for function in functions_of(unit.module).values():
            for block in function.regions[0].blocks:
                self._fault(block)
        return self._given.run(unit)


@pytest.mark.parametrize(
    "faults", [FAULTS, *(pytest.param([x], marks=pytest.mark.slow) for x in FAULTS)]
)
def test_each_pass_that_is_quadratic_is_found_and_no_other_step(faults):
    number_of = {each.name: number for number, each in enumerate(all_passes())}

    def faulty(given):
        return Faulty(given, faults[number_of[given.name] % len(faults)])

    assert [*growing_steps("chain", "4", 60, faulty)] == [
        f"{stage.name} {number}: {each.name}"
        for stage in PASS_STAGES
        for number, each in enumerate(stage.passes())
    ]


@pytest.fixture
def asked(monkeypatch):
    """The scalars of which it is asked whether they vary."""
    found, known = [], variation._scalar_varies
    monkeypatch.setattr(
        variation, "_scalar_varies", lambda x: found.append(x) or known(x)
    )
    return found


def test_a_product_is_proved_to_vary_without_what_comes_before_it(asked):
    @aotc.entry(x=aotc.Spec((4, 4)), w=aotc.Spec((4, 4)))
    def deep(x, w):
        for _ in range(3):
            x = np.tanh(x @ w)
        return x

    run_passes(trace([deep], {}).module, all_passes())
    assert not asked


def test_a_sum_is_proved_to_vary_without_more_terms_than_one_that_varies(asked):
    @aotc.entry(x=aotc.Spec(("n",)))
    def terms(x):
        return (x + np.sin(x) + np.cos(x)).sum()

    run_passes(trace([terms], {}).module, all_passes())
    assert 0 < len(asked) < 9  # a sine has some 200 ops
