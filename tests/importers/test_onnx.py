"""ONNX files as models: values, sizes, subgraphs, functions, data, and refusals."""

import contextlib
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc import Dim, reference
from aotc.dialects import context
from aotc.dialects.symbols import known_contracts
from aotc.errors import InputError
from aotc.importers import load
from aotc.pytree import flatten, tree_map

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper, parser  # noqa: E402

from aotc.importers.onnx import from_onnx  # noqa: E402
from aotc.importers.onnx.network import network_of  # noqa: E402
from aotc.importers.onnx.reading import model_of  # noqa: E402
from aotc.importers.onnx.tensors import Files  # noqa: E402


class Written:
    """Models in ONNX's text form, as files of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "net.onnx"

    def __call__(self, text, opset=18, **tensors):
        """The network of a graph in text form, with initialisers."""
        self.file.write_bytes(self.proto(text, opset, **tensors).SerializeToString())
        return from_onnx(self.file)

    def proto(self, text, opset=18, **tensors):
        """The message."""
        domains = f'"": {opset}, "own": 1, "ai.onnx.ml": 3, "com.microsoft": 1'
        header = f"<ir_version: 9, opset_import: [{domains}]>"
        proto = parser.parse_model(header + text)
        for name, array in tensors.items():
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
        return proto

    def refused(self, text, opset=18, **tensors):
        """The error that a graph is refused with."""
        with pytest.raises(InputError) as caught:
            self(text, opset, **tensors)
        return caught.value


@pytest.fixture
def written(tmp_path):
    """Models of this test."""
    return Written(tmp_path)


def types_of(network):
    """The graph's result types as text, after tracing."""
    (entry,) = network.program().entries
    with context(), known_contracts(entry.symbols):
        return [str(port.type) for port in entry.results]


def sizes_of(network):
    """The names of the sizes that only a call decides."""
    (entry,) = network.program().entries
    return [contract.name for contract in entry.symbols]


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

DENSE = """
    dense (float[batch, 3] x) => (float[batch, 2] y) { y = MatMul(x, w) }
"""


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


