"""Order and totals inside of an entry: symbolic sizes, derivatives, compiled code."""

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import control, nn, reference
from aotc.backend import compile_targets
from aotc.core.pytree import flatten
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from tests.comparing import near

rng = np.random.default_rng(0)


def traced(function, *arrays, symbolic=True):
    """The program of a function of arrays; their leading sizes may be symbolic."""
    sizes = {len(x): aotc.Dim(f"n{len(x)}", min=2) for x in arrays} if symbolic else {}
    shapes = [(sizes.get(len(x), len(x)), *x.shape[1:]) for x in arrays]
    specs = [aotc.Spec(shape, x.dtype) for shape, x in zip(shapes, arrays, strict=True)]

    @aotc.entry(xs=specs)
    def entry(xs):
        return function(*xs)

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    return program


def run(function, *arrays):
    """What the reference makes of a traced function."""
    program = traced(function, *arrays, symbolic=False)
    results = reference.evaluate(program.module, "entry", arrays)
    return results[0] if len(results) == 1 else results


# ---- derivatives --------------------------------------------------------------------


def test_derivatives_of_sorted_values_go_to_where_they_came_from():
    x, weights = np.array([3.0, 1.0, 2.0], "f"), np.array([1.0, 10.0, 100.0], "f")
    near(run(aotc.grad(lambda x: (anp.sort(x) * weights).sum()), x), [100, 1, 10])
    best = aotc.grad(lambda x: (anp.top_k(x, 2).values * weights[:2]).sum())
    near(run(best, x), [1, 0, 10])
    near(run(aotc.grad(anp.median), x), [0, 0, 1])


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_with_zeros_have_derivatives_of_all_orders(zeros):
    x = np.array([2.0, 3.0, 4.0, 5.0], "f")
    x[1 : 1 + zeros] = 0
    slope = aotc.grad(lambda x: anp.cumprod(x)[-1])
    near(run(slope, x), [np.prod(np.delete(x, i)) for i in range(4)])
    pairs = [0 if i == 1 else np.prod(np.delete(x, [1, i])) for i in range(4)]
    near(run(aotc.grad(lambda x: slope(x)[1]), x), pairs)


def test_the_first_of_equal_extremes_gets_the_gradient():
    x = np.array([1.0, 3.0, 3.0, 2.0], "f")
    near(run(aotc.grad(lambda x: anp.cummax(x).sum()), x), [1, 3, 0, 0])


def test_the_slope_of_logsumexp_is_the_softmax_and_zero_for_an_empty_sum():
    x = np.array([[1000.0, 1001.0, 999.0], [-np.inf, -np.inf, -np.inf]], "f")

    def finite(x):
        y = nn.logsumexp(x, 1)
        return anp.where(y > 0, y, 0.0).sum()

    slope = run(aotc.grad(finite), x)
    near(slope, [np.asarray(nn.softmax(x[0])), np.zeros(3)])


def test_the_reference_has_no_extremes_where_there_are_neither_rows_nor_elements():
    n = aotc.Dim("n", min=0)

    @aotc.entry(x=aotc.Spec((n, n)))
    def extremes(x):
        return anp.max(x, axis=1), anp.min(x, axis=0)

    module = trace([extremes], {}).module
    found = reference.evaluate(module, "extremes", [np.zeros((0, 0), "f")])
    assert [y.shape for y in found] == [(0,), (0,)]


# ---- symbolic sizes, compiled -------------------------------------------------------

# Functions of x: f32[n, 4] and a sorted table: f32[m].
FUNCTIONS = {
    "sorted": lambda x, t: (anp.sort(x, 0), anp.argsort(x, descending=True)),
    "largest": lambda x, t: (anp.top_k(x, 2, 0), anp.top_k(x, 3, 1, largest=False)),
    "middle": lambda x, t: (anp.median(x, 0), anp.quantile(x, [0.1, 0.8], (0, 1))),
    "numbers": lambda x, t: anp.nanpercentile(x, 30.0, 0),
    "searched": lambda x, t: (anp.searchsorted(t, x), anp.digitize(x, t, right=True)),
    "counted": lambda x, t: (anp.histogram(x, 3)[0], anp.isin(x, x[0])),
    "totals": lambda x, t: (anp.cumsum(x, 0), anp.cumlogsumexp(x, 1)),
    "chosen": lambda x, t: (anp.mean(x, 0, where=x > 0), anp.ptp(x), anp.var(x, 1)),
    "windows": lambda x, t: control.reduce_window("max", x, (2, 2), (1, 2)),
    "scanned": lambda x, t: control.associative_scan(anp.multiply, x, axis=1),
    "slopes": lambda x, t: aotc.grad(
        lambda x: (anp.sort(x, 0) * x).sum() + (anp.cumprod(x, 1) * x).sum()
    )(x),
}


def test_compiled_order_and_totals_equal_the_reference():
    x = rng.standard_normal((5, 4)).astype("f")
    table = np.sort(rng.standard_normal(3)).astype("f")
    inputs = [x, table]
    program = traced(
        lambda x, t: [function(x, t) for function in FUNCTIONS.values()],
        *inputs,
    )
    wanted = reference.evaluate(program.module, "entry", inputs)
    run_passes(
        program.module,
        ["simplify", "cse", "decompose", "lower-to-linalg", "control-to-blocks"],
    )
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    found = iree.load_vm_module(code, config).entry(*inputs)
    for one, other in zip(found, wanted, strict=True):
        near(np.asarray(one), other, 1e-5)


def test_functions_of_symbolic_sizes_give_what_they_give_at_once():
    for rows in (2, 3, 40):
        x = rng.standard_normal((rows, 4)).astype("f")
        table = np.sort(rng.standard_normal(300 + rows)).astype("f")
        for name, function in FUNCTIONS.items():
            if name == "slopes":
                continue
            program = traced(function, x, table)
            results = reference.evaluate(program.module, "entry", [x, table])
            leaves, _ = flatten(function(anp.asarray(x), anp.asarray(table)))
            for one, other in zip(results, leaves, strict=True):
                near(one, np.asarray(other), 1e-5)
