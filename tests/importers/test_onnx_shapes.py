"""Symbolic sizes of ONNX files, and what they compute of shapes."""

import numpy as np
import pytest

from aotc import Dim, reference
from aotc.errors import InputError
from aotc.importers import load

onnx = pytest.importorskip("onnx")

from aotc.importers.onnx import from_onnx  # noqa: E402
from tests.importers.onnx_files import DENSE, TABLE, sizes_of, types_of  # noqa: E402

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


SIZE = """
    top (float[n, 4] x) => (float[n, 2] y, int64[n, 2] at) {{
        sizes = Shape(x)
        zero = Constant<value_ints = [0]>()  one = Constant<value_ints = [1]>()
        two = Constant<value_ints = [2]>()  half = Div(sizes, two)
        k = Slice(half, {from_}, {to})
        y, at = TopK(x, k)
    }}
"""


def test_a_size_among_symbolic_ones_is_a_number(written):
    """The shape of x has a symbol and a number; half of the number is taken."""
    net = written(SIZE.format(from_="one", to="two"))
    assert types_of(net) == ["f32[n, 2]", "i64[n, 2]"]


def test_a_symbolic_size_in_the_place_of_a_number_is_refused(written):
    net = written(SIZE.format(from_="zero", to="one"))
    with pytest.raises(InputError) as caught:
        net.program()
    assert caught.value.code == "symbolic-size"
