"""Random numbers have their distribution, derivatives, and the same bits everywhere."""

import math

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import random, reference
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

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
    "lognormal": (
        lambda *a: random.lognormal(a[0], 0.5, *a[1:]),
        lambda x: normal_cdf(np.log(x) / 0.5),
    ),
    "pareto": (lambda *a: random.pareto(a[0], 3.0, *a[1:]), lambda x: 1 - x**-3.0),
    "rayleigh": (
        lambda *a: random.rayleigh(a[0], 2.0, *a[1:]),
        lambda x: 1 - np.exp(-x * x / 8),
    ),
    "maxwell": (
        random.maxwell,
        lambda x: erf(x / 2**0.5) - np.sqrt(2 / np.pi) * x * np.exp(-x * x / 2),
    ),
    "weibull": (
        lambda *a: random.weibull_min(a[0], 2.0, 1.5, *a[1:]),
        lambda x: 1 - np.exp(-((x / 2) ** 1.5)),
    ),
    "triangular": (
        lambda *a: random.triangular(a[0], -1.0, 2.0, 3.0, *a[1:]),
        lambda x: np.where(x < 2, (x + 1) ** 2 / 12, 1 - (3 - x) ** 2 / 4),
    ),
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


def log_poisson(k, mean):
    return k * math.log(mean) - mean - math.lgamma(k + 1)


def log_binomial(k, n, p):
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return choices + k * math.log(p) + (n - k) * math.log1p(-p)


COUNTS = {
    **{
        f"poisson {mean}": (
            lambda *a, mean=mean: random.poisson(a[0], np.full(MANY, mean, a[1])),
            lambda k, mean=mean: log_poisson(k, mean),
        )
        for mean in (0.1, 4.0, 9.99, 10.0, 40.0, 1000.0)
    },
    **{
        f"binomial {n} {p}": (
            lambda *a, n=n, p=p: random.binomial(a[0], n, np.full(MANY, p, a[1])),
            lambda k, n=n, p=p: log_binomial(k, n, p) if k <= n else -math.inf,
        )
        for n, p in ((5, 0.3), (20, 0.5), (1000, 0.003), (30, 0.6), (1000, 0.9))
    },
    "geometric": (
        lambda *a: random.geometric(a[0], np.full(MANY, 0.2, a[1])),
        lambda k: math.log(0.2) + (k - 1) * math.log(0.8) if k else -math.inf,
    ),
}


# one name of each algorithm again in f64, which draws from as many bits as it has
WIDE = (
    "poisson 4.0",
    "poisson 40.0",
    "binomial 5 0.3",
    "binomial 1000 0.9",
    "geometric",
)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "f4") for name in COUNTS),
        *(pytest.param(name, "f8", marks=pytest.mark.slow) for name in WIDE),
    ],
)
def test_counts_have_their_distribution(name, dtype):
    draw, log_chance = COUNTS[name]
    drawn = np.asarray(draw(KEY, dtype))
    assert drawn.dtype == "i4"
    seen = np.bincount(drawn)
    expected = MANY * np.exp([log_chance(k) for k in range(seen.size)])
    many = expected > 8
    # the rest as one class, and Pearson's sum of squares with its normal limit
    seen = np.append(seen[many], MANY - seen[many].sum())
    expected = np.append(expected[many], MANY - expected[many].sum())
    excess = (np.square(seen - expected) / np.maximum(expected, 8)).sum() - many.sum()
    assert excess < 5 * math.sqrt(2 * many.sum())


def test_counts_of_certain_outcomes_are_certain():
    p = np.array([0, 1], "f4")
    assert random.binomial(KEY, 9, p).tolist() == [0, 9]
    assert random.binomial(KEY, 0, p).tolist() == [0, 0]
    assert random.poisson(KEY, np.zeros(3, "f4")).tolist() == [0] * 3
    assert random.geometric(KEY, np.ones(100, "f4")).tolist() == [1] * 100


def test_large_counts_have_their_mean_and_deviation():
    mean = 1e6
    drawn = np.asarray(random.poisson(KEY, np.full(MANY, mean, "f4"))).astype("f8")
    z = (drawn - mean) / math.sqrt(mean)
    assert abs(z.mean()) < 5 / math.sqrt(MANY)
    assert z.std() == pytest.approx(1, abs=5 / math.sqrt(2 * MANY))


def test_normal_vectors_have_their_mean_and_covariance():
    mean, spread = np.array([1.0, -2.0], "f4"), np.array([[2, 1], [1, 3]], "f4")
    drawn = np.asarray(random.multivariate_normal(KEY, mean, spread, (MANY,)))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.08)
    stack = random.multivariate_normal(KEY, np.zeros((4, 1, 2)), np.stack([spread] * 3))
    assert (stack.shape, stack.dtype) == ((4, 3, 2), "f64")


