"""StableHLO modules as models; none of these tests needs jax."""

import contextlib
import io

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import InputError
from aotc.fft import Complex
from aotc.importers import load
from aotc.importers.python import trace
from aotc.importers.stablehlo.reading import parse
from aotc.mlir import stablehlo
from aotc.passes import run_passes

LAYER = """
func.func @main(%x: tensor<?x3xf32> loc("x"), %w: tensor<3x2xf32> loc("w"))
    -> tensor<?x2xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %1 = stablehlo.tanh %0 : tensor<?x2xf32> loc("net/act"("layer.py":7:3))
  return %1 : tensor<?x2xf32>
}
"""
X = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
W = np.arange(6, dtype=np.float32).reshape(3, 2) / 5


def run(text, *args):
    """What the module computes, by the reference."""
    return aotc.from_stablehlo(text)(*args)


def function(body, arguments, result):
    """A module of one function."""
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def refused_module(text):
    """The error that importing a module ends in."""
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(text)
    return caught.value


# ---- reading ------------------------------------------------------------------------


def test_a_text_is_a_model_with_the_names_of_its_debug_information(tmp_path):
    file = tmp_path / "layer.mlir"
    file.write_text(LAYER)
    program = load(file)
    (entry,) = program.entries
    assert [port.name for port in entry.arguments] == ["x", "w"]
    assert program.source["kind"] == "stablehlo"
    (y,) = reference.evaluate(program.module, "main", [X, W])
    np.testing.assert_allclose(y, np.tanh(X @ W), rtol=1e-6)


def test_bytecode_and_portable_artifacts_say_the_same_as_the_text():
    module = parse(LAYER, "layer")
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    with module.context:
        portable = stablehlo().serialize_portable_artifact_str(LAYER, "1.0.0")
    for contents in (bytecode.getvalue(), portable):
        np.testing.assert_allclose(run(contents, X, W), np.tanh(X @ W), rtol=1e-6)


def test_an_artifact_of_a_later_version_is_refused_with_both_versions():
    with parse(LAYER, "layer").context:
        portable = stablehlo().serialize_portable_artifact_str(LAYER, "1.0.0")
    error = refused_module(portable.replace(b"StableHLO_v1.0.0", b"StableHLO_v9.0.0"))
    assert error.code == "unsupported-version"
    assert "9.0.0" in error.message


