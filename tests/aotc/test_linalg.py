"""Functions of aotc.linalg against NumPy, their derivatives, and what they refuse."""

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import linalg
from aotc.backend import compile_targets
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from tests.aotc.referring import results_of

RNG = np.random.default_rng(7)
A = RNG.standard_normal((2, 4, 4))
B = RNG.standard_normal((2, 4, 3))
DEFINITE = A @ A.transpose(0, 2, 1) + np.eye(4)
WIDE, TALL = RNG.standard_normal((3, 5)), RNG.standard_normal((5, 3))


def assert_same(got, want, slack=1e-9):
    np.testing.assert_allclose(np.asarray(got), want, rtol=slack, atol=slack)


@pytest.mark.parametrize("offset", [0, 1, -2])
def test_diagonals_are_of_the_last_two_axes(offset):
    for name in ("diagonal", "trace"):
        got = getattr(linalg, name)(B, offset=offset)
        assert_same(got, getattr(np.linalg, name)(B, offset=offset))


def traced(function, *arrays, names=()):
    """A program with one entry; sizes in `names` are symbolic where arrays lead."""
    lead = dict(enumerate(names))
    specs = [
        aotc.Spec((lead.get(i, len(x)), *x.shape[1:]), x.dtype)
        for i, x in enumerate(arrays)
    ]

    @aotc.entry(xs=specs)
    def entry(xs):
        return function(*xs)

    return trace([entry], {})


def run(function, *arrays, names=()):
    """What a traced function computes, by the reference."""
    return results_of(traced(function, *arrays, names=names), *arrays)


# ---- values -------------------------------------------------------------------------

SAME = {
    "solve": (A, B),
    "inv": (A,),
    "det": (A,),
    "slogdet": (A,),
    "cholesky": (DEFINITE,),
    "eigvalsh": (DEFINITE,),
    "pinv": (WIDE,),
    "matrix_rank": (np.outer(WIDE[0], WIDE[1]),),
    "cond": (TALL,),
    "tensorinv": (RNG.standard_normal((4, 6, 8, 3)),),
    "tensorsolve": (RNG.standard_normal((6, 4, 2, 3, 4)), RNG.standard_normal((6, 4))),
}


@pytest.mark.parametrize("name", SAME)
def test_gives_what_numpy_gives(name):
    want = getattr(np.linalg, name)(*SAME[name])
    got = getattr(linalg, name)(*SAME[name])
    for one, other in zip(
        *[x if isinstance(x, tuple) else (x,) for x in (got, want)], strict=True
    ):
        assert_same(one, other)


def test_solve_broadcasts_stacks_and_takes_vectors():
    assert_same(linalg.solve(A[0], B), np.linalg.solve(A[0], B))
    assert_same(linalg.solve(A, B[0, :, 0]), np.linalg.solve(A, B[0, :, :1])[..., 0])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_determinants_are_sums_of_products(size):
    small = A[:, :size, :size]
    assert_same(linalg.det(small), np.linalg.det(small))


@pytest.mark.parametrize("x", [WIDE, TALL, A], ids=["wide", "tall", "stack"])
def test_factors_multiply_to_the_matrix(x):
    q, r = map(np.asarray, linalg.qr(x))
    assert_same(q @ r, x)
    assert (np.diagonal(r, axis1=-2, axis2=-1) >= 0).all()
    u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=False))
    assert_same((u * s[..., None, :]) @ vh, x)
    assert_same(s, np.linalg.svd(x, compute_uv=False))


def test_lu_multiplies_to_the_matrix_and_solves_both_ways():
    p, lower, upper = map(np.asarray, linalg.lu(A))
    assert_same(p @ lower @ upper, A)
    turned = np.linalg.solve(A.transpose(0, 2, 1), B)
    assert_same(linalg.lu_solve(linalg.lu_factor(A), B, trans=1), turned)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_factors_and_triangles_solve(lower):
    factor = linalg.cho_factor(DEFINITE, lower)
    assert_same(linalg.cho_solve(factor, B), np.linalg.solve(DEFINITE, B))
    triangle = np.tril(A) if lower else np.triu(A)
    want = np.linalg.solve(triangle.transpose(0, 2, 1), B)
    assert_same(linalg.solve_triangular(A, B, trans="T", lower=lower), want)