# ---- symbolic sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["y out"], ["output"]),
        (["y"], ["output"]),
        (["y out", "y_out"], ["y_out_2", "y_out"]),
        (["y/out", "y:out", "y_out_2"], ["y_out", "y_out_3", "y_out_2"]),
        (["1y", "class", "a.b", "output"], ["_1y", "class", "a_b", "output"]),
    ],
)
def test_results_have_their_names_as_far_as_these_are_pythons(tmp_path, names, found):
    """And no two of them have one."""
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])
        for name in ("x in", *names)
    ]
    nodes = [
        onnx.helper.make_node(op, ["x in"], [name])
        for op, name in zip(("Exp", "Neg", "Abs", "Sin"), names, strict=False)
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    program = load(tmp_path / "net.onnx")
    (entry,) = program.entries
    assert [port.name for port in entry.ports("input")] == ["x_in"]
    x = np.array([-1, 2], "f4")
    results = [np.exp(x), -x, np.abs(x), np.sin(x)]
    expected = dict(zip(found, results, strict=False))
    arrays = reference.evaluate(program.module, "main", [x])
    for port, array in zip(entry.ports("output"), arrays, strict=True):
        np.testing.assert_allclose(array, expected[port.name], rtol=1e-6)


def test_named_sizes_become_dims_and_shape_arithmetic_folds(written):
    net = written(
        """
        g (float[batch, length, 12] x) => (float[batch, length, 3, 4] y) {
            shape = Shape(x)
            at = Constant<value_ints = [0, 1]>()
            front = Gather(shape, at)
            heads = Constant<value_ints = [3, -1]>()
            wanted = Concat<axis = 0>(front, heads)
            y = Reshape(x, wanted)
        }
        """
    )
    assert sizes_of(net) == ["batch", "length"]
    assert types_of(net) == ["f32[batch, length, 3, 4]"]
    assert "dimension" not in str(net.program().module)


def test_shape_arithmetic_of_old_versions_folds(written):
    net = written(
        """
        g (float[batch, length, 12] x) => (float[length, batch, 12] y) {
            shape = Shape(x)
            front = Slice<starts = [0], ends = [1], axes = [0]>(shape)
            one = Squeeze<axes = [0]>(front)
            batch = Unsqueeze<axes = [0]>(one)
            rest = Constant<value = int64[2] {-1, 12}>()
            wanted = Concat<axis = 0>(batch, rest)
            z = Reshape(x, wanted)
            y = Transpose<perm = [1, 0, 2]>(z)
        }
        """,
        9,
    )
    assert types_of(net) == ["f32[length, batch, 12]"]


def test_sizes_are_compared_and_chosen_by_what_is_promised(written):
    net = written(
        """
        g (float[n, 1] x, float[1, m] y) => (float[n, m] z) {
            a = Shape(x)
            b = Shape(y)
            both = Max(a, b)
            minus = Constant<value_ints = [-1, -1]>()
            ones = Constant<value_ints = [1, 1]>()
            hit = Equal(both, minus)
            wanted = Where(hit, ones, both)
            z = Expand(x, wanted)
        }
        """
    )
    assert types_of(net) == ["f32[n, m]"]


def test_fractions_beside_sizes_are_kept_and_rounded(written):
    net = written(
        """
        g (float[n] x) => (float[3] below, float[3] kept, int64[3] least) {
            size = Shape(x)
            count = Cast<to = 1>(size)
            fractions = Constant<value_floats = [-2.5, 2.5]>()
            kept = Concat<axis = 0>(count, fractions)
            below = Floor(kept)
            above = Ceil(kept)
            four = Constant<value_floats = [4.0]>()
            capped = Min(above, four)
            least = Cast<to = 7>(capped)
        }
        """
    )
    x = np.zeros(5, "f4")
    results = reference.evaluate(net.program().module, "main", [x])
    assert [np.asarray(x).tolist() for x in results] == [
        [5.0, -3.0, 2.0],
        [5.0, -2.5, 2.5],
        [4, -2, 3],
    ]


def test_sums_of_sizes_are_read(written):
    net = written(
        """
        g (float[past, 2] a, float[new, 2] b, float["past + new"] mask)
            => (float["past + new", 2] y) {
            whole = Concat<axis = 0>(a, b)
            axis = Constant<value_ints = [1]>()
            column = Unsqueeze(mask, axis)
            y = Mul(whole, column)
        }
        """
    )
    assert types_of(net) == ["f32[past + new, 2]"]


def test_sizes_can_be_fixed_or_promised(written):
    written(DENSE, w=np.ones((3, 2), np.float32))
    fixed = from_onnx(written.file, {"batch": 4})
    assert types_of(fixed) == ["f32[4, 2]"]
    promised = from_onnx(written.file, {"batch": Dim("batch", max=8)})
    (contract,) = promised.program().entries[0].symbols
    assert contract.max == 8
    with pytest.raises(InputError, match="no input of 'net.onnx' has a size 'other'"):
        from_onnx(written.file, {"other": 4})


TABLE = """
    g (float[n, length, 2] x) => (float[n, length, 2] y) {
        shape = Shape(x)
        at = Constant<value_ints = [1]>()
        length = Gather(shape, at)
        zero = Constant<value_ints = [0]>()
        positions = Slice(table, zero, length, zero)
        y = Add(x, positions)
    }
"""


def test_a_stored_table_limits_the_size_that_reads_it(written):
    net = written(TABLE, table=np.ones((8, 2), np.float32))
    assert {c.name: c.max for c in net.program().entries[0].symbols} == {
        "n": None,
        "length": 8,
    }
    assert types_of(net) == ["f32[n, length, 2]"]


def test_a_given_dim_is_not_limited(written):
    written(TABLE, table=np.ones((8, 2), np.float32))
    net = from_onnx(written.file, {"length": Dim("length", max=9)})
    with pytest.raises(InputError, match=r"min\(length, 8\)"):
        net.program()


def test_a_size_that_only_values_decide_is_refused_at_its_node(written):
    net = written(
        'g (float[6] x, int64[2] s) => (float[a, b] y) { ["r"] y = Reshape(x, s) }'
    )
    with pytest.raises(InputError, match="'sizes' of Reshape to be known") as caught:
        net.program()
    assert caught.value.code == "unknown-value"
    assert caught.value.where == "net.onnx:1 (r)"


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


LOOP = """
    g (float[2] x) => (float[2] y, float[3, 2] ys) {
        steps = Constant<value_int = 3>()
        on = Constant<value = bool {1}>()
        y, ys = Loop(steps, on, x) <
            body = b (int64 i, bool c, float[2] a) => (bool d, float[2] n, float[2] s) {
                d = Identity(c)
                two = Constant<value_float = 2.0>()
                n = Mul(a, two)
                s = Identity(n)
            }
        >
    }
"""


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


# ---- data ---------------------------------------------------------------------------


def external(written, location, **facts):
    """The dense model with its weight in another file."""
    proto = written.proto(DENSE, w=np.ones((3, 2), np.float32))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **facts}.items():
        tensor.external_data.add(key=key, value=str(value))
    written.file.write_bytes(proto.SerializeToString())
    return written.file


