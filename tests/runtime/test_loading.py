"""Loading a bundle: what is trusted, which variant is taken, and what stays out."""

import copy
import functools
import pickle

import pytest

from aotc import runtime
from aotc.artifacts import write_bundle
from aotc.artifacts.trust import development_key
from aotc.errors import InputError, SetupError, VerificationError
from aotc.machine.target import Target
from tests.refusals import refused
from tests.runtime.running import X, run_python


def test_loads_only_what_is_trusted(bundle, manifest, files, tmp_path):
    refused(VerificationError, "untrusted-key", runtime.load, bundle)
    own = write_bundle(tmp_path, manifest, files, development_key())
    assert runtime.load(own, threads=1).manifest.channel == "development"
    unsigned = write_bundle(tmp_path / "u.aotc", manifest, files, signer=None)
    message = refused(VerificationError, "unsigned", runtime.load, unsigned)
    assert "--allow-unsigned" in message
    runtime.load(unsigned, allow_unsigned=True, threads=1).predict(x=X)


@pytest.mark.parametrize("name", ["variants/cpu.vmfb", "weights.irpa"])
def test_hands_no_changed_file_to_iree(manifest, files, signer, trust, tmp_path, name):
    bundle = write_bundle(tmp_path, manifest, files, signer)
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)
    message = refused(
        VerificationError, "digest-mismatch", runtime.load, bundle, trust=trust
    )
    assert name in message


def test_refuses_variants_for_other_machines(manifest, files, signer, trust, tmp_path):
    data = manifest
    data["variants"][0]["target"]["cpu_features_required"].append("warp-drive")
    bundle = write_bundle(tmp_path, data, files, signer)
    message = refused(SetupError, "incompatible", runtime.load, bundle, trust=trust)
    assert "warp-drive" in message


def test_says_when_the_driver_is_missing(manifest, files, signer, trust, tmp_path):
    data = manifest
    data["variants"][0] |= {"backend": "metal-spirv", "target": {"name": "metal"}}
    bundle = write_bundle(tmp_path, data, files, signer)
    refused(SetupError, "no-driver", runtime.load, bundle, trust=trust)


@pytest.fixture
def with_accelerator(manifest, files, signer, tmp_path):
    """A bundle whose best variant is for an accelerator that no test machine has."""
    (cpu,) = manifest["variants"]
    other = {"id": "metal", "backend": "metal-spirv", "target": {"name": "metal"}}
    manifest["variants"] = [cpu, cpu | other]
    return write_bundle(tmp_path, manifest, files, signer)


def test_a_fall_to_the_processor_is_said_and_counted(
    with_accelerator, trust, monkeypatch
):
    monkeypatch.setattr("aotc.machine.gpus.is_present", lambda vendors: True)
    before = runtime.fallback_count()
    with pytest.warns(UserWarning, match=r"metal: .*\[no-driver\] \[cpu-fallback\]"):
        model = runtime.load(with_accelerator, trust=trust, threads=1)
    assert model.selection.fallback
    assert [judged.variant.id for judged in model.selection.passed_over] == ["metal"]
    assert runtime.fallback_count() == before + 1


def test_a_fall_to_the_processor_can_be_refused(with_accelerator, trust):
    before = runtime.fallback_count()
    load = functools.partial(
        runtime.load, with_accelerator, trust=trust, threads=1, fallback=False
    )
    assert "metal" in refused(SetupError, "fallback-refused", load)
    assert load(target="cpu").variant.id == Target.parse("cpu").id
    assert runtime.fallback_count() == before


def test_chooses_a_variant_by_name(bundle, trust):
    name = Target.parse("cpu").id
    model = runtime.load(bundle, trust=trust, threads=1, target=name)
    assert model.variant.id == name
    refused(
        InputError, "unknown-variant", runtime.load, bundle, trust=trust, target="x"
    )


def test_reports_a_module_that_iree_rejects(manifest, files, signer, trust, tmp_path):
    data = manifest
    broken = files | {"variants/cpu.vmfb": b"no module"}
    bundle = write_bundle(tmp_path, data, broken, signer)
    refused(VerificationError, "module-rejected", runtime.load, bundle, trust=trust)
    data["entry_points"][0]["name"] = "missing"
    bundle = write_bundle(tmp_path / "b", data, files, signer)
    refused(VerificationError, "entry-missing", runtime.load, bundle, trust=trust)


@pytest.mark.parametrize("send", [copy.deepcopy, pickle.dumps])
def test_says_that_a_loaded_model_stays_in_its_process(model, send):
    with pytest.raises(InputError, match="not-picklable") as caught:
        send(model)
    assert "load it there" in caught.value.hint


def test_the_edge_loads_nothing_of_the_compiler():
    code = """
import aotc.artifacts, sys
assert not any(name.startswith("iree") for name in sys.modules)
import aotc.runtime
from aotc.runtime import load
heavy = ("torch", "mlir", "iree.compiler", "aotc.dialects", "aotc.passes",
         "aotc.importers", "click", "rich")
print([m for m in sys.modules if m.startswith(heavy)])
"""
    assert run_python(code).strip() == "[]"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"dtype": "i32"}, "float32"),
        ({"dtype": "f16"}, "float32"),
        ({"dtype": "bf16"}, "elements of type"),
        ({"shape": ["batch", 4]}, "the shape [5, 3]"),
        ({"shape": ["batch"]}, "the shape [5, 3]"),
    ],
)
def test_refuses_results_that_the_manifest_does_not_promise(
    manifest, files, signer, trust, tmp_path, declared, words, monkeypatch
):
    manifest["entry_points"][0]["outputs"][0] |= declared
    path = write_bundle(tmp_path, manifest, files, signer)
    refused(VerificationError, "module-mismatch", runtime.load, path, trust=trust)
    # of modules without declarations, and of sizes that a call decides
    monkeypatch.setattr("aotc.runtime.function.require_signature", lambda *_: None)
    model = runtime.load(path, trust=trust, threads=1)
    assert words in refused(VerificationError, "result-mismatch", model.predict, x=X)


def test_refuses_native_code_that_is_called_portable(
    manifest, files, signer, trust, tmp_path
):
    """Nothing asks for CPU features then, and the first missing one is a SIGILL."""
    manifest["variants"][0]["backend"] = "vmvx"
    path = write_bundle(tmp_path, manifest, files, signer)
    message = refused(
        VerificationError, "backend-mismatch", runtime.load, path, trust=trust
    )
    assert "embedded-elf" in message
