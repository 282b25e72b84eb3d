"""Sums of many floats are made in blocks: Note [sums in blocks]."""

import iree.runtime as iree
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aotc
from aotc import linalg, nn
from aotc import numpy as anp
from aotc.backend import VECTOR_SUMS, compile_targets
from aotc.dialects.lowering.summation import LONGEST, block_of
from aotc.machine.target import Target
from aotc.pipeline import lower
from aotc.special import logsumexp
from aotc.tracing.assembly import trace

LONG = 1 << 20
PRIME = 1_000_003
SIZES = (1, 2, 4095, 4097, 5 * 4096, PRIME, 4_000_000)


def lowered(function, *shapes):
    """The linalg of a function of f32 inputs, as text."""
    names = function.__code__.co_varnames
    specs = {name: aotc.Spec(s) for name, s in zip(names, shapes, strict=False)}
    return str(lower(trace([aotc.entry(**specs)(function)], {})).module)


@given(st.integers(LONGEST + 1, 10**8))
def test_blocks_divide_an_axis_into_parts_that_are_added_in_series(size):
    block = block_of(size)
    assert block is None or (size % block == 0 and size // block <= LONGEST)
    assert block is None or block <= LONGEST


@pytest.mark.parametrize(("size", "reductions"), [(LONGEST, 1), (LONGEST + 2, 2)])
def test_sums_of_fixed_size_are_split_if_they_are_long(size, reductions):
    def entry(x):
        return anp.sum(x)

    text = lowered(entry, (size,))
    assert text.count('"reduction"') == reductions
    assert "reassoc" not in text


@pytest.mark.parametrize(
    ("shape", "reductions"),
    [
        (("n", 29, 9, 39), 2),
        ((2, 3, 4, "n", 5), 2),
        (("n", "m", 8), 2),
        (("n", 400), 2),
        ((2, 3, 4), 3),
    ],
)
def test_sums_over_symbolic_sizes_are_at_most_two(shape, reductions):
    """IREE refused one of four builds of a sum over all of (n, 29, 9, 39)."""

    def entry(x):
        return anp.sum(x)

    assert lowered(entry, shape).count('"reduction"') == reductions


@pytest.mark.parametrize(
    ("shape", "is_marked"),
    [
        ((aotc.Dim("n", max=LONGEST),), False),
        ((aotc.Dim("n", max=LONGEST + 1),), True),
        (("n",), True),
        (("n", "n"), False),  # 64 GiB at n = 131072
        (("m", "n"), True),
    ],
)
def test_only_symbolic_sums_that_may_be_long_are_split_as_they_are_compiled(
    shape, is_marked
):
    def entry(x):
        return nn.softmax(x)

    assert ("reassoc" in lowered(entry, shape)) == is_marked


@pytest.mark.parametrize(
    ("rows", "columns", "is_marked"),
    [
        ("n", 64, True),
        ("n", 65, False),  # the blocks of a short sum would cost more than the sum
        (aotc.Dim("n", min=LONGEST + 1), 65, True),
        (aotc.Dim("n", min=LONGEST + 1), 2000, False),
        (aotc.Dim("n", max=LONGEST), 64, False),
    ],
)
def test_products_are_split_where_the_blocks_sums_are_few(rows, columns, is_marked):
    def entry(x):
        return x.T @ x

    assert ("reassoc" in lowered(entry, (rows, columns))) == is_marked


def statistics(x):
    """Sums of a vector."""
    return (
        anp.sum(x),
        anp.sum(x * x),
        anp.var(x),
        anp.std(x),
        linalg.norm(x),
        logsumexp(x),
        nn.log_softmax(x),
        nn.softmax(x) * x.shape[0],
        nn.layer_norm(x),
        anp.dot(x, x),
    )


def of_columns(x):
    """Sums of the columns of a matrix."""
    zero, one = anp.zeros(3, x.dtype), anp.ones(3, x.dtype)
    _, mean, variance = nn.batch_norm_training(x, zero, one, momentum=0.0)
    return anp.sum(x, 0), mean, variance, linalg.norm(x, axis=0), x.T @ x, x.T @ x[:, 0]


def of_two_axes(x):
    """Sums over both of two axes of unknown length."""
    return anp.mean(x, (0, 1)), anp.var(x, (0, 1)), anp.einsum("nmi,nmj->ij", x, x)


def gradient(x):
    """A loss over all rows and its derivative, which are sums."""
    loss = aotc.value_and_grad(lambda w: anp.mean(anp.exp(x @ w)))
    return loss(anp.ones(3, x.dtype) / 4)


def halves(x):
    """The same in f16, whose sums are kept in f32."""
    return anp.mean(x.astype(anp.float16))


ANY = aotc.Dim("any", min=0)
CASES = {
    "fixed": (statistics, (LONG,), [(LONG,)]),
    "of_a_prime": (statistics, (PRIME,), [(PRIME,)]),
    "symbolic": (statistics, ("n",), [(n,) for n in SIZES]),
    "fixed_columns": (of_columns, (LONG // 2, 3), [(LONG // 2, 3)]),
    "columns": (of_columns, ("n", 3), [(1, 3), (PRIME, 3)]),
    "rows": (lambda x: nn.softmax(x) * x.shape[1], (3, "n"), [(3, 1), (3, PRIME)]),
    "two_axes": (of_two_axes, ("n", "m", 2), [(5, 1, 2), (1, PRIME, 2), (PRIME, 2, 2)]),
    "gradient": (gradient, ("n", 3), [(7, 3), (PRIME, 3)]),
    "halves": (halves, (ANY,), [(1,), (PRIME,)]),
    "nothing": (lambda x: anp.sum(x), (ANY,), [(0,), (3,)]),
}


def variant_of(cases):
    """Compile functions of one array, as entries of these names, for this machine."""
    entries = []
    for name, (function, shape) in cases.items():

        def entry(x, function=function):
            return function(x)

        entry.__name__ = name
        entries.append(aotc.entry(x=aotc.Spec(shape))(entry))
    target = Target.parse("cpu")
    (variant,) = compile_targets(lower(trace(entries, {}), target), [target])
    return variant


def loaded(variant):
    """Load the module of a variant."""
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    return iree.load_vm_module(code, config)


@pytest.fixture(scope="module")
def compiled():
    """All cases in one module."""
    return loaded(variant_of({name: case[:2] for name, case in CASES.items()}))


def leaves(results):
    """The arrays of one result or several."""
    return results if isinstance(results, (tuple, list)) else [results]


def expected(function, x):
    """What a function gives in f64."""
    if function is not gradient:
        return leaves(function(anp.asarray(x)))
    power = np.exp(x.sum(1) / 4)
    return [power.mean(), x.T @ power / len(x)]


@pytest.mark.parametrize("name", CASES)
def test_compiled_sums_lose_no_digits_however_many_elements(compiled, name):
    function, _, shapes = CASES[name]
    for shape in shapes:
        x = np.random.default_rng(0).uniform(size=shape).astype("f4")
        found = leaves(getattr(compiled, name)(x))
        want = expected(function, x.astype("f8"))
        tolerance = 1e-3 if name == "halves" else 1e-5
        for got, exact in zip(found, want, strict=True):
            np.testing.assert_allclose(got, np.asarray(exact), tolerance, tolerance)


def test_sums_whose_vectors_iree_refuses_are_compiled_in_series():
    """IREE vectorises the axis that stays, too, and so takes 128 KiB of its stack."""
    variant = variant_of({"around": (lambda x: anp.sum(x * x, (0, 2)), ("n", 64, 64))})
    assert VECTOR_SUMS not in variant.flags
    x = np.random.default_rng(0).normal(size=(5, 64, 64)).astype("f4")
    found = np.asarray(loaded(variant).around(x))
    np.testing.assert_allclose(found, np.square(x).sum((0, 2)), rtol=1e-5)


def test_a_mean_of_losses_is_compiled_in_vectors():
    """IREE vectorises both sums at once, if they are one dispatch, and has no room."""

    def mean_loss(x):
        return nn.cross_entropy(x, anp.astype(x[:, :, 0], "i32")).mean()

    variant = variant_of({"mean_loss": (mean_loss, ("n", 64, 128))})
    assert VECTOR_SUMS in variant.flags
    x = np.random.default_rng(0).uniform(0, 128, (3, 64, 128)).astype("f4")
    picked = np.take_along_axis(x, x[:, :, :1].astype(int), 2)[:, :, 0]
    want = (np.log(np.exp(x.astype("f8")).sum(2)) - picked).mean()
    np.testing.assert_allclose(loaded(variant).mean_loss(x), want, rtol=1e-5)
