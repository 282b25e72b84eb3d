"""`aotc compat`: the answer in each of its forms, and its exit codes."""

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aotc import runtime
from aotc.cli.compat_forms import html
from aotc.cli.main import main
from aotc.errors import SetupError

FORMS = ("text", "json", "markdown", "html", "junit", "sarif")
NAME = "<b>press</b> | `7`"


def ask(capsys, *arguments):
    capsys.readouterr()
    code = main(["compat", *map(str, arguments)])
    return code, capsys.readouterr()


@pytest.fixture
def fleet(tmp_path):
    """Two devices: one that can run portable code, one of which nothing is known."""
    facts = {"schema": "aotc.device/1", "arch": "x86_64", "cpu": {"features": []}}
    stated = {"schema": "aotc.doctor/1", "device": facts, "drivers": ["local-sync"]}
    rows = [
        {
            "name": NAME,
            "count": 3,
            "labels": {"site": "ulm"},
            "profile": stated | {"packages": {"iree-base-runtime": "3.13.0"}},
        },
        {
            "name": "old",
            "profile": stated | {"packages": {"iree-base-runtime": "1.0.0"}},
        },
    ]
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"schema": "aotc.fleet/1", "devices": rows}))
    return file


@pytest.mark.parametrize("form", FORMS)
def test_every_form_names_devices_reasons_and_no_markup_of_theirs(
    shelf, fleet, capsys, form
):
    code, printed = ask(
        capsys, shelf.bundle(), "--devices", fleet, "--trust", shelf.public_key,
        "--format", form, "--cure",
    )  # fmt: skip
    assert code == 1
    assert "1.0.0 can load is unknown" in printed.out
    if form == "json":
        assert json.loads(printed.out)["schema"] == "aotc.compat/1"
    if form == "sarif":
        (run,) = json.loads(printed.out)["runs"]
        assert {result["ruleId"] for result in run["results"]} == {"runtime", "cure"}
    if form == "junit":
        (suite,) = ElementTree.fromstring(printed.out)
        assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    if form in ("html", "markdown"):
        assert "<b>press" not in printed.out


def test_the_exit_code_is_the_answer_of_the_policy(shelf, fleet, capsys):
    bundle, trust = shelf.bundle(), ("--trust", shelf.public_key)
    given = (bundle, "--devices", fleet, *trust)
    assert ask(capsys, *given, "--min-coverage", "75%")[0] == 0
    assert ask(capsys, *given, "--min-coverage", "75.1%")[0] == 1
    assert ask(capsys, *given, "--min-coverage", "0", "--per-label", "site")[0] == 0
    assert ask(capsys, *given, "--min-coverage", "75%", "--per-label", "site")[0] == 1
    assert ask(capsys, *given, "--min-coverage", "101%")[0] == 2
    assert ask(capsys, bundle, *trust)[0] == 2
    assert ask(capsys, bundle, "--devices", fleet)[0] == 4
    assert ask(capsys, *given, "--trust-devices", shelf.public_key)[0] == 4


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_row_for_several_devices_names_them_all(shelf, capsys, form):
    alike = ("rk3588", "rk3568", "nxp-imx95")
    named = [part for name in alike for part in ("--device", name)]
    _, printed = ask(
        capsys, shelf.bundle(), *named, "--trust", shelf.public_key, "--format", form
    )
    assert "rk3588 and 2 alike" in printed.out
    assert ", ".join(alike) in printed.out


def test_the_page_shows_first_what_is_not_covered_and_what_helps(shelf, fleet, capsys):
    given = (shelf.bundle(), "--devices", fleet, "--trust", shelf.public_key)
    page = ask(capsys, *given, "--format", "html")[1].out
    assert page.index(">old<") < page.index("&lt;b&gt;press")
    folded = page[page.index("<details>") : page.index("</details>")]
    assert "can load is unknown" in folded
    assert "install the IREE runtime" not in folded
    assert "install the IREE runtime" in page


def test_the_page_names_digest_and_date_and_tells_a_fallback_from_its_own_code(
    shelf, capsys, monkeypatch
):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    given = (shelf.bundle(), "--device", "rk3588", "--trust", shelf.public_key)
    page = ask(capsys, *given, "--format", "html")[1].out
    document = json.loads(ask(capsys, *given, "--format", "json")[1].out)
    assert document["artifacts"][0]["identity"] in page
    assert "Judged on 1970-01-02" in page
    assert '<span class="good">✓ vmvx' in page
    document["cells"][0]["fallback"] = True
    assert '<span class="half">◐ vmvx, on the processor instead' in html.render(
        document
    )