def test_external_data_is_read_from_beside_the_model(written):
    data = np.arange(8, dtype=np.float32)
    (written.folder / "data").mkdir()
    (written.folder / "data" / "w.bin").write_bytes(data.tobytes())
    net = from_onnx(external(written, "data/w.bin", offset=8, length=24))
    np.testing.assert_array_equal(net.weights.arrays[0], data[2:].reshape(3, 2))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w.bin", ""])
def test_external_data_stays_in_the_models_folder(written, location):
    (written.folder.parent / "w.bin").write_bytes(bytes(24))
    with pytest.raises(InputError) as caught:
        from_onnx(external(written, location))
    assert caught.value.code == "unsafe-path"
    assert "(w)" in caught.value.where


def test_links_do_not_lead_out_of_the_models_folder(written):
    outside = written.folder.parent / "outside.bin"
    outside.write_bytes(bytes(24))
    (written.folder / "w.bin").symlink_to(outside)
    with pytest.raises(InputError) as caught:
        from_onnx(external(written, "w.bin"))
    assert caught.value.code == "unsafe-path"


def test_missing_and_short_data_is_named(written):
    with pytest.raises(InputError, match=r"'w.bin' with the tensor's data") as caught:
        from_onnx(external(written, "w.bin"))
    assert caught.value.code == "missing-data"
    for location in ("w\0.bin", "w" * 5000, "."):
        with pytest.raises(InputError) as caught:
            from_onnx(external(written, location))
        assert "(w)" in caught.value.where
    (written.folder / "w.bin").write_bytes(bytes(20))
    with pytest.raises(InputError, match="expected 24 bytes") as caught:
        from_onnx(external(written, "w.bin"))
    with pytest.raises(InputError, match="it has 20") as caught:
        from_onnx(external(written, "w.bin", length=24))
    assert caught.value.code == "truncated-data"


# ---- what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("part", [1, 5, 40, 200, 5000])
def test_damaged_files_are_refused(written, part):
    w = np.ones((2000, 3), np.float32)
    written("g (float[n, 2000] x) => (float[n, 3] y) { y = MatMul(x, w) }", w=w)
    whole = written.file.read_bytes()
    written.file.write_bytes(whole[:part])
    with pytest.raises(InputError) as caught:
        from_onnx(written.file)
    assert caught.value.code == "bad-file"
    assert caught.value.where == "net.onnx"


@pytest.mark.parametrize("content", [b"", b"hello world, this is text", bytes(64)])
def test_what_is_no_model_is_refused(written, content):
    written.file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        from_onnx(written.file)
    assert caught.value.code == "bad-file"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        from_onnx(tmp_path / "other.onnx")


@pytest.mark.parametrize("opset", [1, 6, 99])
def test_versions_that_aotc_does_not_know_are_refused(written, opset):
    error = written.refused(DENSE, opset, w=np.ones((3, 2), np.float32))
    assert error.code == "wrong-opset"
    assert str(opset) in error.message


