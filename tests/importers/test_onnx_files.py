"""Data beside ONNX files, and files that are refused."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.errors import InputError

onnx = pytest.importorskip("onnx")

from aotc.importers.onnx import from_onnx  # noqa: E402
from tests.importers.onnx_files import DENSE, LOOP, TABLE, Written  # noqa: E402

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
