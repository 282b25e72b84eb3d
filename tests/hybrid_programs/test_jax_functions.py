"""Functions of JAX, and modules, with islands give what JAX gives."""

import threading

import ml_dtypes
import numpy
import pytest

import aotc
from aotc.complexes import Complex
from aotc.counting import counters
from aotc.errors import InputError
from aotc.tracing.entry import Spec

jax = pytest.importorskip("jax")
export = pytest.importorskip("jax.export")
jnp = jax.numpy

RNG = numpy.random.default_rng(0)
W = {"w": RNG.standard_normal((4, 40)).astype("f"), "b": numpy.ones(40, "f")}


def array(*shape):
    return RNG.standard_normal(shape).astype("f")


def close(found, expected):
    """Whether trees are the same in form, dtypes and, nearly, in numbers."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        wide = "c16" if one.dtype.kind == "c" else "f8"
        pair = numpy.asarray(one, wide), numpy.asarray(other).astype(wide)
        numpy.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5)


def doubled(x):
    """A function of Python on arrays of JAX."""
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda a: 2 * numpy.asarray(a), kind, x)


def middle(params, x):
    """An eigenproblem, which has no importer, between layers."""
    y = jnp.tanh(x @ params["w"] + params["b"])
    values = jnp.linalg.eigvals(y @ y.T)
    return {"scale": jnp.abs(values).max() * y.sum(), "again": (y, values.sum())}


def inside(x):
    """An eigenproblem in each step of a loop."""
    x = jnp.tanh(x)
    step = lambda _, y: y @ y / jnp.abs(jnp.linalg.eigvals(y)).max()  # noqa: E731
    return jax.lax.fori_loop(0, 3, step, x) + x


def without(x):
    """All of it has importers."""
    return jnp.tanh(x) @ x, x


def several(x):
    """Two calls of Python join one island; a third one needs both. A result twice."""
    a, b = doubled(x), doubled(jnp.exp(x))
    c = doubled(jnp.sin(a) + b)
    return c, a, c, jnp.arange(3) + jnp.int32(2)


CASES = {
    "middle": (middle, (aotc.Weights(W), Spec((5, 4))), [(5, 4)], 1),
    "inside": (inside, (Spec((4, 4)),), [(4, 4)], 1),
    "none": (without, (Spec((3, 3)),), [(3, 3)], 0),
    "several": (several, (Spec((2, 3)),), [(2, 3)], 2),
    "only": (doubled, (Spec((0, 3)),), [(0, 3)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_with_islands_gives_what_jax_gives(name):
    function, specs, shapes, islands = CASES[name]
    found = aotc.from_jax(function, specs, breaks="island")
    stored = [each.tree for each in specs if isinstance(each, aotc.Weights)]
    for _ in range(2):
        given = [array(*shape) for shape in shapes]
        close(found(*given), function(*stored, *given))
    assert len(found.boundaries) == found.report()["graph_breaks"] == islands
    assert [each.calls for each in found.boundaries] == [2] * islands


def test_boundaries_tell_operation_reason_bytes_and_are_counted():
    function = aotc.from_jax(inside, {"x": Spec((4, 4))}, breaks="island")
    function(x=array(4, 4))
    (boundary,) = function.boundaries
    assert boundary.operation == "stablehlo.while"
    assert boundary.reason.startswith("custom_call @lapack_sgeev_ffi: no op of the")
    assert "test_jax_functions.py:" in boundary.place
    assert (boundary.bytes_in, boundary.bytes_out) == (64, 64)
    assert boundary.synchronizations == 1
    assert counters.value("calls", model="inside", path="island") >= 1


def test_sizes_that_specs_leave_open_are_those_of_a_call():
    def scores(a, b):
        y = jax.nn.softmax(a @ b.T)
        values = jnp.linalg.eigvals(b.T @ b)
        return y.reshape(-1), jnp.abs(values).sum() + jnp.zeros((a.shape[0], 2))

    specs = Spec((aotc.Dim("n", min=2), 4)), Spec(("m", 4))
    function = aotc.from_jax(scores, specs, breaks="island")
    assert len(function.boundaries) == 1
    for rows, columns in ((3, 2), (2, 5), (3, 2)):
        given = array(rows, 4), array(columns, 4)
        close(function(*given), scores(*given))
    with pytest.raises(InputError) as caught:
        function(array(1, 4), array(2, 4))
    assert caught.value.code == "shape-contract"


def test_every_dtype_crosses_boundaries():
    shapes = {"bool": (3,), "bf16": (2, 2), "f16": (1,), "i64": (0, 4), "f64": ()}

    def change(*xs):
        kinds = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs)
        same = lambda *arrays: tuple(map(numpy.asarray, arrays))  # noqa: E731
        mask, *rest = jax.pure_callback(same, kinds, ~xs[0], *(x * 2 for x in xs[1:]))
        return ~mask, *(x + x for x in rest), rest[-1].real

    pair = Spec((2,), "f64")
    specs = (
        *(Spec(shape, dtype) for dtype, shape in shapes.items()),
        Complex(pair, pair),
    )
    given = (
        numpy.array([True, False, True]),
        numpy.ones((2, 2), ml_dtypes.bfloat16),
        numpy.float16([1.5]),
        numpy.zeros((0, 4), "i8"),
        numpy.float64(2.5),
        numpy.array([1 + 2j, 3]),
    )
    with jax.enable_x64(True):
        function = aotc.from_jax(change, specs, breaks="island")
        expected = jax.jit(change)(*given)
    close(function(*given), expected)  # whatever the setting is at the call


def test_effects_happen_in_their_order_once_for_each_call():
    seen = []

    def note(x):
        seen.append(float(numpy.asarray(x)[0]))

    def function(x):
        jax.experimental.io_callback(note, None, x, ordered=True)
        y = jnp.sin(x)
        jax.experimental.io_callback(note, None, y, ordered=True)
        jax.debug.callback(note, y + 1)
        return y * 2

    import jax.experimental

    found = aotc.from_jax(function, (Spec((3,)),), breaks="island")
    x = numpy.full(3, 0.5, "f")
    close(found(x), 2 * numpy.sin(x))
    rounded = [round(each, 3) for each in seen]
    assert [each for each in rounded if each < 1] == [0.5, 0.479]
    assert sorted(rounded)[2:] == [1.479]  # which has no order
    found(x)
    assert len(seen) == 6


def test_an_op_whose_importer_refuses_it_becomes_an_island_by_itself():
    def function(x):
        u, s, _ = jnp.linalg.svd(jnp.exp(x), full_matrices=True)
        return jnp.abs(u).sum(), jnp.cos(s)

    found = aotc.from_jax(function, (Spec((2, 4)),), breaks="island")
    assert found.boundaries == ()
    x = array(2, 4)
    close(found(x), function(x))
    (boundary,) = found.boundaries
    assert boundary.operation == "custom_call @lapack_sgesdd_ffi"
    assert "full singular vectors" in boundary.reason
    assert len(found.report()["regions"]) == 2


MODULE = """
func.func private @inner(%n: tensor<i32>, %x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %e = stablehlo.exponential %x : tensor<?x3xf32>
  %h = stablehlo.convert %e : (tensor<?x3xf32>) -> tensor<?x3xf8E4M3FN>
  %f = stablehlo.convert %h : (tensor<?x3xf8E4M3FN>) -> tensor<?x3xf32>
  %c = stablehlo.constant dense<[3]> : tensor<1xi32>
  %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %r, %c, dim = 0
      : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %v = stablehlo.constant dense<1.5> : tensor<f32>
  %b = stablehlo.dynamic_broadcast_in_dim %v, %s, dims = []
      : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
  %y = stablehlo.multiply %f, %b : tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
func.func @main(%x: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<ui32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %a = func.call @inner(%n, %x) : (tensor<i32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %b = func.call @inner(%n, %a) : (tensor<i32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %b, %id : tensor<?x3xf32>, tensor<ui32>
}
"""


def test_sizes_that_a_module_leaves_open_are_those_of_a_call(tmp_path):
    def inner(x):
        return numpy.exp(x).astype(ml_dtypes.float8_e4m3fn).astype("f") * 1.5

    file = tmp_path / "rounding.mlir"
    file.write_text(MODULE)
    found = aotc.from_stablehlo(file, breaks="island")
    assert len(found.boundaries) == 2
    assert found.report()["graph"] == "rounding.mlir"
    for rows in (2, 0, 3):
        x = array(rows, 3) / 3
        y, number = found(x)
        numpy.testing.assert_allclose(y, inner(inner(x)), rtol=0.1)
        assert (y.shape, number.dtype, number) == (x.shape, numpy.uint32, 0)


def test_what_jax_export_wrote_has_islands_too():
    def function(x, *, factor):
        return {"values": jnp.abs(jnp.linalg.eigvals(x.T @ x)).sum() * factor}

    sizes = jax.ShapeDtypeStruct(export.symbolic_shape("n, 4"), "float32")
    factor = jax.ShapeDtypeStruct((), "float32")
    data = export.export(jax.jit(function))(sizes, factor=factor).serialize()
    found = aotc.from_stablehlo(bytes(data), breaks="island")
    for rows in (2, 5):
        given = {"factor": numpy.float32(2)}
        x = array(rows, 4)
        close(found(x, **given), function(x, **given))
    assert [each.calls for each in found.boundaries] == [2]


def test_threads_may_call_it():
    specs = (Spec(("n", "n")),)
    found = aotc.from_jax(lambda x: jnp.linalg.eigvals(x) + 1, specs, breaks="island")
    results = {}

    def call(size):
        results[size] = found(numpy.eye(size, dtype="f"))

    threads = [threading.Thread(target=call, args=(size,)) for size in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expected = {size: [2.0] * size for size in (1, 2, 3)}
    assert {size: x.tolist() for size, x in results.items()} == expected


def test_what_python_raises_in_an_island_is_told():
    def function(x):
        def fail(_):
            raise ValueError("no such row")

        return jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    found = aotc.from_jax(function, (Spec((2,)),), breaks="island")
    with pytest.raises(InputError, match="no such row") as caught:
        found(numpy.ones(2, "f"))
    assert caught.value.code == "framework-refused"


CALL = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %y = stablehlo.custom_call @{}(%x) {{api_version = 4 : i32,
      mhlo.backend_config = {{index = 0 : ui64}}}} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}}
"""


@pytest.mark.parametrize("target", ["xla_ffi_python_cpu_callback", "nobody_knows_it"])
def test_a_call_that_jax_cannot_make_either_is_an_error(target):
    found = aotc.from_stablehlo(CALL.format(target), breaks="island")
    with pytest.raises(InputError) as caught:
        found(numpy.ones(2, "f"))
    assert caught.value.code == "framework-cannot-load"


def test_a_state_is_refused():
    specs = aotc.State({"n": numpy.zeros(2, "f")}), Spec((2,))
    with pytest.raises(InputError, match="State") as caught:
        aotc.from_jax(lambda state, x: (state, x), specs, breaks="island")
    assert caught.value.code == "bad-option"


def test_by_default_a_function_with_such_ops_is_refused():
    with pytest.raises(InputError, match="lapack_sgeev_ffi"):
        aotc.from_jax(inside, (Spec((4, 4)),))
