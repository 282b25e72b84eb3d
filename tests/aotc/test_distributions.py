"""Random numbers have their distribution, derivatives, and the same bits everywhere."""

import math

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import random, reference
from aotc.backend import compile_targets
from aotc.frontends.assembly import trace
from aotc.passes import run_passes
from aotc.target import Target

MANY = 100_000
KEY = random.key(3)


def erf(x):
    return np.vectorize(math.erf)(x)


def normal_cdf(x):
    return (1 + erf(x / math.sqrt(2))) / 2


def truncated_cdf(low, high):
    return lambda x: (
        (normal_cdf(x) - normal_cdf(low)) / (normal_cdf(high) - normal_cdf(low))
    )


def student_cdf(x):  # of two degrees of freedom
    return 0.5 + x / (2 * np.sqrt(2 + x * x))


CUMULATIVE = {
    "normal": (random.normal, normal_cdf),
    "exponential": (random.exponential, lambda x: 1 - np.exp(-x)),
    "gumbel": (random.gumbel, lambda x: np.exp(-np.exp(-x))),
    "laplace": (
        random.laplace,
        lambda x: np.where(x < 0, np.exp(-abs(x)) / 2, 1 - np.exp(-abs(x)) / 2),
    ),
    "logistic": (random.logistic, lambda x: 1 / (1 + np.exp(-x))),
    "cauchy": (random.cauchy, lambda x: 0.5 + np.arctan(x) / np.pi),
    "truncated": (
        lambda *a: random.truncated_normal(a[0], -1.0, 0.5, *a[1:]),
        truncated_cdf(-1.0, 0.5),
    ),
    "far": (
        lambda *a: random.truncated_normal(a[0], 2.0, np.inf, *a[1:]),
        truncated_cdf(2.0, 40.0),
    ),
    "gamma one": (lambda *a: random.gamma(a[0], 1.0, *a[1:]), lambda x: 1 - np.exp(-x)),
    "gamma half": (lambda *a: random.gamma(a[0], 0.5, *a[1:]), lambda x: erf(x**0.5)),
    "gamma three": (
        lambda *a: random.gamma(a[0], 3.0, *a[1:]),
        lambda x: 1 - np.exp(-x) * (1 + x + x * x / 2),
    ),
    "chisquare": (
        lambda *a: random.chisquare(a[0], 2, *a[1:]),
        lambda x: 1 - np.exp(-x / 2),
    ),
    "beta": (
        lambda *a: random.beta(a[0], 0.5, 0.5, *a[1:]),
        lambda x: 2 / np.pi * np.arcsin(np.sqrt(x)),
    ),
    "t": (lambda *a: random.t(a[0], 2, *a[1:]), student_cdf),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", CUMULATIVE)
def test_numbers_have_their_distribution(name, dtype):
    draw, cumulative = CUMULATIVE[name]
    drawn = draw(KEY, (MANY,), dtype)
    assert drawn.dtype == dtype
    sample = np.sort(np.asarray(drawn).astype("f8"))
    steps = np.arange(1, MANY + 1) / MANY
    # Kolmogorov and Smirnov's distance that one sample of a million exceeds
    assert abs(cumulative(sample) - steps).max() < np.sqrt(np.log(2e6) / 2 / MANY)


def test_tails_of_normal_numbers_reach_six_deviations(monkeypatch):
    from aotc.random import distributions

    words = anp.asarray(np.array([0, 2**31, 2**20], "u4"))
    monkeypatch.setattr(distributions, "words", lambda key, shape: (words, words))
    least, most, _ = random.normal(KEY, (3,)).tolist()
    assert least == pytest.approx(-6.3379, abs=1e-3)
    assert most == -least


def test_half_precision_is_rounded_f32():
    for dtype in ("f16", "bf16"):
        half = np.asarray(random.normal(KEY, 100, dtype))
        assert (
            half.tolist()
            == np.asarray(random.normal(KEY, 100)).astype(half.dtype).tolist()
        )


def test_dirichlet_numbers_are_shares():
    alpha = np.array([0.5, 1, 2], "f4")
    drawn = np.asarray(random.dirichlet(KEY, alpha, (MANY,)))
    np.testing.assert_allclose(drawn.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(drawn.mean(0), alpha / 3.5, atol=0.01)
    mean = alpha / 3.5
    np.testing.assert_allclose(drawn.var(0), mean * (1 - mean) / 4.5, atol=0.003)


def test_small_parameters_do_not_underflow_in_logarithms():
    drawn = np.asarray(random.loggamma(KEY, np.full(1000, 1e-3, "f4")))
    assert np.isfinite(drawn).all()
    assert drawn.min() < -1000
    shares = np.asarray(random.beta(KEY, np.full(1000, 1e-3, "f4"), 1e-3))
    assert np.isfinite(shares).all()


# ---- derivatives --------------------------------------------------------------------


def gradients(function, *parameters):
    """Those of the sum of `function(*parameters)`, by the reference."""

    @aotc.entry(xs=[aotc.Spec(p.shape, p.dtype) for p in parameters])
    def entry(xs):
        numbers = tuple(range(len(xs)))
        return aotc.grad(lambda *ps: anp.sum(function(*ps)), numbers)(*xs)

    module = trace([entry], {}).module
    run_passes(module, ["autodiff", "inline"])
    return reference.evaluate(module, "entry", parameters)


@pytest.mark.parametrize(
    "draw",
    [
        lambda low, high: random.uniform(KEY, (50,), "f64", low, high),
        lambda low, high: random.truncated_normal(KEY, low, high, (50,), "f64"),
    ],
)
def test_draws_move_with_their_bounds(draw):
    low, high, step = np.full(50, -0.7), np.linspace(-0.5, 2, 50), 1e-6
    by_low, by_high = gradients(draw, low, high)
    for found, ends in (
        (by_low, [(low - step, high), (low + step, high)]),
        (by_high, [(low, high - step), (low, high + step)]),
    ):
        before, after = (np.asarray(draw(*pair)) for pair in ends)
        np.testing.assert_allclose(found, (after - before) / (2 * step), atol=1e-5)


@pytest.mark.parametrize("a", [0.3, 1.0, 7.0])
def test_gamma_numbers_move_with_their_parameter(a):
    # the mean of the derivatives is the derivative of the mean: of x, and of x**2
    a = np.full(20_000, a)
    drawn = np.asarray(random.gamma(KEY, a))
    (slope,) = gradients(lambda a: random.gamma(KEY, a), a)
    error = 5 / np.sqrt(a.size)
    assert slope.mean() == pytest.approx(1, abs=error * slope.std())
    square = 2 * drawn * slope
    assert square.mean() == pytest.approx(2 * a[0] + 1, abs=error * square.std())


# ---- the same bits everywhere -------------------------------------------------------


def floats(key, a, low, dtype):
    keys, shape = random.split(key, 12), (5, 7)
    a, low = a.astype(dtype), low.astype(dtype)
    return {
        "uniform": random.uniform(keys[0], shape, dtype),
        "bounded": random.uniform(keys[1], a.shape, dtype, low, 3.3),
        "normal": random.normal(keys[2], shape, dtype),
        "gumbel": random.gumbel(keys[3], shape, dtype),
        "laplace": random.laplace(keys[4], shape, dtype),
        "logistic": random.logistic(keys[5], shape, dtype),
        "cauchy": random.cauchy(keys[6], shape, dtype),
        "truncated": random.truncated_normal(keys[7], low, low + 1.5, None, dtype),
        "dirichlet": random.dirichlet(keys[8], a, (2,)),
        "t": random.t(keys[9], a),
    }


def discrete(key, a, low, dtype):
    keys, shape = random.split(key, 12), (31,)
    return {
        "bits": random.bits(keys[0], shape, "u64"),
        "range": random.randint(keys[1], shape, -5, 1000),
        "bounds": random.randint(keys[2], a.shape, 0, a.astype("i32") + 3),
        "bernoulli": random.bernoulli(keys[3], 0.3, shape),
        "categorical": random.categorical(keys[4], low, shape=(40,)),
        "permutation": random.permutation(keys[5], 50),
        "choice": random.choice(keys[6], 20, (6,), replace=False, p=a[:20]),
    }


def assert_same_bits(draw, dtype, target):
    @aotc.entry(key=aotc.Spec(2, "u32"), a=aotc.Spec((37,)), low=aotc.Spec((37,)))
    def entry(key, a, low):
        return draw(key, a, low, dtype)

    program = trace([entry], {})
    run_passes(program.module, ["inline", "simplify", "cse"])
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(0, 2**32, 2, dtype="u4"),
        (10 ** rng.uniform(-1.5, 2, 37)).astype("f4"),
        2 * rng.normal(size=37).astype("f4"),
    ]
    wanted = reference.evaluate(program.module, "entry", inputs)
    run_passes(program.module, ["decompose", "simplify", "cse", "lower-to-linalg"])
    (compiled,) = compile_targets(program, [Target.parse(target)])
    config = iree.Config("local-sync")
    vmfb = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    found = iree.load_vm_module(vmfb, config).entry(*inputs)
    names = [port.name for port in program.entries[0].results]
    for name, ours, want in zip(names, found, wanted, strict=True):
        got = np.asarray(ours).view(want.dtype)  # IREE has no sign
        assert got.tobytes() == want.tobytes(), name


@pytest.mark.parametrize("target", ["cpu", "vmvx"])
def test_compiled_discrete_numbers_are_those_of_the_reference(target):
    assert_same_bits(discrete, "f32", target)


@pytest.mark.parametrize("target", ["cpu", "vmvx"])
def test_compiled_f32_numbers_have_the_bits_of_the_reference(target):
    assert_same_bits(floats, "f32", target)


@pytest.mark.slow
def test_compiled_f64_numbers_have_the_bits_of_the_reference():
    assert_same_bits(floats, "f64", "cpu")
