"""Functions of JAX and artifacts of jax.export, against JAX itself."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import InputError
from aotc.importers import load

jax = pytest.importorskip("jax")
export = pytest.importorskip("jax.export")
jnp = jax.numpy

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
PARAMS = {
    "w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2),
    "b": np.float32([0.5, -0.5]),
}


def predict(params, x):
    """One layer."""
    return jnp.tanh(x @ params["w"] + params["b"])


def step(params, x, y):
    """One step of gradient descent: the new parameters and the loss."""

    def loss(params):
        return ((predict(params, x) - y) ** 2).mean()

    value, slope = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, d: p - 0.1 * d, params, slope), value


def close(found, expected):
    for one, other in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-6)


def exported(function, *args, **options):
    """What jax.export serializes."""
    return bytes(export.export(jax.jit(function), **options)(*args).serialize())


# ---- functions ----------------------------------------------------------------------


def test_a_function_is_an_entry_with_the_names_of_its_parameters():
    batch = aotc.Dim("batch", min=2, max=64)
    net = aotc.from_jax(predict, (aotc.Weights(PARAMS), aotc.Spec((batch, 3))))
    program = net.program("predict")
    (entry,) = program.entries
    (contract,) = entry.symbols
    assert (contract.name, contract.min, contract.max) == ("batch", 2, 64)
    assert set(program.parameters) == {"weights.w", "weights.b"}
    stored = list(program.parameters.values())
    (y,) = reference.evaluate(program.module, "predict", [*stored, X])
    close(y, predict(PARAMS, X))


def test_a_training_step_has_its_parameters_as_state():
    batch = aotc.Dim("batch", min=2)
    specs = {
        "params": aotc.State(PARAMS),
        "x": aotc.Spec((batch, 3)),
        "y": aotc.Spec((batch, 2)),
    }
    net = aotc.from_jax(jax.jit(step, donate_argnames="params"), specs)
    assert net.donated == ("params",)
    (entry,) = net.program("step").entries
    assert [port.name for port in entry.arguments if port.kind == "input"] == ["x", "y"]
    y = np.ones((4, 2), np.float32)
    found = expected = PARAMS
    for _ in range(3):
        (found, loss), (expected, value) = net(found, X, y), step(expected, X, y)
        close((found, loss), (expected, value))


def test_random_numbers_are_those_of_jax():
    def draw(data):
        key = jax.random.wrap_key_data(data)
        return jax.random.normal(key, (5,)), jax.random.permutation(key, 7)

    key = np.uint32([3, 14])
    close(aotc.from_jax(draw, (aotc.Spec((2,), "u32"),))(key), draw(key))


def test_complex_numbers_are_pairs():
    net = aotc.from_jax(lambda x: jnp.abs(jnp.fft.fft(x)), (aotc.Spec((4, 3)),))
    close(net(X), np.abs(np.fft.fft(X)))


def test_a_callback_is_refused_with_its_line():
    def f(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), "float32"), x)

    with pytest.raises(InputError) as caught:
        aotc.from_jax(f, (aotc.Spec((3,)),))
    assert caught.value.code == "unsupported-ops"
    assert "test_jax.py" in caught.value.message


def test_a_branch_on_a_value_is_refused_by_jax_in_its_words():
    def f(x):
        return x if x[0] > 0 else -x

    with pytest.raises(InputError) as caught:
        aotc.from_jax(f, (aotc.Spec((3,)),))
    assert "test_jax.py" in str(caught.value.where)


def test_a_multiple_is_one_for_jax_as_well():
    size = aotc.Dim("n", min=8, multiple_of=4)
    net = aotc.from_jax(lambda x: x.reshape(-1, 4).sum(0), (aotc.Spec((size,)),))
    (entry,) = net.program("f").entries
    assert str(entry.arguments[0].type) == "f32[s0 * 4]"
    close(net(X.ravel()), X.ravel().reshape(-1, 4).sum(0))


def test_a_scan_reads_steps_of_a_size_that_varies():
    def f(x):
        def step(c, row):
            return c + row, c * row

        return jax.lax.scan(step, jnp.zeros(x.shape[1]), x)

    close(aotc.from_jax(f, (aotc.Spec((3, "n")),))(X.T), f(X.T))


def test_running_sums_along_an_axis_of_symbolic_size():
    def f(x):
        back = jax.lax.cummax(x * 2, axis=1, reverse=True)
        return jnp.cumsum(x, 1), jnp.cumprod(x, 0), back, jax.lax.cummin(x, axis=0)

    net = aotc.from_jax(f, (aotc.Spec(("m", "n")),))
    for rows in (X, X[:1], X.T):
        for got, exact in zip(net(rows), f(rows), strict=True):
            close(got, exact)
    slope = jax.grad(lambda x: jnp.sum(jnp.cumsum(x) ** 2))
    close(aotc.from_jax(slope, (aotc.Spec(("n",)),))(X[0]), slope(X[0]))


def test_a_dtype_that_jax_would_change_is_refused():
    with pytest.raises(InputError) as caught:
        aotc.from_jax(jnp.sin, (aotc.Spec((3,), "f64"),))
    assert caught.value.code == "dtype-mismatch"
    assert "jax_enable_x64" in str(caught.value.hint)


# ---- artifacts ----------------------------------------------------------------------


def test_an_artifact_is_a_model_with_its_sizes_and_their_bounds(tmp_path):
    shape = export.symbolic_shape("batch, 3", constraints=["batch >= 2"])
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    file = tmp_path / "layer.jax"
    file.write_bytes(exported(predict, PARAMS, x, platforms=["tpu", "cpu"]))
    program = load(file)
    (entry,) = program.entries
    assert [(s.name, s.min) for s in entry.symbols] == [("batch", 2)]
    arguments = [PARAMS["b"], PARAMS["w"], X]
    (y,) = reference.evaluate(program.module, "main", arguments)
    close(y, predict(PARAMS, X))


def test_an_artifact_that_calls_lapack_is_a_model():
    square = X.T @ X + np.eye(3, dtype=np.float32)
    found = aotc.from_stablehlo(exported(jnp.linalg.cholesky, square))
    close(found(square), jnp.linalg.cholesky(square))


def test_an_artifact_for_other_platforms_is_refused():
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(exported(jnp.sin, X, platforms=["tpu"]))
    assert caught.value.code == "wrong-platform"


@pytest.mark.parametrize("length", [0, 1, 40, 400])
def test_a_truncated_artifact_is_refused(length):
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(exported(jnp.sin, X)[:length])
    assert caught.value.code in ("bad-file", "no-entries")