ORDERS = [None, "fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2]


@pytest.mark.parametrize("order", ORDERS)
def test_matrix_norms_are_numpys(order):
    axes = None if order is None else (0, 2)
    got = linalg.norm(B, order, axis=axes, keepdims=True)
    assert_same(got, np.linalg.norm(B, order, axis=axes, keepdims=True))


@pytest.mark.parametrize("order", [2, 1, 0, np.inf, -np.inf, 3, -1.5])
def test_vector_norms_are_numpys(order):
    assert_same(linalg.norm(B, order, axis=1), np.linalg.norm(B, order, axis=1))


@pytest.mark.parametrize(("shape", "axis"), [((0, 4, 3), -1), ((2, 0, 3), (0, 2))])
def test_norms_of_no_vectors_are_numpys(shape, axis):
    none = np.zeros(shape)
    assert_same(linalg.norm(none, axis=axis), np.linalg.norm(none, axis=axis))


@pytest.mark.parametrize("x", [WIDE, TALL], ids=["wide", "tall"])
def test_lstsq_gives_numpys_solution_rank_and_values(x):
    right = RNG.standard_normal((len(x), 2))
    found, _, rank, values = linalg.lstsq(x, right)
    want = np.linalg.lstsq(x, right, rcond=None)
    assert_same(found, want[0])
    assert int(rank) == want[2]
    assert_same(values, want[3])


@pytest.mark.parametrize("power", [0, 1, 5, -3])
def test_matrix_power_is_numpys(power):
    want = np.linalg.matrix_power(A, power)
    assert_same(linalg.matrix_power(A, power), want, 1e-7)


def test_multi_dot_and_block_diag():
    chain = [TALL[:, 0], TALL, WIDE]
    assert_same(linalg.multi_dot(chain), TALL[:, 0] @ TALL @ WIDE)
    found = np.asarray(linalg.block_diag(WIDE, [[7.0]]))
    assert found.shape == (4, 6)
    assert_same(found[:3, :5], WIDE)
    assert found[3].tolist() == [0] * 5 + [7]


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_expm_is_that_of_the_eigenvalues(scale):
    x = scale * DEFINITE
    w, v = np.linalg.eigh(x)
    want = (v * np.exp(w)[:, None, :]) @ v.transpose(0, 2, 1)
    np.testing.assert_allclose(np.asarray(linalg.expm(x)) / want, 1, rtol=1e-8)


def test_expm_refuses_to_guess_where_it_would_need_more_squarings():
    assert np.isnan(np.asarray(linalg.expm(np.eye(2) * 1e6))).all()


# ---- derivatives --------------------------------------------------------------------


def slopes(function, x, step=1e-6):
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        ahead, behind = (np.asarray(function(x + s)) for s in (shift, -shift))
        found[place] = (ahead - behind) / (2 * step)
    return found


def wavy(x):
    """A scalar that every element of x matters to."""
    return anp.sum(anp.sin(x) * anp.arange(x.size).reshape(x.shape).astype(x.dtype))


DIFFERENTIABLE = {
    "solve": lambda x: wavy(linalg.solve(x, x[:, :2])),
    "det": linalg.det,
    "small det": lambda x: linalg.det(x[:3, :3]),
    "slogdet": lambda x: linalg.slogdet(x)[1],
    "pinv": lambda x: wavy(linalg.pinv(x[:, :3])),
    "lstsq": lambda x: wavy(linalg.lstsq(x[:, :3], x[:, 3])[0]),
    "wide qr": lambda x: wavy(linalg.qr(x[:3])[1]),
    "wide svd": lambda x: wavy(linalg.svd(x[:3], full_matrices=False)[2]),
    "expm": lambda x: wavy(linalg.expm(x)),
    "norm": lambda x: linalg.norm(x, "nuc"),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_finite_differences(name):
    function, x = DIFFERENTIABLE[name], A[0]
    assert_same(run(aotc.grad(function), x), slopes(function, x), 1e-6)


def test_the_gradient_of_a_singular_3x3_determinant_is_finite():
    x = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, -1.0])
    assert_same(run(aotc.grad(linalg.det), x), slopes(linalg.det, x), 1e-6)


def test_the_gradient_of_the_norm_of_zero_is_zero():
    assert_same(run(aotc.grad(linalg.norm), np.zeros(3)), np.zeros(3))


def test_equal_eigenvalues_harm_no_gradient_of_values_and_of_spaces():
    def values_and_space(x):
        w, v = linalg.eigh(x)
        return anp.sum(w**3) + wavy(v[:, 1:] @ v[:, 1:].T)

    x = 4 * np.eye(3)
    x[2, 2] = 1.0
    assert_same(run(aotc.grad(values_and_space), x), slopes(values_and_space, x), 1e-6)


