"""ONNX graphs with islands give what ONNX Runtime gives."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy
import pytest

import aotc
from aotc.errors import InputError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper
F = onnx.TensorProto.FLOAT

RNG = numpy.random.default_rng(0)


def _model(path, nodes, inputs, outputs, stored=None):
    """A file whose inputs are f32 of rank 2 with sizes that it leaves open."""
    made = [helper.make_tensor_value_info(n, F, [None, 4]) for n in inputs]
    results = [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs]
    arrays = [onnx.numpy_helper.from_array(x, n) for n, x in (stored or {}).items()]
    graph = helper.make_graph(nodes, "graph", made, results, arrays)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def _sequence(before, after):
    """Ops that aotc has no arrays for: split into a sequence, and joined again."""
    return [
        helper.make_node("SplitToSequence", [before], ["s_" + after], axis=1),
        helper.make_node("ConcatFromSequence", ["s_" + after], [after], axis=1),
    ]


W = RNG.standard_normal((4, 4)).astype("f")
MIDDLE = [
    helper.make_node("MatMul", ["x", "w"], ["a"]),
    helper.make_node("Tanh", ["a"], ["b"]),
    *_sequence("b", "c"),
    helper.make_node("Add", ["c", "a"], ["d"]),  # read on both sides of the island
    helper.make_node("Relu", ["d"], ["y"]),
]
THEN = helper.make_graph(
    [*_sequence("a", "t"), helper.make_node("Neg", ["t"], ["r"])],
    "then",
    [],
    [helper.make_tensor_value_info("r", F, None)],
)
ELSE = helper.make_graph(
    [helper.make_node("Exp", ["a"], ["e"])],
    "else",
    [],
    [helper.make_tensor_value_info("e", F, None)],
)
Y = [("y", F, [None, 4])]
CASES = {
    "middle": (MIDDLE, ["x"], Y, {"w": W}, 1),
    "first": (
        [*_sequence("x", "a"), helper.make_node("Exp", ["a"], ["y"])],
        ["x"], Y, {}, 1,
    ),
    "last": (
        [helper.make_node("Exp", ["x"], ["a"]), *_sequence("a", "y")],
        ["x"], Y, {}, 1,
    ),
    "two": (
        [
            *_sequence("x", "a"),
            helper.make_node("Exp", ["a"], ["b"]),
            *_sequence("b", "c"),
            helper.make_node("Mul", ["c", "w1"], ["y"]),
        ],
        ["x"], [*Y, ("b", F, [None, 4])], {"w1": W[:1]}, 2,
    ),
    "independent": (
        [
            *_sequence("x", "a"),
            helper.make_node("Exp", ["z"], ["b"]),
            *_sequence("b", "c"),
            helper.make_node("Add", ["a", "c"], ["y"]),
        ],
        ["x", "z"], Y, {}, 1,
    ),
    "inside": (
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("ReduceSum", ["a"], ["total"], keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["is"]),
            helper.make_node("If", ["is"], ["i"], then_branch=THEN, else_branch=ELSE),
            helper.make_node("Tanh", ["i"], ["y"]),
        ],
        ["x"], Y, {"w": W, "zero": numpy.float32(0)}, 1,
    ),
    "none": ([helper.make_node("Exp", ["x"], ["y"])], ["x"], Y, {}, 0),
    "only": (_sequence("x", "y"), ["x"], Y, {}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_graph_with_islands_gives_what_onnx_runtime_gives(name, tmp_path):
    nodes, inputs, outputs, stored, islands = CASES[name]
    path = _model(tmp_path / "model.onnx", nodes, inputs, outputs, stored)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    graph = aotc.from_onnx(path, breaks="island")
    for rows in (3, 1, 3):
        given = {n: RNG.standard_normal((rows, 4)).astype("f") for n in inputs}
        expected = session.run(None, given)
        found = graph(**given)
        found = [*found.values()] if isinstance(found, dict) else [found]
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert len(graph.boundaries) == graph.report()["graph_breaks"] == islands
    for each in graph.boundaries:
        assert each.calls == 3
        assert "sequences" in each.reason


def test_bytes_over_boundaries_are_measured(tmp_path):
    graph = aotc.from_onnx(
        _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W}), breaks="island"
    )
    graph(x=numpy.ones((5, 4), "f"))
    (boundary,) = graph.boundaries
    assert (boundary.bytes_in, boundary.bytes_out) == (80, 80)
    assert boundary.operation == "SplitToSequence, ConcatFromSequence"


def _file(path, nodes, inputs, outputs, stored=None, opsets=(("", 17),)):
    """A file with inputs `(name, type, shape)`, and results whose types are open."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [onnx.numpy_helper.from_array(x, n) for n, x in (stored or {}).items()],
    )
    imports = [helper.make_opsetid(*each) for each in opsets]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), str(path))
    return path


