"""ONNX graphs with islands give what ONNX Runtime gives."""

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


def test_inputs_that_are_missing_or_unknown_are_refused(tmp_path):
    graph = aotc.from_onnx(
        _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W}), breaks="island"
    )
    for given, code in (({}, "missing-input"), ({"x": W, "y": W}, "unknown-input")):
        with pytest.raises(InputError) as caught:
            graph(**given)
        assert caught.value.code == code


def test_by_default_an_op_without_importer_is_an_error(tmp_path):
    path = _model(tmp_path / "model.onnx", MIDDLE, ["x"], Y, {"w": W})
    with pytest.raises(InputError, match="SplitToSequence"):
        aotc.from_onnx(path)