def test_everything_that_is_not_supported_is_listed_at_once(written):
    error = written.refused(
        """
        g (float[2] x) => (float[2] y) {
            ["first"] a = own.Foo(x)
            ["second"] b = own.Foo(a)
            ["third"] c = Exp<speed = 3>(b)
            y = SequenceAt(c, c)
        }
        """
    )
    assert error.code == "unsupported-ops"
    for part in ("own.Foo (2×)", "net.onnx:1 (first)", "'speed'", "no sequences"):
        assert part in error.message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "unsupported-type"),
        ("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }",
         "unsupported-type"),
        ("g (float x) => (float y) { y = Exp(z) }", "bad-graph"),
        ("g (float[2] x) => (float[2] y) { y = Add(x) }", "unsupported-ops"),
        ("g (float[2] x) => (float[2] y) { y = Exp(x, x) }", "unsupported-ops"),
    ],
)  # fmt: skip
def test_bad_graphs_are_refused(written, text, code):
    with pytest.raises(InputError) as caught:
        written(text).program()
    assert caught.value.code == code


def test_an_input_of_unknown_rank_is_refused(written):
    proto = written.proto(DENSE, w=np.ones((3, 2), np.float32))
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    written.file.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="how many axes the input 'x' has") as caught:
        from_onnx(written.file)
    assert caught.value.code == "dynamic-rank"


@pytest.mark.parametrize(
    "node",
    [
        "y = Transpose<perm = [0, 7]>(x)",
        "y = Transpose<perm = 1.5>(x)",
        "y = ReduceSum<keepdims = [1]>(x, x)",
        "y = MaxPool<kernel_shape = [2], pads = [1]>(x)",
        "y = Softmax<axis = 9>(x)",
        'y = Cast<to = "float">(x)',
        "y = Concat<axis = 99999999999>(x, x)",
    ],
)
def test_nodes_that_make_no_sense_are_named(written, node):
    net = written(f'g (float[2, 3] x) => (float[a, b] y) {{ ["bad"] {node} }}')
    with pytest.raises(InputError) as caught:
        net.program()
    assert caught.value.where == "net.onnx:1 (bad)"


MODELS = [
    (DENSE, {"w": np.ones((3, 2), np.float32)}),
    (TABLE, {"table": np.ones((8, 2), np.float32)}),
    (LOOP, {}),
    ("""
     g (float[1, 2, 5, 5] x) => (float[1, 12] y) {
         a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w)
         b = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 0>(a)
         c = Flatten<axis = 1>(b)
         y = Softmax<axis = -1>(c)
     }
     """, {"w": np.ones((3, 2, 3, 3), np.float32)}),
]  # fmt: skip


@settings(max_examples=400, deadline=None, database=None)
@given(
    model=st.sampled_from(MODELS),
    edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    cut=st.none() | st.integers(0, 1 << 16),
)
def test_damage_gives_one_clear_error_or_none(tmp_path_factory, model, edits, cut):
    written = Written(tmp_path_factory.getbasetemp())
    text, tensors = model
    data = bytearray(written.proto(text, **tensors).SerializeToString())
    for place, byte in edits:
        data[place % len(data)] = byte
    written.file.write_bytes(data if cut is None else data[: cut % len(data)])
    with contextlib.suppress(InputError):
        from_onnx(written.file).program()


# ---- types --------------------------------------------------------------------------


def test_small_types_keep_their_values(written):
    for kind in ("INT4", "UINT4", "FLOAT8E4M3FN", "BFLOAT16"):
        code = getattr(onnx.TensorProto, kind)
        values = [0, 1, 2, 3, 7, 5]
        tensor = onnx.helper.make_tensor("w", code, (2, 3), values)
        proto = written.proto(
            "g (float[2, 3] x) => (float[2, 3] y) "
            "{ c = Cast<to = 1>(w) y = Add(x, c) }",
            21,
        )
        proto.graph.initializer.append(tensor)
        written.file.write_bytes(proto.SerializeToString())
        net = from_onnx(written.file)
        stored = [] if net.weights is None else [net.weights.tree]
        found = np.asarray(net(*stored, np.zeros((2, 3), np.float32)))
        np.testing.assert_array_equal(found.reshape(-1), values, kind)