def test_what_is_covered_well_enough_fails_no_server_of_ci(shelf, fleet, capsys):
    given = (shelf.bundle(), "--devices", fleet, "--trust", shelf.public_key)
    enough = (*given, "--min-coverage", "75%")
    _, printed = ask(capsys, *enough, "--format", "junit")
    (suite,) = ElementTree.fromstring(printed.out)
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    _, printed = ask(capsys, *enough, "--format", "sarif")
    (run,) = json.loads(printed.out)["runs"]
    assert {result["level"] for result in run["results"]} == {"warning"}


def test_the_answer_for_this_machine_is_what_load_does(shelf, capsys):
    bundle, trust = shelf.bundle(), ("--trust", shelf.public_key)
    code, printed = ask(capsys, bundle, "--self", *trust, "--format", "json")
    (cell,) = json.loads(printed.out)["cells"]
    model = runtime.load(bundle, trust=shelf.public_key, threads=1)
    assert (code, cell["variant"]) == (0, model.variant.id)


def test_a_variant_that_load_refuses_is_refused(shelf, capsys):
    from aotc.artifacts import Signer, write_bundle

    bundle = Path(shelf.bundle())
    data = json.loads((bundle / "manifest.json").read_bytes())
    del data["files"]
    (variant,) = data["variants"]
    metal = variant | {"backend": "metal-spirv", "target": {"name": "metal"}}
    other = write_bundle(
        shelf.folder / "other",
        data | {"variants": [metal]},
        {"variants/vmvx.vmfb": bundle / "variants/vmvx.vmfb"},
        Signer.from_file(shelf.folder / "team.key"),
    )
    code, printed = ask(
        capsys, other, "--self", "--trust", shelf.public_key, "--format", "json"
    )
    (cell,) = json.loads(printed.out)["cells"]
    assert (code, cell["variant"]) == (1, None)
    with pytest.raises(SetupError) as caught:
        runtime.load(other, trust=shelf.public_key)
    assert {reason["code"] for reason in cell["reasons"]} == {caught.value.code}


def test_devices_are_listed_with_their_sources(capsys):
    assert main(["devices", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(device["sources"] for device in document["devices"])


def test_what_cannot_be_written_is_said_before_the_work(shelf, tmp_path, capsys):
    gone = tmp_path / "gone" / "m.html"
    code, _ = ask(capsys, shelf.bundle(), "--self", "-o", gone)
    assert code == 2


def leave_out_code(bundle):
    (bundle / "variants/vmvx.vmfb").unlink()


def cut_manifest(bundle):
    manifest = bundle / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:500])


def take_from_the_future(bundle):
    (bundle / "signature.json").unlink()
    manifest = bundle / "manifest.json"
    text = manifest.read_text().replace("aotc.manifest/1", "aotc.manifest/2")
    manifest.write_text(text)


def empty(bundle):
    shutil.rmtree(bundle)
    bundle.mkdir()


def make_pipe(bundle):
    shutil.rmtree(bundle)
    os.mkfifo(bundle)


def make_circle(bundle):
    shutil.rmtree(bundle)
    bundle.symlink_to(bundle)


@pytest.mark.parametrize(
    ("damage", "code", "exit_code"),
    [
        (leave_out_code, "file-missing", 4),
        (cut_manifest, "digest-mismatch", 4),
        (take_from_the_future, "manifest-version", 4),
        (empty, "bundle-empty", 2),
        (make_pipe, "bundle-not-directory", 2),
        (make_circle, "file-access", 5),
    ],
)
def test_what_is_no_whole_bundle_is_refused(shelf, capsys, damage, code, exit_code):
    bundle = Path(shelf.bundle())
    damage(bundle)
    given = (bundle, "--self", "--trust", shelf.public_key, "--allow-unsigned")
    status, printed = ask(capsys, *given)
    assert (status, printed.out) == (exit_code, "")
    assert f"[{code}]" in printed.err
    assert f"at {bundle}" in printed.err  # one of several