DAMAGED = {
    "bytecode": b"ML\xefR\x01garbage\0",
    "half a text": b"func.func @main(",
    "no text": b"\xff\xfe nothing",
    "a name that is no UTF-8": LAYER.replace("net/act", r"net\FF").encode(),
    "types nested so deep that the reader dies": b"func.func @main(%x: "
    + b"tuple<" * 100_000,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_contents_are_refused(name):
    assert refused_module(DAMAGED[name]).code == "bad-file"


def test_damaged_bytes_are_refused_or_a_model():
    bytecode = io.BytesIO()
    parse(LAYER, "layer").operation.write_bytecode(bytecode)
    random = np.random.RandomState(0)
    for contents in (bytecode.getvalue(), LAYER.encode()):
        for _ in range(3):
            damaged = bytearray(contents)
            damaged[random.randint(len(damaged))] = random.randint(256)
            with contextlib.suppress(InputError):
                aotc.from_stablehlo(bytes(damaged)).program()


@pytest.mark.parametrize(
    "text",
    [
        "module {\n}",
        "func.func private @main()",
        "func.func @f() { return } func.func @g() { return }",
    ],
)
def test_a_module_without_a_main_function_is_refused(text):
    assert refused_module(text).code == "no-entries"


def test_ops_carry_the_line_and_the_path_of_the_source():
    program = aotc.from_stablehlo(LAYER).program()
    text = program.module.operation.get_asm(enable_debug_info=True)
    assert '"net/act"' in text
    assert '"layer.py":7' in text


def test_chlo_is_read_in_its_pretty_form():
    body = """%0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
    %v, %i = chlo.top_k(%0, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
    return %i : tensor<2xi32>"""
    text = function(body, "%x: tensor<4xf32>", "tensor<2xi32>")
    assert run(text, np.float32([1, 3, -1, 2])).tolist() == [1, 3]


def test_donated_arguments_are_named():
    arguments = """%x: tensor<3xf32> {tf.aliasing_output = 0 : i32} loc("x"),
        %y: tensor<3xf32> loc("y")"""
    body = "%0 = stablehlo.add %x, %y : tensor<3xf32> return %0 : tensor<3xf32>"
    text = function(body, arguments, "tensor<3xf32>")
    assert aotc.from_stablehlo(text).donated == ("x",)


def test_large_literals_are_weights():
    values = np.arange(2048, dtype=np.float32)
    body = f"""%c = stablehlo.constant dense<"0x{values.tobytes().hex().upper()}">
        : tensor<2048xf32>
    %0 = stablehlo.add %x, %c : tensor<2048xf32>
    return %0 : tensor<2048xf32>"""
    text = function(body, "%x: tensor<2048xf32>", "tensor<2048xf32>")
    network = aotc.from_stablehlo(text)
    (name,) = network.program("net").parameters
    assert name == "weights.constant_0"
    y = network(network.weights.tree, np.ones(2048, np.float32))
    np.testing.assert_array_equal(y, values + 1)


# ---- what is refused ----------------------------------------------------------------


def test_all_that_is_unsupported_is_one_error_with_lines():
    body = """%0 = stablehlo.custom_call @mystery(%x) : (tensor<4xf32>) -> tensor<4xf32>
        loc("model.py":3:1)
    %1 = stablehlo.custom_call @xla_python_cpu_callback(%0)
        : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":5:1)
    %2 = stablehlo.custom_call @mystery(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>"""
    error = refused_module(function(body, "%x: tensor<4xf32>", "tensor<4xf32>"))
    assert error.code == "unsupported-ops"
    assert "custom_call @mystery (2×)" in error.message
    assert "calls back into Python" in error.message
    assert "model.py:3" in error.message


def test_a_window_of_symbolic_size_that_runs_along_no_axis_is_refused():
    module = """module {
      func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %size = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
        %one = stablehlo.constant dense<1> : tensor<1xi32>
        %none = stablehlo.constant dense<0> : tensor<1x2xi32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %y = stablehlo.custom_call @stablehlo.dynamic_reduce_window(
            %x, %zero, %size, %one, %one, %one, %none)
            {called_computations = [@add]}
            : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>,
               tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
        return %y : tensor<?xf32>
      }
      func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %c = stablehlo.add %a, %b : tensor<f32>
        return %c : tensor<f32>
      }
    }"""
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(module).program("f")
    assert "hold all that came before along one axis" in caught.value.message
    assert "jax.lax.scan" in str(caught.value.hint)


def test_element_types_that_the_graph_has_not_are_refused():
    body = """%0 = stablehlo.add %x, %x : tensor<4xf8E4M3FN>
    return %0 : tensor<4xf8E4M3FN>"""
    error = refused_module(
        function(body, "%x: tensor<4xf8E4M3FN>", "tensor<4xf8E4M3FN>")
    )
    assert "f8E4M3FN" in error.message


REFUSED = {
    "foo.bar": '%0 = "foo.bar"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    "@main calls itself": "%0 = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    "@gone has no body": "%0 = func.call @gone(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    "it spans devices": """%0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        "stablehlo.return"(%s) : (tensor<f32>) -> ()
      }) {replica_groups = dense<0> : tensor<1x1xi64>}
      : (tensor<4xf32>) -> tensor<4xf32>""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_meaning_here_is_refused_by_name(reason):
    body = f"{REFUSED[reason]} return %0 : tensor<4xf32>"
    text = function(body, "%x: tensor<4xf32>", "tensor<4xf32>")
    declared = "func.func private @gone(tensor<4xf32>) -> tensor<4xf32>"
    error = refused_module(f"{declared}\n{text}")
    assert error.code == "unsupported-ops"
    assert reason in error.message


def test_an_argument_of_unknown_rank_is_refused():
    error = refused_module(function("return", "%x: tensor<*xf32>", "()"))
    assert "expected a tensor of known rank" in error.message


def test_a_shape_that_values_decide_is_refused_at_its_line():
    body = """%0 = stablehlo.dynamic_reshape %x, %n
        : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x?xf32> loc("model.py":3:1)
    return %0 : tensor<?x?xf32>"""
    arguments = "%x: tensor<4xf32>, %n: tensor<2xi32>"
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(function(body, arguments, "tensor<?x?xf32>")).program()
    assert caught.value.code == "data-dependent-shape"
    assert "model.py:3" in str(caught.value.where)


def test_a_module_for_several_devices_is_refused():
    text = f"module attributes {{mhlo.num_partitions = 2 : i32}} {{ {LAYER} }}"
    assert refused_module(text).code == "many-devices"


# ---- sizes --------------------------------------------------------------------------


