"""From model.py to right answers in a fresh process, on the real data."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import aotc as package
from aotc.core.pytree import flatten

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


@pytest.mark.parametrize("target", ["cpu", "vmvx"])
def test_the_shipped_weights_classify_the_test_images(
    aotc, release, keys, tmp_path, target
):
    run = aotc(
        "run", release, "--entry", "predict", "--target", target,
        "--input", f"x=@{DIGITS / 'test_x.npy'}", "--output", "out.npz",
        "--trust", keys / "release.pub",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    probabilities = np.load(tmp_path / "out.npz")["output"]
    labels = np.load(DIGITS / "test_y.npy")
    assert probabilities.shape == (360, 10)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (probabilities.argmax(1) == labels).mean() >= 0.97


def test_the_compiled_step_trains_and_shares_its_state(release, keys):
    model = package.load(release, trust=keys / "release.pub", target="x86_64-v3")
    data = np.load(DIGITS / "digits.npz")
    images, labels = data["train_x"].astype("f4"), data["train_y"].astype("i4")
    test_x, test_y = np.load(DIGITS / "test_x.npy"), np.load(DIGITS / "test_y.npy")
    start = model.read_state("state")
    losses = [
        model.train_step(images=images[i : i + 64], labels=labels[i : i + 64])
        for _ in range(3)
        for i in range(0, 1344, 64)
    ]
    assert losses[-1] < 0.5 * losses[0]
    assert (model.evaluate(images=test_x) == test_y).mean() > 0.9
    count, *_ = model.read_state("state")["moments"][0]  # Adam's, then the rate's
    assert count == 63
    model.write_state(start, "state")
    assert (model.evaluate(images=test_x) == test_y).mean() < 0.5


def test_the_compiled_step_equals_the_reference(release, keys):
    from aotc import reference
    from aotc.importers import load
    from aotc.passes import run_passes

    program = load(DIGITS / "model.py", ("train_step",))
    run_passes(program.module, ["autodiff"])
    entry = program.entry("train_step")
    data = np.load(DIGITS / "digits.npz")
    inputs = {
        "images": data["train_x"][:64].astype("f4"),
        "labels": data["train_y"][:64].astype("i4"),
    }
    values = [
        inputs[p.name] if p.kind == "input" else program.parameters[p.name]
        for p in entry.arguments
    ]
    expected = reference.evaluate(program.module, "train_step", values)
    model = package.load(release, trust=keys / "release.pub", target="x86_64-v3")
    loss = model.train_step(**inputs)
    after = iter(flatten(model.read_state("state"))[0])
    for port, value in zip(entry.results, expected, strict=True):
        got = loss if port.kind == "output" else next(after)
        assert np.allclose(got, value, rtol=1e-4, atol=1e-5), port.name


@pytest.mark.parametrize(
    "example", ["linear", pytest.param("digits", marks=pytest.mark.slow)]
)
def test_two_builds_in_different_folders_give_identical_bytes(
    aotc, keys, tmp_path, example
):
    built = []
    for folder in ("here", "elsewhere/of-another-name"):
        source, output = tmp_path / folder / example, tmp_path / folder / "dist"
        shutil.copytree(ROOT / "examples" / example, source)
        done = aotc(
            "build", source / "model.py", "--sign", keys / "release.key",
            "-o", output, "--target", "cpu", "--target", "vmvx",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (bundle,) = output.iterdir()
        built.append(_content(bundle))
    assert built[0] == built[1]


def _content(bundle):
    files = [file for file in bundle.glob("**/*") if file.is_file()]
    return {file.relative_to(bundle).as_posix(): file.read_bytes() for file in files}


def test_the_manifest_tells_what_a_deployment_needs(aotc, release):
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["channel"] == "release"
    assert [e["name"] for e in manifest["entry_points"]] == [
        "train_step",
        "evaluate",
        "predict",
    ]
    assert manifest["entry_points"][0]["kind"] == "train-step"
    assert manifest["symbols"]["batch"] == {
        "max": 4096, "min": 1, "multiple_of": 1, "where": "model.py:60",
    }  # fmt: skip
    cpu = manifest["variants"][0]
    assert "avx2" in cpu["target"]["cpu_features_required"]
    assert cpu["runtime_abi"]["executable_formats"] == ["embedded-elf-x86_64"]
    assert manifest["toolchain"]["iree_compiler"]["revision"]
    inspected = aotc("inspect", release)
    assert inspected.returncode == 0
    assert "predict" in inspected.stdout


def test_the_bundle_says_what_it_was_made_of(release):
    statement = json.loads((release / "provenance.json").read_text())
    modules = [
        (release / s["name"], s["digest"]["sha256"]) for s in statement["subject"]
    ]
    assert {file.suffix for file, _ in modules} == {".vmfb", ".irpa"}
    for file, digest in modules:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["source"] == "model.py"
    source = hashlib.sha256((DIGITS / "model.py").read_bytes()).hexdigest()
    assert definition["resolvedDependencies"][0]["digest"]["sha256"] == source
    sbom = json.loads((release / "sbom.json").read_text())
    assert sbom["metadata"]["component"]["name"] == "digits"
    assert {c["name"] for c in sbom["components"]} == {
        f.relative_to(release).as_posix() for f, _ in modules
    }
