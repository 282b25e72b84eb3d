"""Sums of many floats are made in blocks: Note [sums in blocks]."""

import iree.runtime as iree
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import aotc
from aotc import linalg, nn
from aotc import numpy as anp
from aotc.backend import compile_targets
from aotc.dialects.lowering.summation import LONGEST, block_of
from aotc.frontends.assembly import trace
from aotc.pipeline import lower
from aotc.target import Target

LONG = 1 << 20
PRIME = 1_000_003


@given(st.integers(LONGEST + 1, 10**8))
def test_blocks_divide_an_axis_into_parts_that_are_added_in_series(size):
    block = block_of(size)
    assert block is None or (size % block == 0 and size // block <= LONGEST)
    assert block is None or block <= LONGEST


def test_short_sums_are_added_in_one_go():
    def entry(x):
        return anp.sum(x)

    short = aotc.entry(x=aotc.Spec((LONGEST,)))(entry)
    assert str(lower(trace([short], {})).module).count('"reduction"') == 1


def statistics(x):
    """Sums of a vector."""
    return (
        anp.sum(x),
        anp.sum(x * x),
        anp.var(x),
        linalg.norm(x),
        nn.log_softmax(x)[:3],
        nn.softmax(x)[:3] * LONG,
        nn.layer_norm(x)[:3],
        anp.dot(x, x) if x.shape[0] == LONG else anp.sum(x),
    )


def of_columns(x):
    """Sums of the columns of a matrix."""
    zero, one = anp.zeros(3, x.dtype), anp.ones(3, x.dtype)
    _, mean, variance = nn.batch_norm_training(x, zero, one, momentum=0.0)
    return anp.sum(x, 0), mean, variance, linalg.norm(x, axis=0), x.T @ x, x.T @ x[:, 0]


def gradient(x):
    """The derivative by a scale, which is a sum."""
    return aotc.grad(lambda scale: anp.sum(anp.exp(x * scale)))(x[0] * 0 + 1)


def test_compiled_sums_of_a_million_elements_lose_no_digits():
    rng = np.random.default_rng(0)
    shapes = {
        "statistics": (statistics, (LONG,)),
        "of_a_prime": (lambda x: statistics(x), (PRIME,)),
        "of_columns": (of_columns, (LONG // 2, 3)),
        "gradient": (gradient, (LONG,)),
    }
    entries = []
    for name, (function, shape) in shapes.items():
        function.__name__ = name
        entries.append(aotc.entry(x=aotc.Spec(shape))(function))
    (variant,) = compile_targets(lower(trace(entries, {})), [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    module = iree.load_vm_module(code, config)
    for name, (function, shape) in shapes.items():
        x = rng.uniform(size=shape).astype("f4")
        wide = x.astype("f8")
        found = getattr(module, name)(x)
        if name == "gradient":
            np.testing.assert_allclose(found, np.sum(wide * np.exp(wide)), 2e-6)
            continue
        for got, want in zip(found, function(anp.asarray(wide)), strict=True):
            np.testing.assert_allclose(got, np.asarray(want), 1e-5)