@pytest.mark.parametrize(("n", "m"), [(3, None), (4, 2), (2, 5)])
def test_orthogonal_matrices_are_orthogonal_and_of_all_directions(n, m):
    q = np.asarray(random.orthogonal(KEY, n, (2000,), "f64", m))
    assert q.shape == (2000, n, m or n)
    thin = q if q.shape[1] >= q.shape[2] else np.swapaxes(q, 1, 2)
    products = np.swapaxes(thin, 1, 2) @ thin
    eye = np.broadcast_to(np.eye(min(thin.shape[1:])), products.shape)
    np.testing.assert_allclose(products, eye, atol=1e-12)
    assert abs(q.mean(0)).max() < 5 / math.sqrt(2000 * max(q.shape[1:]))


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


@pytest.mark.parametrize(
    "draw",
    [
        lambda a: random.lognormal(KEY, a),
        lambda a: random.pareto(KEY, a),
        lambda a: random.rayleigh(KEY, a),
        lambda a: random.weibull_min(KEY, a, a + 1.0),
        lambda a: random.triangular(KEY, -a, 0.5, a * 2.0),
        lambda a: random.multivariate_normal(KEY, a, anp.diag(a)),
    ],
)
def test_draws_move_with_their_parameters(draw):
    a, step = np.linspace(0.6, 3, 20), 1e-6
    (slope,) = gradients(draw, a)
    before, after = (np.asarray(draw(a + d)) for d in (-step, step))
    np.testing.assert_allclose(slope, (after - before) / (2 * step), 1e-6, 1e-6)


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


def common_floats(key, a, low, dtype):
    keys, shape = random.split(key, 12), (5, 7)
    a, low = a.astype(dtype), low.astype(dtype)
    return {
        "uniform": random.uniform(keys[0], shape, dtype),
        "bounded": random.uniform(keys[1], a.shape, dtype, low, 3.3),
        "normal": random.normal(keys[2], shape, dtype),
        "gumbel": random.gumbel(keys[3], shape, dtype),
        "truncated": random.truncated_normal(keys[7], low, low + 1.5, None, dtype),
        "dirichlet": random.dirichlet(keys[8], a, (2,)),
    }


def floats(key, a, low, dtype):
    keys, shape = random.split(key, 12), (5, 7)
    a, low = a.astype(dtype), low.astype(dtype)
    return common_floats(key, a, low, dtype) | {
        "laplace": random.laplace(keys[4], shape, dtype),
        "logistic": random.logistic(keys[5], shape, dtype),
        "cauchy": random.cauchy(keys[6], shape, dtype),
        "t": random.t(keys[9], a),
        "lognormal": random.lognormal(keys[10], low),
        "pareto": random.pareto(keys[10], a),
        "rayleigh": random.rayleigh(keys[10], a),
        "maxwell": random.maxwell(keys[10], shape, dtype),
        "weibull": random.weibull_min(keys[11], a, a + 0.5),
        "triangular": random.triangular(keys[11], -a, 0.0, a * 3.0),
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
        "poisson": random.poisson(keys[7], a),
        "binomial": random.binomial(keys[8], 40, a * 0.0099),
        "geometric": random.geometric(keys[9], a * 0.0099),
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
    run_passes(
        program.module,
        ["decompose", "simplify", "cse", "lower-to-linalg", "control-to-blocks"],
    )
    (compiled,) = compile_targets(program, [Target.parse(target)])
    config = iree.Config("local-sync")
    vmfb = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    found = iree.load_vm_module(vmfb, config).entry(*inputs)
    names = [port.name for port in program.entries[0].results]
    for name, ours, want in zip(names, found, wanted, strict=True):
        got = np.asarray(ours).view(want.dtype)  # IREE has no sign
        assert got.tobytes() == want.tobytes(), name


TARGETS = ["cpu", pytest.param("vmvx", marks=pytest.mark.slow)]


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_discrete_numbers_are_those_of_the_reference(target):
    assert_same_bits(discrete, "f32", target)


def test_compiled_common_numbers_have_the_bits_of_the_reference():
    assert_same_bits(common_floats, "f32", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "vmvx"])
def test_compiled_f32_numbers_have_the_bits_of_the_reference(target):
    assert_same_bits(floats, "f32", target)


@pytest.mark.slow
def test_compiled_f64_numbers_have_the_bits_of_the_reference():
    assert_same_bits(floats, "f64", "cpu")