QUANTISED = {
    "QDQ": """
        q (float[n, 2, 5, 5] x) => (float[n, 3] y) {
            xq = QuantizeLinear(x, s, z)
            xd = DequantizeLinear(xq, s, z)
            wd = DequantizeLinear<axis = 0>(w, ws, wz)
            a = Conv<pads = [1, 1, 1, 1]>(xd, wd)
            b = Relu(a)
            c = GlobalAveragePool(b)
            y = Flatten<axis = 1>(c)
        }
    """,
    "QOperator": """
        q (float[n, 2, 5, 5] x) => (float[n, 3, 5, 5] y) {
            xq = QuantizeLinear(x, s, z)
            a = QLinearConv<pads = [1, 1, 1, 1]>(xq, s, z, w, ws, wz, s2, z)
            y = DequantizeLinear(a, s2, z)
        }
    """,
    "dynamic": """
        q (float[n, 2, 5, 5] x) => (float[n, 3, 5, 5] y) {
            xq, xs, xz = DynamicQuantizeLinear(x)
            a = ConvInteger<pads = [1, 1, 1, 1]>(xq, w, xz, wz0)
            b = Cast<to = 1>(a)
            y = Mul(b, xs)
        }
    """,
}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("MaxPool(x)", "lacks the attribute 'kernel_shape'"),
        ("Conv<ceil_mode = 1>(x, x)", "attribute 'ceil_mode' is not supported"),
        ('RNN<direction = "sideways">(x, x, x)', "got 'sideways'"),
    ],
)
def test_attributes_that_an_operator_lacks_or_does_not_have_are_told(
    written, node, reason
):
    with pytest.raises(InputError, match=reason):
        written(f"g (float[1, 1, 1] x) => (float[1, 1, 1] y) {{ y = {node} }}")(
            np.zeros((1, 1, 1), "f4")
        )


def test_sums_of_small_integers_are_exact_beyond_the_digits_of_floats(written):
    net = written(
        """g (uint8[1, 300, 1, 1] x, uint8[1, 300, 1, 1] w) => (int32[1, 1, 1, 1] y) {
            y = ConvInteger(x, w)
        }"""
    )
    x = np.full((1, 300, 1, 1), 255, "u1")
    w = x.copy()
    w[0, -1] = 254
    found = np.asarray(net(x, w)).reshape(-1).tolist()
    assert found == [299 * 255 * 255 + 255 * 254]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_an_even_number_of_channels_nearby_has_more_behind(written, size):
    net = written(
        f"net (float[1, 5, 1, 2] x) => (float[1, 5, 1, 2] y) "
        f"{{ y = LRN<size = {size}, alpha = 0.5>(x) }}"
    )
    x = np.arange(10, dtype="f4").reshape(1, 5, 1, 2)
    before, behind = (size - 1) // 2, size - 1 - (size - 1) // 2
    near = [x[:, max(c - before, 0) : c + behind + 1] for c in range(5)]
    squares = np.stack([(each**2).sum(1) for each in near], 1)
    np.testing.assert_allclose(net(x), x / (1 + 0.5 / size * squares) ** 0.75, 1e-5)


def test_norms_of_halves_are_squared_and_summed_where_they_do_not_overflow(written):
    net = written(
        """g (float16[4] x)
            => (float16[1] a, float16[4] b, float16[4] c, float16[1] d) {
            a = ReduceL2(x)
            b = LpNormalization(x)
            c = LpNormalization <p = 1> (x)
            d = ReduceLogSum(x)
        }"""
    )
    x = np.full(4, 30000, "f2")
    want = (60000, 0.5, 0.25, np.log(120000))
    for got, exact in zip(net(x).values(), want, strict=True):
        assert got.dtype == "f16"
        np.testing.assert_allclose(np.asarray(got).astype("f8"), exact, 1e-3)


