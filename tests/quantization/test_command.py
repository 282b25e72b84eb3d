"""`aotc quantize`: files that other verbs take, and a certificate in the bundle."""

import json

import numpy as np
import pytest

from aotc import load
from aotc.artifacts.precision import PrecisionRequirements
from aotc.cli.main import main
from aotc.cli.quantize import Quality
from aotc.errors import InputError
from tests.quantization.models import DIGITS, SAMPLES

TARGET = "x86_64-v3"
DEVICE = "intel-haswell"
MODEL = f"{DIGITS / 'model.py'}:predict"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, and the network as the command has quantised it."""
    folder = tmp_path_factory.mktemp("quantized")
    stored = np.load(DIGITS / "digits.npz")
    np.savez(folder / "data.npz", x=stored["train_x"][:SAMPLES])
    np.savez(folder / "test.npz", x=np.load(DIGITS / "test_x.npy").astype("f"))
    return folder


def run(*arguments):
    return main([str(each) for each in arguments])


def quantize(folder, recipe, *more):
    given = ("--data", folder / "data.npz", "--held-out", folder / "test.npz")
    file = folder / f"{recipe}.mlir"
    return run("quantize", MODEL, "--recipe", recipe, *given, "-o", file, *more)


@pytest.fixture(scope="module")
def bundle(folder):
    """What is built of the model by a recipe of integers and of 4 bits."""
    assert quantize(folder, "mixed", "--quality", "0.5%") == 0
    recipe = folder / "mixed.json"
    more = ("--quantize", recipe, "-t", TARGET, "-o", folder, "--quiet")
    assert run("build", MODEL, *more) == 0
    return folder / "digits-1.0.0.aotc"


def test_bundle_computes_what_the_quantised_program_does(folder, bundle):
    x = np.load(folder / "test.npz")["x"]
    y = np.load(DIGITS / "test_y.npy")
    found = load(bundle).predict(x)
    assert (found.argmax(-1) == y).mean() > 0.97


def test_manifest_certifies_precision_and_policies_can_ask_for_it(
    folder, bundle, capsys
):
    capsys.readouterr()
    assert run("verify", bundle, "--format", "json") == 0
    facts = json.loads(capsys.readouterr().out)["quantization"]
    recipe = json.loads((folder / "mixed.json").read_text())
    assert facts["quality"] == recipe["quality"]
    assert facts["quality"]["asked"] == 0.005
    assert facts["quality"]["samples"] == 360
    digest = facts["quality"]["sha256"]
    assert {row["precision"] for row in facts["layers"]} == {"int8", "int4-g32"}

    assert run("inspect", bundle) == 0
    assert "loses 0.002778 by top1 on 360 samples" in capsys.readouterr().out
    for demand in ("0.5%", "top1=0.005", f"top1=0.5%@{digest[:12]}"):
        assert run("verify", bundle, "--require-quality", demand) == 0, demand
    for demand, why in (
        ("0.1%", "it loses 0.002778 by top1"),
        ("kl=0.5%", "measured by top1, not by kl"),
        ("top1=0.5%@0123456789", "measured on the data"),
    ):
        assert run("verify", bundle, "--require-quality", demand) == 1, demand
        said = capsys.readouterr().err
        assert "[not-precise]" in said
        assert why in said
    assert run("verify", bundle, "--require-precision", "int8,int4-g32") == 0
    assert run("verify", bundle, "--require-precision", "int8") == 1
    assert "dense1.kernel is of int4-g32" in capsys.readouterr().err

    device = ("compat", bundle, "--device", DEVICE)
    assert run(*device, "--require-quality", "0.5%") == 0
    capsys.readouterr()
    assert run(*device, "--require-quality", "0.1%") == 1
    said = capsys.readouterr().out
    assert "it loses 0.002778 by top1, more than 0.001 [not-precise]" in said
    assert "at most 0.001 lost" in said


def test_report_is_json_and_equal_for_equal_data(folder, capsys):
    reports = []
    for _ in range(2):
        assert quantize(folder, "int8", "--format", "json") == 0
        reports.append(capsys.readouterr().out)
        files = [folder / f"int8{suffix}" for suffix in (".mlir", ".irpa", ".json")]
        reports[-1] += str([hash(file.read_bytes()) for file in files])
    assert reports[0] == reports[1]
    document = json.loads(reports[0].partition("\n[")[0].rpartition("}")[0] + "}")
    assert document["schema"] == "aotc.quantize/1"
    assert {row["precision"] for row in document["layers"]} == {"int8"}


def test_quantised_program_is_one_that_other_verbs_take(folder, capsys):
    assert quantize(folder, "int8") == 0
    assert run("explain", folder / "int8.mlir", "-t", TARGET) == 0
    assert "can be built" in capsys.readouterr().out
    assert quantize(folder, "int8", "--quality", "much") == 2
    assert quantize(folder, "int8", "--quality", "5") == 2  # per cent, or 500 of them
    capsys.readouterr()
    more = ("--recipe", "int8", "-o", folder / "again.mlir")
    given = ("--data", folder / "data.npz")
    assert run("quantize", folder / "int8.mlir", *more, *given) == 2
    assert "[already-quantized]" in capsys.readouterr().err


def test_a_program_whose_name_no_frontend_knows_is_refused_before_the_work(
    folder, capsys
):
    given = ("--recipe", "bf16", "-o", folder / "digits")
    assert run("quantize", MODEL, *given) == 2
    assert "expected a .mlir file" in capsys.readouterr().err
    assert not (folder / "digits").exists()


@pytest.mark.parametrize("text", ["much", "0.5%@xyz", "=0.5%", "-1%", ""])
def test_demands_that_cannot_be_read_are_refused(text):
    with pytest.raises(InputError) as caught:
        PrecisionRequirements.parse(text, None)
    assert caught.value.code == "bad-option"


@pytest.mark.parametrize("text", ["0.5%", "0.005", "5e-3", "5e-1%"])
def test_options_that_say_what_may_be_lost_read_the_same_texts(text):
    assert Quality().convert(text, None, None) == pytest.approx(0.005)
    assert PrecisionRequirements.parse(f"top1={text}", None).lost == pytest.approx(
        0.005
    )


def test_precisions_that_are_none_are_refused():
    with pytest.raises(InputError, match="--require-precision") as caught:
        PrecisionRequirements.parse(None, " ,")
    assert caught.value.code == "bad-option"


def test_what_was_not_quantised_meets_every_demand():
    assert PrecisionRequirements.parse("0%", "int8").violations({}) == []
    facts = {"recipe": "bf16", "calibration": {}, "quality": {}, "layers": []}
    (said,) = PrecisionRequirements.parse("1%", None).violations(
        {"quantization": facts}
    )
    assert said == "nothing was measured of what it loses"