def _hybrid(folder, *args, opsets=(("", 17),), **options):
    path = _file(folder / "model.onnx", *args, opsets=opsets)
    return aotc.from_onnx(path, breaks="island", **options)


def _error(graph, **given):
    with pytest.raises(InputError) as caught:
        graph(**given)
    return caught.value


X = ("x", F, ["n", 4])
I64 = onnx.TensorProto.INT64


def ones(*shape, dtype="f"):
    return numpy.ones(shape, dtype)


@pytest.mark.parametrize(
    ("given", "code", "hint"),
    [
        ({"x": ones(2, 4)}, "missing-input", None),
        ({"x": ones(2, 4), "zz": ones(2, 4)}, "unknown-input", "did you mean 'z'"),
        ({"x": ones(2, 4, dtype="d"), "z": ones(2, 4)}, "dtype-mismatch", "astype"),
        ({"x": ones(2, 4, dtype="i4"), "z": ones(2, 4)}, "dtype-mismatch", "astype"),
        ({"x": ones(4), "z": ones(2, 4)}, "rank-mismatch", None),
        ({"x": ones(2, 7), "z": ones(2, 4)}, "shape-mismatch", None),
        ({"x": ones(2, 4), "z": ones(3, 4)}, "shape-mismatch", None),
        ({"x": [[1.0] * 4], "z": ones(1, 4)}, "input-type", "numpy.asarray"),
    ],
)
def test_inputs_are_held_to_what_the_file_declares(given, code, hint, tmp_path):
    nodes = [*_sequence("x", "a"), helper.make_node("Add", ["a", "z"], ["y"])]
    graph = _hybrid(tmp_path, nodes, [X, ("z", F, ["n", 4])], [("y", F)])
    error = _error(graph, **given)
    assert error.code == code
    assert hint is None or hint in error.hint
    assert graph.report()["regions"][0]["compiles"] == 0  # nothing was made for it


def test_inputs_of_any_rank_are_computed_by_a_session_for_each_rank(tmp_path):
    nodes = [*_sequence("x", "a"), helper.make_node("Tanh", ["a"], ["y"])]
    graph = _hybrid(tmp_path, nodes, [("x", F, None)], [("y", F)])
    refused = _error(graph, x=ones(3))  # there is no axis 1
    assert refused.code == "framework-cannot-load"
    assert refused.where == "model.onnx:0"
    assert _error(graph, x=ones(2, 3, dtype="d")).code == "dtype-mismatch"
    for shape in ((2, 3), (2, 3, 4), (5, 2)):
        assert graph(x=ones(*shape)).shape == shape


def test_what_onnx_runtime_refuses_in_a_call_leaves_later_calls_unharmed(tmp_path):
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=1),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    graph = _hybrid(tmp_path, nodes, [X, ("i", I64, [])], [("y", F)])
    error = _error(graph, x=ones(2, 4), i=9)
    assert (error.code, error.where) == ("framework-refused", "model.onnx:0")
    assert "SequenceAt" in error.message
    assert graph(x=ones(2, 4), i=1).shape == (2, 1)
    assert [(each.calls, each.failures) for each in graph.boundaries] == [(2, 1)]


@pytest.mark.parametrize(
    ("nodes", "told", "where"),
    [
        (
            [*_sequence("x", "a"), helper.make_node("Add", ["a", "lost"], ["y"])],
            "Add reads 'lost', which no node computes",
            "model.onnx:2",
        ),
        (
            [
                helper.make_node("Add", ["x", "y"], ["a"]),
                helper.make_node("Exp", ["a"], ["y"]),
            ],
            "reads 'y', and nodes that compute it wait for each other",
            "model.onnx:0",
        ),
        (
            [
                helper.make_node("Exp", ["x"], ["y"]),
                helper.make_node("Tanh", ["x"], ["y"], name="again"),
            ],
            "Tanh computes 'y', which is there before",
            "model.onnx:1 (again)",
        ),
        (
            [helper.make_node("Exp", ["x"], ["a"])],
            "no node computes the result 'y'",
            "model.onnx",
        ),
    ],
)
def test_a_graph_that_cannot_be_computed_is_refused(nodes, told, where, tmp_path):
    with pytest.raises(InputError, match=told) as caught:
        _hybrid(tmp_path, nodes, [X], [("y", F)])
    assert (caught.value.code, caught.value.where) == ("bad-graph", where)