@pytest.mark.parametrize(
    ("attributes", "ways", "reason"),
    [
        ('direction="bidirectional", activations=["Tanh"]', 2, "expected 2 activ.*1:"),
        ('activations=["Relu", "Tanh"]', 1, "expected 1 activations.*got 2: .'Relu'"),
        ("clip=0.0", 1, "expected a clip above 0; got 0"),
        ("layout=0", 2, "of 1 direction.*'forward' has; got f32.2, 3, 1"),
        ('direction="bidirectional"', 1, "of 2 direction.*got f32.1, 3, 1"),
    ],
)
def test_recurrent_nodes_fit_the_directions_that_they_name(
    written, attributes, ways, reason
):
    kernel, recurrent = np.ones((ways, 3, 1), "f4"), np.ones((ways, 3, 3), "f4")
    text = f"""g (float[2, 1, 1] x) => (float[2, d, 1, 3] y) {{
        y = RNN<hidden_size=3, {attributes}>(x, w, r)
    }}"""
    with pytest.raises(InputError, match=reason) as failed:
        written(text, w=kernel, r=recurrent).program()
    assert failed.value.code == "bad-node"


@pytest.mark.parametrize("kind", QUANTISED)
def test_quantised_models_compute_what_onnx_says(written, kind):
    reference = pytest.importorskip("onnx.reference")
    rng = np.random.default_rng(0)
    net = written(
        QUANTISED[kind],
        21,
        w=rng.integers(-128, 127, (3, 2, 3, 3), np.int8),
        ws=np.array([0.02, 0.05, 0.01], np.float32),
        wz=np.zeros(3, np.int8),
        wz0=np.array(0, np.int8),
        s=np.array(0.03, np.float32),
        s2=np.array(0.4, np.float32),
        z=np.array(120, np.uint8),
    )
    x = rng.normal(size=(4, 2, 5, 5)).astype(np.float32)
    (want,) = reference.ReferenceEvaluator(str(written.file)).run(None, {"x": x})
    stored = [] if net.weights is None else [net.weights.tree]
    np.testing.assert_allclose(net(*stored, x), want, 1e-5, 1e-5)
    assert sizes_of(net) == ["n"]


def test_onnx_own_tests_of_the_commonest_operators_pass():
    """A few of each; `benchmarks/frontends/onnx_nodes.py` runs them all."""
    cases = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case.name: case for case in cases.collect_testcases(None)}
    for name in _CASES:
        case = found[name]
        inputs, outputs = case.data_sets[0]
        net = network_of(model_of(case.model, name, Files(None, b"")), {})
        results = net(*inputs)
        results = list(results.values()) if isinstance(results, dict) else [results]
        for got, want in zip(results, outputs, strict=True):
            np.testing.assert_allclose(got, want, case.rtol, case.atol, err_msg=name)


_CASES = [
    "test_averagepool_2d_ceil",
    "test_basic_conv_with_padding",
    "test_batchnorm_example",
    "test_clip",
    "test_concat_3d_axis_negative_2",
    "test_convtranspose_autopad_same",
    "test_cumsum_1d_reverse_exclusive",
    "test_div_int32_trunc",
    "test_expand_dim_changed",
    "test_gather_elements_negative_indices",
    "test_gathernd_example_int32_batch_dim1",
    "test_gemm_all_attributes",
    "test_gru_with_initial_bias",
    "test_layer_normalization_default_axis",
    "test_lstm_with_peepholes",
    "test_maxpool_2d_dilations",
    "test_qlinearconv",
    "test_quantizelinear_blocked_asymmetric",
    "test_reduce_max_keepdims_random",
    "test_resize_upsample_sizes_nearest_ceil_half_pixel",
    "test_scatter_elements_with_reduction_max",
    "test_slice_negative_axes",
    "test_softmax_axis_0",
    "test_split_variable_parts_2d_opset18",
    "test_top_k_smallest",
    "test_where_long_example",
]


def test_running_statistics_are_buffers(written):
    net = written(
        """
        net (float[2, 3] x) => (float[2, 3] z) {
            y = BatchNormalization(x, scale, shift, mean, variance)
            z = Mul(y, gain)
        }
        """,
        **{name: np.ones(3, "f4") for name in ("scale", "shift", "mean", "variance")},
        gain=np.ones(3, "f4"),
    )
    assert set(net.buffers) == {"mean", "variance"}
    assert set(net.params) == {"scale", "shift", "gain"}