def test_shape_assertions_become_contracts_and_equal_sizes():
    text = """
    func.func @main(%x: tensor<?x3xf32>, %y: tensor<?xf32>) -> tensor<?x3xf32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
      %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %c = stablehlo.compare GE, %n, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%c, %n)
        {error_message = "at least 2, not {0}", has_side_effect = true}
        : (tensor<i1>, tensor<i32>) -> ()
      %d = stablehlo.multiply %n, %two : tensor<i32>
      %e = stablehlo.add %d, %one : tensor<i32>
      %f = stablehlo.compare EQ, %m, %e : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%f, %m)
        {error_message = "an odd size", has_side_effect = true}
        : (tensor<i1>, tensor<i32>) -> ()
      return %x : tensor<?x3xf32>
    }"""
    (entry,) = aotc.from_stablehlo(text).program().entries
    (symbol,) = entry.symbols
    assert symbol.min == 2
    assert [str(port.type) for port in entry.arguments] == [
        "f32[s0, 3]",
        "f32[s0 * 2 + 1]",
    ]


ADDITION = function(
    """%0 = stablehlo.add %x, %y : tensor<?xf32>
    return %0 : tensor<?xf32>""",
    '%x: tensor<?xf32> loc("x"), %y: tensor<?xf32> loc("y")',
    "tensor<?xf32>",
)


def test_specs_say_what_the_module_leaves_open():
    with pytest.raises(InputError) as caught:
        aotc.from_stablehlo(ADDITION).program()
    assert caught.value.code == "shape-mismatch"
    spec = aotc.Spec("n")
    (entry,) = aotc.from_stablehlo(ADDITION, {"x": spec, "y": spec}).program().entries
    assert [str(port.type) for port in entry.arguments] == ["f32[s0]", "f32[s0]"]


@pytest.mark.parametrize("spec", [aotc.Spec("n", "i32"), aotc.Spec(("n", 2))])
def test_specs_that_the_module_does_not_take_are_refused(spec):
    with pytest.raises(InputError, match="as 'x'"):
        aotc.from_stablehlo(ADDITION, {"x": spec})


def test_computed_shapes_stay_symbolic():
    body = """%n = stablehlo.get_dimension_size %x, dim = 0
        : (tensor<?x3xf32>) -> tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %m = stablehlo.multiply %n, %three : tensor<i32>
    %shape = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %0 = stablehlo.dynamic_reshape %x, %shape
        : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>"""
    text = function(body, "%x: tensor<?x3xf32>", "tensor<?xf32>")
    (entry,) = aotc.from_stablehlo(text).program().entries
    assert str(entry.results[0].type) == "f32[s0 * 3]"
    np.testing.assert_array_equal(run(text, X), X.ravel())


# ---- regions ------------------------------------------------------------------------