def test_results_may_be_inputs_and_tensors_of_the_file(tmp_path):
    outputs = [("y", F), ("w", F), ("x", F)]
    graph = _hybrid(tmp_path, _sequence("x", "y"), [X], outputs, {"w": W})
    x = ones(2, 4)
    found = graph(x=x)
    assert found["w"].tolist() == W.tolist()
    assert found["x"].tolist() == x.tolist()
    found["x"][:] = 0  # it is a copy
    assert x.min() == 1


def test_a_tensor_with_a_default_can_be_given(tmp_path):
    nodes = [helper.make_node("Mul", ["x", "u"], ["a"]), *_sequence("a", "y")]
    inputs = [X, ("u", F, [4])]
    graph = _hybrid(tmp_path, nodes, inputs, [("y", F)], {"u": ones(4)})
    assert graph(x=ones(2, 4)).max() == 1
    assert graph(x=ones(2, 4), u=3 * ones(4)).min() == 3
    assert graph(x=ones(2, 4)).max() == 1
    assert _error(graph, x=ones(2, 4), u=ones(3)).code == "shape-mismatch"
    assert [each.calls for each in graph.boundaries] == [2, 1]
    assert graph.report()["graph_breaks"] == 2


def test_after_the_second_size_a_region_takes_all_sizes(tmp_path):
    path = _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W})
    graph = aotc.from_onnx(path, breaks="island")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows in (3, 5, 2, 7, 40, 3, 0, 0):
        x = RNG.standard_normal((rows, 4)).astype("f")
        (expected,) = session.run(None, {"x": x})
        numpy.testing.assert_allclose(graph(x=x), expected, rtol=1e-4, atol=1e-5)
    assert [each["compiles"] for each in graph.report()["regions"]] == [3, 3]
    assert [each.calls for each in graph.boundaries] == [8]


def test_the_op_whose_results_have_sizes_that_values_decide_is_an_island(tmp_path):
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Unique", ["a"], ["u"]),
        helper.make_node("Exp", ["u"], ["y"]),
    ]
    graph = _hybrid(tmp_path, nodes, [("x", F, ["n"])], [("y", F)])
    for size in (3, 4, 5, 6):
        x = numpy.arange(size, dtype="f")
        numpy.testing.assert_allclose(graph(x=x), numpy.exp(numpy.tanh(x)), rtol=1e-5)
    (boundary,) = graph.boundaries
    assert (boundary.operation, boundary.calls) == ("Unique", 4)
    assert "depends on values" in boundary.reason
    assert [each["compiles"] for each in graph.report()["regions"]] == [2, 2]


def test_sizes_that_values_decide_may_stay_within_a_region(tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["u"]),
        helper.make_node("ReduceSum", ["u"], ["y"], keepdims=0),
    ]
    graph = _hybrid(tmp_path, nodes, [("x", F, ["n"])], [("y", I64)])
    assert graph(x=ones(3)).tolist() == 3
    assert graph.boundaries == ()


def test_sizes_that_are_not_known_make_an_island_of_one_op(tmp_path):
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("SequenceConstruct", ["to"], ["s"]),
        helper.make_node("SequenceAt", ["s", "zero"], ["t"]),
        helper.make_node("Reshape", ["a", "t"], ["r"]),
        helper.make_node("Tanh", ["r"], ["y"]),
    ]
    stored = {"zero": numpy.int64(0)}
    graph = _hybrid(tmp_path, nodes, [X, ("to", I64, [2])], [("y", F)], stored)
    assert graph(x=ones(2, 4), to=numpy.array([4, 2])).shape == (4, 2)
    assert [each.operation for each in graph.boundaries] == [
        "SequenceConstruct, SequenceAt",
        "Reshape",
    ]


