"""Reading and writing manifests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.artifacts import schema, strict_json
from aotc.artifacts.manifest import Guard, Manifest, Symbol
from aotc.artifacts.shapes import SizeExpression
from aotc.core import dtypes
from aotc.errors import VerificationError
from tests.refusals import refusal


def refused_manifest(data, code="manifest-invalid"):
    """The message of the error that reading a manifest ends in."""
    given = data if isinstance(data, bytes) else strict_json.dump(data)
    return refusal(VerificationError, code, Manifest.read, given).message


def test_round_trips_in_both_directions(manifest_data):
    manifest = Manifest(manifest_data)
    data = manifest.to_bytes()
    assert Manifest.read(data) == manifest
    assert Manifest.read(data).to_bytes() == data
    assert len(manifest.identity) == 64


def test_gives_typed_views(manifest_data):
    manifest = Manifest(manifest_data)
    assert manifest.symbols == {"batch": Symbol(1, None, 1)}
    assert str(manifest.entry_points["predict"].inputs[0]) == "f32[batch, 4]"
    assert manifest.variants["b"].backend == "llvm-cpu"
    assert manifest.files["weights.irpa"].size == 1
    assert manifest.states["state"].tree == {"dict": {"a": 0}}
    assert manifest.weights[0].required_by == ()


def test_keeps_fields_that_it_does_not_know(manifest_data):
    manifest_data["x-new"] = {"deep": [1, 2.5, None]}
    manifest_data["variants"][0]["statistics"] = {"dispatches": 3}
    again = Manifest.read(Manifest(manifest_data).to_bytes())
    assert again.data["x-new"] == {"deep": [1, 2.5, None]}


def test_refuses_manifest_of_unknown_version(manifest_data):
    message = refused_manifest(
        manifest_data | {"schema": "aotc.manifest/2"}, "manifest-version"
    )
    assert "aotc.manifest/1" in message
    assert "aotc.manifest/2" in message


def test_refuses_unknown_required_features(manifest_data):
    changed = manifest_data | {"requires_features": ["time-travel"]}
    assert "time-travel" in refused_manifest(changed, "manifest-feature")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "'a' twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": 123456789012345678901234567890}', "2**53"),
        (b"[" * 5000 + b"]" * 5000, "nested"),
        (b"[" * 70 + b"]" * 70, "nested"),
        (b" " * ((4 << 20) + 1), "bytes"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"\xef\xbb\xbf{}", "JSON"),
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[]", "schema"),
        (b"null", "schema"),
    ],
)
def test_refuses_doubtful_json(text, words):
    assert words in refused_manifest(text)


def test_refuses_a_second_spelling(manifest_data):
    data = Manifest(manifest_data).to_bytes()
    assert "canonical" in refused_manifest(data + b"\n")
    assert "canonical" in refused_manifest(json.dumps(manifest_data).encode())


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["name"], "../x", "$.name"),
        (["name"], 3, "$.name"),
        (["channel"], "beta", "development, release, unsigned"),
        (["toolchain", "iree_compiler", "version"], "", "not empty"),
        (["variants"], [], "$.variants"),
        (["variants", 0, "file"], "variants/none.vmfb", "$.variants[0].file"),
        (["variants", 1, "id"], "a", "each id once"),
        (["files", 0, "path"], "../x", "$.files[0].path"),
        (["files", 0, "path"], "a/../../x", "$.files[0].path"),
        (["files", 0, "path"], "/x", "$.files[0].path"),
        (["files", 0, "path"], "a\\x", "$.files[0].path"),
        (["files", 0, "path"], "c:x", "$.files[0].path"),
        (["files", 0, "path"], ".git/x", "$.files[0].path"),
        (["files", 0, "path"], "NOTES.txt", "each path once"),
        (["files", 3, "path"], "manifest.json", "manifest"),
        (["files", 0, "size"], -1, "$.files[0].size"),
        (["files", 0, "size"], True, "$.files[0].size"),
        (["files", 0, "sha256"], "00", "SHA-256"),
        (["symbols", "batch", "multiple_of"], 0, "at least 1"),
        (["entry_points", 0, "inputs", 0, "dtype"], "f31", "bf16"),
        (["entry_points", 0, "inputs", 0, "shape"], ["seq"], "batch"),
        (["entry_points", 0, "inputs", 0, "shape"], ["batch//2"], "decide each symbol"),
        (["entry_points", 0, "inputs", 0, "shape"], [-1], "at least 0"),
        (["entry_points", 0, "outputs", 0, "shape"], ["f(1)"], "not allowed"),
        (["entry_points", 0, "outputs", 0, "shape"], ["1 +"], "dimension"),
        (["entry_points", 0, "arguments"], {"dict": {}}, "exactly once"),
        (["entry_points", 0, "arguments"], {"list": [0]}, "$.entry_points[0]"),
        (["entry_points", 0, "result"], 1, "below 1"),
        (["entry_points", 0, "result"], {"set": [0]}, "dict"),
        (["entry_points", 0, "result"], True, "leaf index"),
        (["entry_points", 0, "updates"], ["other"], "state"),
        (["states", 0, "tree"], {"list": [0, 0]}, "exactly once"),
        (["states", 0, "leaves", 0, "shape"], ["batch"], "static"),
        (["weights", 0, "required_by"], ["z"], "one of a, b"),
    ],
)
def test_says_where_a_manifest_is_wrong(manifest_data, path, value, words):
    *way, last = path
    place = manifest_data
    for key in way:
        place = place[key]
    place[last] = value
    assert words in refused_manifest(manifest_data)


def test_says_which_field_is_missing(manifest_data):
    del manifest_data["variants"][1]["backend"]
    assert "$.variants[1].backend" in refused_manifest(manifest_data)


def test_knows_the_dtypes_of_aotc():
    assert set(schema.DTYPES) == set(dtypes.NAMES)


@given(st.integers(0, 99), st.integers(1, 99))
def test_computes_dimensions(n, m):
    dim = SizeExpression.parse("(2*n + 1) // m - -3 % m")
    assert dim.symbols == {"n", "m"}
    assert dim.value({"n": n, "m": m}) == (2 * n + 1) // m - -3 % m


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_round_trips(value):
    assert strict_json.parse(strict_json.dump(value)) == value


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_fail(data):
    with pytest.raises(VerificationError):
        Manifest.read(data)


def test_guards_are_conditions_on_known_symbols(manifest_data):
    guard = {"condition": "batch % 4 == 0 and batch != 8", "message": "it says so"}
    manifest_data["entry_points"][0]["guards"] = [guard]
    manifest_data["requires_features"] = ["guards"]
    entry = Manifest.read(Manifest(manifest_data).to_bytes()).entry_points["predict"]
    assert entry.guards == (Guard(guard["condition"], "it says so", ""),)
    for text in ("batch", "batch == open('x')", "n > 1", "batch ** 2 > 1", "(" * 3000):
        guard["condition"] = text
        refused_manifest(manifest_data, "manifest-invalid")


@pytest.mark.parametrize("extra", [{}, {"graph_breaks": 0}])
def test_reads_coverage_with_and_without_graph_breaks(manifest_data, extra):
    counts = {"ops": 1, "captured": 1, "folded": 0, "graph_ops": 2}
    manifest_data["source"] = {"coverage": counts | extra}
    assert Manifest(manifest_data).data["source"]["coverage"] == counts | extra