def test_equal_singular_values_harm_no_gradient_of_a_solution():
    def solution(x):
        return wavy(linalg.lstsq(x, anp.ones(5, x.dtype))[0])

    x = np.linalg.qr(TALL)[0]
    assert_same(run(aotc.grad(solution), x), slopes(solution, x), 1e-6)


def test_second_derivatives_of_a_solution():
    def gradient(x):
        return aotc.grad(lambda m: anp.sum(linalg.solve(m, x[:, 0])))(x)

    def loss(x):
        return anp.sum(gradient(x) ** 2)

    def value(x):
        return run(loss, x)

    assert_same(run(aotc.grad(loss), A[0]), slopes(value, A[0]), 1e-5)


def test_stacks_may_have_symbolic_sizes_and_vmap_is_a_stack():
    def both(x):
        return linalg.solve(x, x[:, :, :1]), aotc.vmap(linalg.inv)(x)

    solved, inverse = run(both, A, names=("n",))
    assert_same(solved, np.linalg.solve(A, A[:, :, :1]))
    assert_same(inverse, np.linalg.inv(A))


# ---- compiled -----------------------------------------------------------------------


def test_a_compiled_model_solves_in_blocks_and_exponentiates():
    # 40 rows: more than one block of triangular_solve
    big = RNG.standard_normal((40, 40)).astype("f")
    definite = (big @ big.T + 40 * np.eye(40)).astype("f")
    ill = 1 / (np.arange(1, 7)[:, None] + np.arange(6.0)[None])  # Hilbert's matrix
    ill = ill.astype("f")

    def model(big, definite, ill):
        factor = linalg.cho_factor(definite)
        return {
            "cho": linalg.cho_solve(factor, big),
            "solve": linalg.solve(big, definite),
            "expm": linalg.expm(big[:4, :4]),
            "ill": linalg.solve(ill, ill),
            "slope": aotc.grad(lambda x: linalg.slogdet(x)[1])(big[:4, :4]),
        }

    program = traced(model, big, definite, ill)
    names = [
        "autodiff",
        "inline",
        "decompose",
        "simplify",
        "cse",
        "lower-to-linalg",
        "control-to-blocks",
    ]
    run_passes(program.module, names)
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    vmfb = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    results = iree.load_vm_module(vmfb, config).entry(big, definite, ill)
    found = program.entries[0].output_tree.unflatten(list(map(np.asarray, results)))

    def residual(x, y, right):
        return np.abs(x @ y - right).max() / (np.abs(x).max() * np.abs(y).max())

    assert residual(definite, found["cho"], big) < 1e-5
    assert residual(big, found["solve"], definite) < 1e-5
    assert residual(ill, found["ill"], ill) < 1e-6
    small = big[:4, :4].astype("d")
    assert_same(found["expm"], np.asarray(linalg.expm(small)), 1e-4)
    assert_same(found["slope"], np.linalg.inv(small).T, 1e-4)


# ---- refused ------------------------------------------------------------------------

REFUSED = {
    "a vector": (
        lambda: linalg.inv(np.ones(3)),
        "'a' with two axes or more; got f64[3]",
    ),
    "not square": (lambda: linalg.det(WIDE), "'a' as square matrices; got f64[3, 5]"),
    "half precision": (
        lambda: linalg.cholesky(np.eye(2, dtype="f2")),
        "'a' in f32 or f64; got f16[2, 2]",
    ),
    "rows": (lambda: linalg.solve(A, WIDE), "'b' with 4 rows"),
    "trans": (lambda: linalg.solve_triangular(A, B, trans=2), "trans as 0, 1"),
    "mode": (lambda: linalg.qr(A, "full"), "mode out of reduced, r; got 'full'"),
    "full svd": (lambda: linalg.svd(WIDE), "full_matrices=False"),
    "norm": (lambda: linalg.norm(A, "two", axis=(0, 1)), "ord out of"),
    "vector norm": (lambda: linalg.norm(A, "fro", axis=0), "ord as a number"),
    "three axes": (lambda: linalg.norm(A, 2), "one axis or two"),
    "power": (lambda: linalg.matrix_power(A, 0.5), "'n' to be an integer; got 0.5"),
    "one matrix": (lambda: linalg.multi_dot([WIDE]), "two arrays or more; got 1"),
    "lstsq": (lambda: linalg.lstsq(WIDE, TALL), "as many rows of 'b'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    call, text = REFUSED[name]
    with pytest.raises(InputError) as caught:
        call()
    assert text in f"{caught.value.message} {caught.value.hint}"


def test_refuses_matrices_of_symbolic_size():
    with pytest.raises(InputError, match="numbers as its last two sizes"):
        traced(linalg.cholesky, DEFINITE[0], names=("n",))