def test_an_op_that_onnx_runtime_does_not_know_is_named(tmp_path):
    node = helper.make_node("Foo", ["x"], ["y"], domain="my.own", name="foo")
    for opsets in ((("", 17), ("my.own", 1)), (("", 17),)):
        graph = _hybrid(tmp_path, [node], [X], [("y", F)], opsets=opsets)
        error = _error(graph, x=ones(2, 4))
        assert error.code == "framework-cannot-load"
        assert error.where == "model.onnx:0 (foo)"
        assert error.hint


def test_optional_values_that_are_left_out_are_no_values(tmp_path):
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b", ""]),
        *_sequence("b", "y"),
    ]
    stored = {"high": numpy.float32(0.5)}
    graph = _hybrid(tmp_path, nodes, [X], [("y", F)], stored)
    assert graph(x=ones(2, 4)).max() == 0.5


def test_a_graph_without_inputs_is_computed(tmp_path):
    nodes = [helper.make_node("Neg", ["w"], ["a"]), *_sequence("a", "y")]
    graph = _hybrid(tmp_path, nodes, [], [("y", F)], {"w": W})
    assert graph().tolist() == (-W).tolist()


def test_strings_and_sequences_are_handed_to_islands(tmp_path):
    text = onnx.TensorProto.STRING
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Shape", ["same"], ["n"]),
        helper.make_node("Neg", ["n"], ["y"]),
    ]
    graph = _hybrid(tmp_path, nodes, [("x", text, ["n"])], [("y", I64), ("same", text)])
    found = graph(x=numpy.array(["a", "bc"]))
    assert found["y"].tolist() == [-2]
    assert found["same"].tolist() == ["a", "bc"]
    assert [each.operation for each in graph.boundaries] == ["Identity, Shape"]


@pytest.mark.parametrize("dtype", ["float16", "bool", "int64", "float64"])
def test_other_dtypes_pass_boundaries(dtype, tmp_path):
    kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    op = helper.make_node("Not" if dtype == "bool" else "Neg", ["x"], ["a"])
    graph = _hybrid(
        tmp_path, [op, *_sequence("a", "y")], [("x", kind, ["n", 4])], [("y", kind)]
    )
    x = ones(2, 4, dtype=dtype)
    found = graph(x=x)
    assert (found.dtype, found.tolist()) == (
        dtype,
        (~x if dtype == "bool" else -x).tolist(),
    )


@pytest.mark.parametrize("rows", [2, 0])
def test_bfloat16_passes_boundaries(rows, tmp_path):
    kind = onnx.TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "to"], ["b"], allowzero=1),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    inputs = [("x", kind, ["n", 4]), ("to", I64, [2])]
    graph = _hybrid(tmp_path, nodes, inputs, [("y", kind)])
    x = numpy.arange(4 * rows).reshape(rows, 4).astype(ml_dtypes.bfloat16)
    found = graph(x=x, to=numpy.array([4, rows]))
    assert found.dtype == x.dtype
    assert found.tolist() == x.reshape(4, rows).tolist()
    assert [each.operation for each in graph.boundaries] == ["Reshape"]


def test_calls_of_several_threads_are_those_of_one(tmp_path):
    path = _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W})
    graph = aotc.from_onnx(path, breaks="island")
    given = [RNG.standard_normal((rows, 4)).astype("f") for rows in (2, 3, 4, 0) * 4]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda x: graph(x=x), given)]
    for x, one in zip(given, found, strict=True):
        numpy.testing.assert_array_equal(one, graph(x=x))
    assert [each.calls for each in graph.boundaries] == [32]


@pytest.mark.parametrize("limit", ["max_variants", "max_compiles"])
def test_limits_are_one_or_more(limit, tmp_path):
    with pytest.raises(InputError, match="1 or more") as caught:
        _hybrid(tmp_path, MIDDLE, [X], [("y", F)], {"w": W}, **{limit: 0})
    assert caught.value.code == "bad-option"


def test_too_many_compilations_are_an_error(tmp_path):
    graph = _hybrid(tmp_path, MIDDLE, [X], [("y", F)], {"w": W}, max_compiles=1)
    graph(x=ones(2, 4))
    error = _error(graph, x=ones(3, 4))
    assert error.code == "recompile-storm"
    assert "region from model.onnx:0 on" in error.message
    assert graph(x=ones(2, 4)).shape == (2, 4)


def test_by_default_an_op_without_importer_is_an_error(tmp_path):
    path = _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W})
    with pytest.raises(InputError, match="SplitToSequence"):
        aotc.from_onnx(path)
