"""What nobody has vouched for: refused, with a stable code, and in little time."""

import base64
import json
import random
import time
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc.artifacts import selection, sign, strict_json
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.pack import read_bundle
from aotc.artifacts.shapes import SizeExpression
from aotc.errors import AotcError, VerificationError
from aotc.runtime.arguments import flattener
from aotc.runtime.contract import CallContract

HOST = Host(
    arch="x86_64",
    cpu_features=frozenset(),
    runtime_version="3.13.0",
    drivers=frozenset({"local-sync", "cuda", "vulkan"}),
    sm="sm_80",
    cuda_driver_api=12040,
    vulkan_api="1.3.280",
)
SECONDS = 10.0  # a limit for what takes under one, and took minutes


def code_of(call, *args, **kwargs):
    with pytest.raises(VerificationError) as caught:
        call(*args, **kwargs)
    assert len(str(caught.value)) < 2000
    return caught.value.code


def object_of(pairs):
    return b"{" + b",".join(b'"%s":0' % key for key in pairs) + b"}"


NAMES = [b"%d" % number for number in range(380_000)]


@pytest.mark.parametrize(
    "text",
    [
        object_of([*NAMES, NAMES[-1]]),
        object_of(NAMES),
        b"[" * (4 << 20),
        b"[" + b"[]," * 1_000_000 + b"0]",
        b'{"a":' * 60 + b"[" + b"0," * 1_000_000 + b"0]" + b"}" * 60,
        b'"' + b"\\u0000" * 600_000 + b'"',
        b"[" + b"1e308," * 500_000 + b"0]",
        b"1" * (4 << 20),
    ],
    ids=["double", "keys", "open", "lists", "deep", "escapes", "floats", "digits"],
)
def test_refuses_a_large_signature_in_linear_time(bundle, trust, text):
    (bundle / "signature.json").write_bytes(text)
    start = time.process_time()
    assert code_of(read_bundle, bundle, trust) == "signature-malformed"
    assert time.process_time() - start < SECONDS


def test_refuses_a_long_hint_without_repeating_it(signer, trust):
    bundle = json.loads(sign.sign("x", {"a": "00" * 32}, signer))
    bundle["verificationMaterial"]["publicKey"]["hint"] = "f" * 1_000_000
    data = strict_json.dump(bundle)
    assert code_of(sign.verify, data, trust.keys) == "signature-malformed"


def test_refuses_a_directory_with_endless_names(bundle, trust, monkeypatch):
    from aotc.artifacts import files

    monkeypatch.setattr(files, "_COUNT_LIMIT", 50)
    for number in range(51):
        (bundle / f"{number}").mkdir()
    assert code_of(read_bundle, bundle, trust) == "file-irregular"


def many_symbols(data, count):
    """Sizes that say one symbol after the other, the last one first."""
    entry, names = data["entry_points"][0], [f"s{number}" for number in range(count)]
    chain = [f"{a} + {b}" for a, b in zip(names, names[1:], strict=False)]
    data["symbols"] |= {name: {"min": 1} for name in names}
    entry["inputs"][0]["shape"] = ["batch", *reversed(chain), names[0]]
    data["entry_points"] += [entry | {"name": f"e{n}"} for n in range(4)]
    return data


def test_checks_symbols_in_linear_time(manifest_data):
    data = many_symbols(manifest_data, 10_000)
    start = time.process_time()
    manifest = Manifest(data)
    leaves = manifest.entry_points["e0"].inputs
    CallContract("e0", leaves, manifest.symbols)
    assert time.process_time() - start < SECONDS


def test_refuses_a_tree_with_long_names_in_linear_time(manifest_data):
    tree = {"list": [0] * 300_000 + ["wrong"]}
    for _ in range(10):
        tree = {"dict": {"n" * 100_000: tree}}
    manifest_data["entry_points"][0]["result"] = tree
    start = time.process_time()
    assert code_of(Manifest, manifest_data) == "manifest-invalid"
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["requires_features"], [[]]),
        (["requires_features"], [{}]),
        (["requires_features"], None),
        (["schema"], {"aotc.manifest/1": 1}),
        (["entry_points", 0, "inputs", 0, "shape"], ["1//0+batch", 4]),
        (["entry_points", 0, "inputs", 0, "shape"], ["batch % (2-2)", "batch"]),
        (["entry_points", 0, "outputs", 0, "shape"], ["1//0 + f(3)", 3]),
        (["entry_points", 0, "outputs", 0, "shape"], ["(" * 150 + ")" * 150]),
        (["entry_points", 0, "outputs", 0, "shape"], ["batch.real"]),
        (["entry_points", 0, "outputs", 0, "shape"], ["min"]),
        (["variants", 0, "target", "sm"], "sm_" + "9" * 5000),
        (["variants", 0, "target", "min_vulkan_api"], "1." + "9" * 5000),
    ],
)
def test_refuses_odd_values(manifest_data, path, value):
    *way, last = path
    place = manifest_data
    for key in way:
        place = place[key]
    place[last] = value
    assert code_of(Manifest, manifest_data).startswith("manifest-")


