"""ONNX files as models: values, sizes, subgraphs, functions, data, and refusals."""

import numpy as np
import pytest

from aotc.core.pytree import flatten, tree_map
from aotc.errors import InputError
from aotc.importers import load

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

from aotc.importers.onnx import from_onnx  # noqa: E402
from tests.importers.onnx_files import DENSE, LOOP, types_of  # noqa: E402

# ---- hints --------------------------------------------------------------------------


def test_hints_fit_where_an_operator_comes_from(written):
    error = written.refused("""
        net (float[3] x) => (float[3] y) {
            a = ai.onnx.ml.TreeEnsembleRegressor(x)
            b = com.microsoft.FusedGelu(a)
            y = own.Secret(b)
        }
    """)
    hints = error.hint.split("; ")
    assert error.code == "unsupported-ops"
    assert [any(part in hint for hint in hints) for part in HINTS] == [True] * 3
    assert not any("TreeEnsemble" in hint and "optimi" in hint for hint in hints)


HINTS = (
    "operators on arrays",
    "optimisations of ONNX Runtime",
    "function of the model",
)


# ---- results ------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_file(written):
    net = written("""
        net (float[3] z, float[3] a) => (float[3] scores, float[3] boxes, float[3] at) {
            scores = Add(z, a) boxes = Sub(z, a) at = Neg(z)
        }
    """)
    names = ["scores", "boxes", "at"]
    (entry,) = net.program().entries
    assert [port.name for port in entry.results] == names
    z, a = np.float32([1, 2, 3]), np.float32([5, 6, 7])
    for results in (net(z, a), tree_map(np.asarray, net(z, a))):
        assert list(results) == names
        np.testing.assert_array_equal(np.asarray(results["boxes"]), z - a)
    leaves, structure = flatten(net(z, a))
    assert structure == entry.output_tree
    np.testing.assert_array_equal(np.asarray(leaves[0]), z + a)


# ---- weights ------------------------------------------------------------------------


def test_initialisers_become_weights_that_stay_in_the_file(written):
    w = np.arange(4096 * 3, dtype=np.float32).reshape(4096, 3)
    net = written("g (float[n, 4096] x) => (float[n, 3] y) { y = MatMul(x, w) }", w=w)
    (stored,) = net.weights.arrays
    np.testing.assert_array_equal(stored, w)
    assert not stored.flags.owndata
    assert not stored.flags.writeable  # a view of the mapped file


def test_a_network_computes_on_its_weights(written):
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    net = written(DENSE, w=w)
    x = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(net(net.weights.tree, x), x @ w)
    assert types_of(net) == ["f32[batch, 2]"]


def test_aotc_loads_an_onnx_file_by_its_suffix(written):
    written(DENSE, w=np.ones((3, 2), np.float32))
    program = load(written.file)
    assert [entry.name for entry in program.entries] == ["main"]
    assert program.source["kind"] == "onnx"
    with pytest.raises(InputError, match="no entry 'other'"):
        load(written.file, ("other",))


def test_an_entry_can_be_written_around_a_network(model, written):
    w = np.ones((3, 2), np.float32)
    (model.folder / "net.onnx").write_bytes(
        written.proto(DENSE, w=w).SerializeToString()
    )
    program = model.load(
        """
        from pathlib import Path
        import aotc

        net = aotc.from_onnx(Path(__file__).parent / "net.onnx", {"batch": 4})
        weights = net.weights

        @aotc.entry(x=aotc.Spec((4, 3)))
        def loss(weights, x):
            return net(weights, x).sum()

        @aotc.entry(x=aotc.Spec((4, 3)))
        def slope(weights, x):
            return aotc.grad(lambda w: net(w, x).sum())(weights)
        """
    )
    assert {entry.name for entry in program.entries} == {"net", "loss", "slope"}
    assert list(program.parameters) == ["weights.w"]


def test_ops_carry_the_name_of_their_node(written):
    net = written('g (float[2] x) => (float[2] y) { ["layer/exp"] y = Exp(x) }')
    text = str(net.program().module.operation.get_asm(enable_debug_info=True))
    assert 'loc("layer/exp"' in text
    assert '"net.onnx":1' in text


# ---- subgraphs and functions --------------------------------------------------------


def test_a_branch_is_decided_when_the_model_runs(written):
    net = written(
        """
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <
                then_branch = t () => (float[2] p) { p = Exp(x) },
                else_branch = e () => (float[2] q) { q = Neg(x) }
            >
        }
        """
    )
    x = np.array([1, 2], np.float32)
    np.testing.assert_allclose(net(np.array(True), x), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(net(np.array(False), x), -x)
    assert "switch" in str(net.program().module)


def test_a_loop_carries_and_stacks(written):
    net = written(LOOP)
    x = np.array([1, 2], np.float32)
    found = net(x)
    np.testing.assert_allclose(found["y"], 8 * x)
    np.testing.assert_allclose(found["ys"], np.stack([2 * x, 4 * x, 8 * x]))
    assert sorted(types_of(net)) == ["f32[2]", "f32[3, 2]"]


def test_functions_of_the_model_are_expanded(written):
    header = '<ir_version: 9, opset_import: ["": 18, "own": 1]>'
    function = """
        <domain: "own", opset_import: ["": 18]>
        scaled <factor> (x) => (y) {
            f = Constant<value_float: float = @factor>()
            y = Mul(x, f)
        }
    """
    text = "g (float[2] x) => (float[2] y) { y = own.scaled<factor = 3.0>(x) }"
    written.file.write_bytes(
        parser.parse_model(header + text + function).SerializeToString()
    )
    x = np.array([1, 2], np.float32)
    np.testing.assert_allclose(from_onnx(written.file)(x), 3 * x)


def test_operators_that_onnx_defines_by_others_are_expanded(written):
    net = written(
        "g (float[4] x) => (uint8[4] y, float s, uint8 z) "
        "{ y, s, z = DynamicQuantizeLinear(x) }"
    )
    found = net(np.array([0, 2, -3, 1], np.float32))
    np.testing.assert_array_equal(found["y"], [153, 255, 0, 204])


def test_a_pad_with_a_number_that_the_model_computes(written):
    net = written(
        """
        g (float[n] x, float c) => (float[m] y) {
            sides = Constant<value_ints = [1, 2]>()
            y = Pad(x, sides, c)
        }
        """
    )
    assert types_of(net) == ["f32[n + 3]"]
    found = net(np.ones(2, np.float32), np.array(7, np.float32))
    np.testing.assert_array_equal(found, [7, 1, 1, 7, 7])