def test_an_unknown_reducer_is_run_on_whole_arrays():
    body = """%c = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = "stablehlo.reduce"(%x, %c) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.multiply %a, %b : tensor<f32>
        %t = stablehlo.negate %s : tensor<f32>
        "stablehlo.return"(%t) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>"""
    text = function(body, "%x: tensor<4x3xf32>", "tensor<4xf32>")
    np.testing.assert_allclose(run(text, X), -np.prod(X, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("reducer", "first"),
    [("maximum", "0xFF800000"), ("minimum", "3.0"), ("add", "1.0")],
)
def test_a_reduction_of_nothing_is_its_first_element(reducer, first):
    body = f"""%c = stablehlo.constant dense<{first}> : tensor<f32>
    %0 = "stablehlo.reduce"(%x, %c) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.{reducer} %a, %b : tensor<f32>
        "stablehlo.return"(%s) : (tensor<f32>) -> ()
    }}) {{dimensions = array<i64: 1>}} : (tensor<4x0xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>"""
    text = function(body, "%x: tensor<4x0xf32>", "tensor<4xf32>")
    wanted = -np.inf if reducer == "maximum" else float(first)
    np.testing.assert_array_equal(run(text, np.zeros((4, 0), "f4")), [wanted] * 4)


COMPARATORS = {
    "descending": ("stablehlo.compare GT, %a, %b", [3, 1, 2, 0]),
    "by distance": (None, [0, 2, 1, 3]),
}


@pytest.mark.parametrize("name", COMPARATORS)
def test_sorts_by_any_comparator(name):
    test, expected = COMPARATORS[name]
    compare = f"""%p = {test} : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
    if test is None:
        compare = """%m = stablehlo.abs %a : tensor<f32>
        %n = stablehlo.abs %b : tensor<f32>
        %p = stablehlo.compare LT, %m, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
    body = f"""%i = stablehlo.iota dim = 0 : tensor<4xi32>
    %0:2 = "stablehlo.sort"(%x, %i) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
        {compare}
        "stablehlo.return"(%p) : (tensor<i1>) -> ()
    }}) {{dimension = 0 : i64, is_stable = true}}
        : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
    return %0#1 : tensor<4xi32>"""
    text = function(body, "%x: tensor<4xf32>", "tensor<4xi32>")
    assert run(text, np.float32([-1, 2, 1.5, 7])).tolist() == expected


LOOP = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3xf32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.multiply %y, %x : tensor<3xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<3xf32>
    }
  return %0#1 : tensor<3xf32>
}
"""


@pytest.mark.parametrize("steps", [-1, 0, 1, 2])
def test_a_counted_loop_makes_as_many_steps_as_it_says(steps):
    text = LOOP.replace("dense<4>", f"dense<{steps}>")
    found = run(text, X[1])
    np.testing.assert_allclose(found, X[1] ** (1 + max(steps, 0)), rtol=1e-6)


def test_a_counted_loop_has_reverse_mode():
    network = aotc.from_stablehlo(LOOP)

    @aotc.entry(x=aotc.Spec(3))
    def slope(x):
        return aotc.grad(lambda v: network(v).sum())(x)

    program = trace([slope], {})
    run_passes(program.module, ["autodiff", "inline"])
    (dx,) = reference.evaluate(program.module, "slope", [X[1]])
    np.testing.assert_allclose(dx, 5 * X[1] ** 4, rtol=1e-5)


def test_products_of_complex_numbers_are_of_the_dtype_of_the_result():
    body = """%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
        : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<complex<f64>>
    return %0 : tensor<complex<f64>>"""
    text = function(body, "%x: tensor<2xcomplex<f32>>", "tensor<complex<f64>>")
    y = run(text, Complex(np.float32([1, 2]), np.float32([3, 4])))
    assert (y.real.dtype, y.real.item(), y.imag.item()) == ("f64", -20, 22)


# ---- indexing -----------------------------------------------------------------------


def _gather(x, starts, numbers, window, result):
    body = f"""%0 = "stablehlo.gather"(%x, %i) {{
        dimension_numbers = #stablehlo.gather<{numbers}>,
        slice_sizes = array<i64: {window}>}}
        : (tensor<{x}xf32>, tensor<{starts}xi32>) -> tensor<{result}xf32>
    return %0 : tensor<{result}xf32>"""
    arguments = f"%x: tensor<{x}xf32>, %i: tensor<{starts}xi32>"
    return function(body, arguments, f"tensor<{result}xf32>")


def test_gathers_windows_that_are_moved_to_fit():
    numbers = """offset_dims = [1], collapsed_slice_dims = [0],
        start_index_map = [0, 1], index_vector_dim = 1"""
    text = _gather("4x3", "2x2", numbers, "1, 2", "2x2")
    y = run(text, X, np.int32([[1, 0], [9, 2]]))
    np.testing.assert_array_equal(y, [X[1, :2], X[3, 1:]])


def test_gathers_along_batch_axes():
    numbers = """offset_dims = [1], operand_batching_dims = [0],
        start_indices_batching_dims = [0], start_index_map = [1],
        index_vector_dim = 1"""
    text = _gather("4x3", "4x1", numbers, "1, 2", "4x2")
    y = run(text, X, np.int32([[0], [1], [0], [5]]))
    np.testing.assert_array_equal(y, [X[0, :2], X[1, 1:], X[2, :2], X[3, 1:]])


def test_a_scattered_window_that_does_not_fit_is_left_out_whole():
    body = """%0 = "stablehlo.scatter"(%x, %i, %u) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        "stablehlo.return"(%s) : (tensor<f32>) -> ()
    }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<5xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>"""
    arguments = "%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3x2xf32>"
    y = run(
        function(body, arguments, "tensor<5xf32>"),
        np.zeros(5, np.float32),
        np.int32([[0], [4], [1]]),
        np.float32([[1, 2], [4, 8], [16, 32]]),
    )
    assert y.tolist() == [1, 18, 32, 0, 0]


# ---- random bits --------------------------------------------------------------------

# of zeros, from the known answers of Random123 (Salmon et al., SC 2011)
KNOWN_BITS = {
    "THREE_FRY": (2, [0x6B200159, 0x99BA4EFE]),
    "PHILOX": (3, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
}


@pytest.mark.parametrize("algorithm", KNOWN_BITS)
def test_random_bits_are_those_of_the_algorithm(algorithm):
    words, bits = KNOWN_BITS[algorithm]
    body = f"""%0:2 = stablehlo.rng_bit_generator %x, algorithm = {algorithm}
        : (tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{len(bits)}xui32>)
    return %0#0, %0#1 : tensor<{words}xui64>, tensor<{len(bits)}xui32>"""
    results = f"(tensor<{words}xui64>, tensor<{len(bits)}xui32>)"
    text = function(body, f"%x: tensor<{words}xui64>", results)
    state, found = run(text, np.zeros(words, np.uint64))
    assert found.tolist() == bits
    assert state.tolist() == [0, 1, 0][:words]
