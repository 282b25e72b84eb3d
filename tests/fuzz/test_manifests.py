"""A manifest that is wrong and well signed is refused, or the model works."""

import numpy as np
import pytest

from aotc import pipeline, runtime
from aotc.artifacts import Trust, keys
from aotc.errors import VerificationError
from aotc.machine.target import Target
from benchmarks.fuzz.manifests import Fuzzer, write_signed

MUTANTS = 250
MODEL = """
import numpy

import aotc
import aotc.numpy as np

n = aotc.Dim("n", policy="bucket", max=8, specialize=(8,))
state = aotc.State({"a": numpy.zeros((3,), "f4"), "b": numpy.zeros((2,), bool)})


@aotc.entry(x=aotc.Spec((n, 3)), m=aotc.Spec((n,), "bool"), u=aotc.Spec((n,), "u32"),
            h=aotc.Spec((), "bf16"), s=state)
def f(x, m, u, h, s):
    y = np.where(m[:, None], x, 0.0)
    new = {"a": s["a"] + np.sum(y, axis=0), "b": ~s["b"]}
    return new, {"y": y, "m": ~m, "u": u + 1, "h": h + 1}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifests")
    (folder / "m.py").write_text(MODEL)
    report = pipeline.build(
        folder / "m.py",
        output=folder,
        targets=Target.named("native"),
        signing_key=keys.generate(),
        self_check="off",
    )
    return report.bundle


def test_no_mutant_with_a_good_signature_does_more_than_be_refused(bundle, tmp_path):
    fuzzer = Fuzzer(bundle, tmp_path, seed=11)
    fuzzer.check_original()
    wrong = [wrong for _ in range(MUTANTS) if (wrong := fuzzer.step())]
    assert not wrong, wrong[0]
    assert fuzzer.codes["taken"] > 20
    assert fuzzer.codes["module-mismatch"] > 3
    assert fuzzer.codes["manifest-invalid"] > 20


def outputs(manifest):
    return manifest["entry_points"][0]["outputs"]


def inputs(manifest):
    return manifest["entry_points"][0]["inputs"]


def one_output_more(manifest):
    outputs(manifest).append({"name": "more", "dtype": "f32", "shape": []})
    manifest["entry_points"][0]["result"] = {
        "list": list(range(len(outputs(manifest))))
    }


def one_output_less(manifest):
    outputs(manifest).pop()
    manifest["entry_points"][0]["result"] = {
        "list": list(range(len(outputs(manifest))))
    }


def one_input_more(manifest):
    more = {"name": "more", "dtype": "f32", "shape": []}
    arguments = manifest["entry_points"][0]["arguments"]["dict"]
    arguments["more"] = len(inputs(manifest))
    inputs(manifest).append(more)


def another_dtype(manifest):
    inputs(manifest)[0]["dtype"] = "f64"


def another_rank(manifest):
    inputs(manifest)[0]["shape"] = ["n", 3, 1]


def another_size(manifest):
    inputs(manifest)[0]["shape"] = ["n", 4]


def another_size_of_the_bucket(manifest):
    manifest["entry_points"][0]["specializations"][0]["sizes"] = {"n": 7}


def no_padding(manifest):
    del manifest["entry_points"][0]["specializations"][0]["padded"]


def another_order(manifest):
    outputs(manifest).reverse()


def a_state_with_another_leaf(manifest):
    manifest["states"][0]["leaves"][0]["shape"] = [4]


def a_reader_that_is_the_writer(manifest):
    state = manifest["states"][0]
    state["read"], state["write"] = state["write"], state["read"]


MISMATCHES = [
    one_output_more, one_output_less, one_input_more, another_dtype, another_rank,
    another_size, another_size_of_the_bucket, no_padding, another_order,
    a_state_with_another_leaf, a_reader_that_is_the_writer,
]  # fmt: skip


@pytest.mark.parametrize("change", MISMATCHES)
def test_what_the_module_does_not_have_is_refused_at_the_load(change, bundle, tmp_path):
    signer = keys.generate()
    fuzzer = Fuzzer(bundle, tmp_path, seed=0)
    change(fuzzer.original)
    write_signed(fuzzer.work, fuzzer.original, signer)
    trust = Trust.of(signer.public_pem)
    with pytest.raises(VerificationError) as caught:
        runtime.load(fuzzer.work, trust=trust, threads=1)
    assert caught.value.code == "module-mismatch"


@pytest.mark.parametrize("path", ["sbom.json", "provenance.json"])
def test_a_file_that_nothing_computes_with_is_verified_by_a_load(
    path, bundle, tmp_path
):
    fuzzer = Fuzzer(bundle, tmp_path, seed=0)
    signer = keys.generate()
    write_signed(fuzzer.work, fuzzer.original, signer)
    trust = Trust.of(signer.public_pem)
    runtime.load(fuzzer.work, trust=trust, threads=1)
    data = bytearray((fuzzer.work / path).read_bytes())
    data[len(data) // 2] ^= 1
    (fuzzer.work / path).write_bytes(data)
    with pytest.raises(VerificationError) as caught:
        runtime.load(fuzzer.work, trust=trust, threads=1)
    assert caught.value.code == "digest-mismatch"
    assert path in str(caught.value)


def test_a_result_is_still_held_to_the_manifest_where_modules_say_nothing(
    bundle, tmp_path, monkeypatch
):
    """Declarations may be stripped from a module; then a call says it."""
    monkeypatch.setattr("aotc.runtime.function.require_signature", lambda *_: None)
    fuzzer = Fuzzer(bundle, tmp_path, seed=0)
    signer = keys.generate()
    call = dict(
        x=np.zeros((8, 3), "f4"), m=np.zeros(8, bool), u=np.zeros(8, "u4"), h=0.0
    )
    one_output_more(fuzzer.original)
    write_signed(fuzzer.work, fuzzer.original, signer)
    model = runtime.load(fuzzer.work, trust=Trust.of(signer.public_pem), threads=1)
    with pytest.raises(VerificationError) as caught:
        model.f(**call)
    assert caught.value.code == "result-mismatch"