def test_a_size_that_divides_by_zero_is_a_shape_error(manifest_data):
    manifest_data["symbols"]["k"] = {"min": 0}
    shape = ["batch", "k", "batch // (k - 1)"]
    manifest_data["entry_points"][0]["inputs"][0]["shape"] = shape
    manifest = Manifest(manifest_data)
    contract = CallContract(
        "e", manifest.entry_points["predict"].inputs, manifest.symbols
    )
    with pytest.raises(AotcError, match="divides by zero"):
        contract.arrays([np.zeros((2, 1, 2), np.float32)])


def places(value, path=()):
    """The path of every part of a JSON value."""
    yield path
    children = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from places(child, (*path, key))


ODD = [
    None, True, False, 0, 1, -1, 2**53, -(2**53), 0.5, 1e308, "", "a", "1//0+batch",
    "batch//0", "batch*batch", "-batch", "\x00", "é", "٣", "../x", "x" * 300, [], [[]],
    {}, {"": {}}, [None], {"dict": {}}, {"list": [0]}, {"tuple": None}, ["batch"],
]  # fmt: skip


def use(manifest):
    """All that the loader does with a manifest before it has the files."""
    for entry in manifest.entry_points.values():
        flattener(entry.name, entry.arguments)
        CallContract(entry.name, entry.inputs, manifest.symbols)
    selection.select(manifest, HOST)
    assert manifest.states is not None
    assert manifest.weights is not None
    assert manifest.files
    assert manifest.name
    assert manifest.version
    assert manifest.compiler_version


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_no_mutation_of_a_manifest_does_more_than_be_refused(manifest_data, data):
    changed = deepcopy(manifest_data)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in places(changed) if p]))
        *way, last = path
        place = changed
        for key in way:
            place = place[key]
        action = data.draw(st.sampled_from(["set", "drop", "copy"]))
        if action == "drop":
            del place[last]
        elif action == "copy" and isinstance(place, list):
            place.append(deepcopy(place[last]))
        else:
            place[last] = deepcopy(data.draw(st.sampled_from(ODD)))
    try:
        use(Manifest.read(strict_json.dump(changed)))
    except AotcError as error:
        refused = error
    else:
        return
    assert refused.code
    assert len(str(refused)) < 3000


def test_no_random_bytes_in_a_signature_do_more_than_be_refused(signer, trust):
    good = sign.sign("x", {"a": "00" * 32}, signer)
    chance = random.Random(0)
    for _ in range(500):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 5)] = chance.randbytes(
                chance.randint(0, 5)
            )
        if bytes(data) != good:
            code_of(sign.verify, bytes(data), trust.keys)


def test_dimensions_of_any_text_are_read_or_refused():
    chance = random.Random(1)
    parts = ["n", "m", "1", "0", "+", "-", "*", "//", "%", "(", ")", "min(", ",", " "]
    for _ in range(3000):
        text = "".join(chance.choices(parts, k=chance.randint(1, 20)))
        try:
            dim = SizeExpression.parse(text)
        except ValueError:
            continue
        dim.decides(())
        try:
            dim.value(dict.fromkeys(dim.symbols, chance.randint(-2, 2)))
        except ValueError as error:
            assert "zero" in str(error)  # noqa: PT017


def test_base64_has_one_spelling(signer, trust):
    data = sign.sign("x", {"a": "00" * 32}, signer)
    bundle = json.loads(data)
    envelope = bundle["dsseEnvelope"]
    signature = envelope["signatures"][0]
    for loose in (
        signature["sig"] + "\n",
        " " + signature["sig"],
        base64.b64encode(base64.b64decode(signature["sig"]) + b"\0").decode(),
    ):
        changed = deepcopy(bundle)
        changed["dsseEnvelope"]["signatures"][0]["sig"] = loose
        assert code_of(sign.verify, strict_json.dump(changed), trust.keys)
    for text in (data + b" ", data + b"\n", b" " + data, data[:-1]):
        assert code_of(sign.verify, text, trust.keys) == "signature-malformed"
