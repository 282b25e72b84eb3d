"""`aotc verify` and `aotc inspect` on good, foreign, unsigned and damaged bundles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aotc.cli.main import main
from tests.cli.asking import ask


def damage(bundle: str) -> None:
    """Flip one bit of the code, which changes no size."""
    file = Path(bundle) / "variants/vmvx.vmfb"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_verify_accepts_a_bundle_of_a_trusted_signer(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(capsys, "verify", shelf.bundle(), "--trust", shelf.public_key)
    assert answer["schema"] == "aotc.verify/1"
    assert answer["verified"] is True
    assert (answer["name"], answer["version"]) == ("toy", "1.0")


def test_verify_needs_no_trust_for_what_one_built_oneself(shelf: Any) -> None:
    from aotc.artifacts import development_key

    assert main(["verify", shelf.bundle(signer=development_key())]) == 0


def test_verify_refuses_a_stranger_with_4(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", shelf.bundle()]) == 4
    assert "[untrusted-key]" in capsys.readouterr().err


def test_verify_refuses_an_unsigned_bundle_with_4(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", shelf.bundle(signer=None)]) == 4
    assert "--allow-unsigned" not in capsys.readouterr().err  # which it does not take


def test_verify_refuses_a_damaged_file_with_4(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = shelf.bundle()
    damage(bundle)
    assert main(["verify", bundle, "--trust", shelf.public_key]) == 4
    assert "[digest-mismatch]" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["verify", "inspect", "run"])
def test_missing_bundle_is_an_input_error(verb: str, shelf: Any) -> None:
    assert main([verb, str(shelf.folder / "no-such.aotc")]) == 2


@pytest.mark.parametrize("verb", ["verify", "inspect", "run"])
def test_missing_public_key_is_an_input_error(verb: str, shelf: Any) -> None:
    assert main([verb, shelf.bundle(), "--trust", "no-such.pub"]) == 2


def test_inspect_shows_entries_variants_and_signer(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", shelf.bundle(), "--trust", shelf.public_key]) == 0
    text = capsys.readouterr().out
    assert "toy 1.0 (release)" in text
    assert "scale(x: f32[batch, 2], k: f32[]) -> y: f32[batch, 2], file: f32[]" in text
    assert "batch: 1 to no limit" in text
    assert "vmvx" in text
    assert "signature  good, key " in text


def test_inspect_shows_what_was_checked_and_calls_results_without_error_equal(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"target": "vmvx", "checked": [{"batch": 1}, {"batch": 3}], "unchecked": []}
    rows = [
        {**both, "entry": "scale", "error_below": 1e-5},
        {**both, "entry": "add", "error_below": 0.0},
        {**both, "entry": "near", "error_below": 1e-6, "ulp_below": 10.0},
        {
            **both,
            "entry": "far",
            "error_below": 1e-5,
            "ulp_below": 100.0,
            "rounding_ulp_below": 100.0,
        },
        {
            **both,
            "entry": "chaos",
            "error_below": 1.0,
            "ulp_below": 1e7,
            "rounding_ulp_below": 1e6,
        },
    ]
    assert main(["inspect", shelf.bundle(self_check=rows)]) == 0
    text = capsys.readouterr().out
    assert "scale on vmvx: 2 x checked, error < 1e-05" in text
    assert "add on vmvx: 2 x checked, equal" in text
    assert "near on vmvx: 2 x checked, error < 1e-06, < 10 ulp\n" in text
    assert "error < 1e-05, < 100 ulp (rounding makes < 100)\n" in text
    chaos = "chaos on vmvx: 2 x checked, error < 1e+00, < 1e+07 ulp"
    assert f"{chaos} (rounding makes < 1e+06)" in text


def test_inspect_gives_manifest_and_verdict_as_json(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(capsys, "inspect", shelf.bundle(), "--trust", shelf.public_key)
    assert answer["schema"] == "aotc.inspect/1"
    assert answer["manifest"]["schema"] == "aotc.manifest/1"
    assert answer["verification"]["verified"] is True


def test_inspect_lists_the_guards_of_each_entry(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = shelf.bundle()
    assert main(["inspect", bundle]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^GUARDS +NAME +RULE +DECLARED AT$", text, re.MULTILINE)
    assert re.search(r"^scale +dtype of x +f32$", text, re.MULTILINE)
    assert re.search(r"^scale +range of batch +1 and more$", text, re.MULTILINE)
    guards = ask(capsys, "inspect", bundle)["guards"]["scale"]
    assert {"name": "x.shape[1]", "rule": "2", "where": ""} in guards


def test_inspect_shows_a_strangers_bundle_and_says_that_it_is_not_verified(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = shelf.bundle()
    assert main(["inspect", bundle]) == 0
    assert "NOT VERIFIED: signed with key " in capsys.readouterr().out
    verdict = ask(capsys, "inspect", bundle)["verification"]
    assert verdict["verified"] is False
    assert verdict["error"]["code"] == "untrusted-key"


def test_inspect_shows_an_unsigned_bundle(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", shelf.bundle(signer=None)]) == 0
    assert "NOT VERIFIED: the bundle is not signed" in capsys.readouterr().out


def test_inspect_does_not_let_a_bundle_command_the_terminal(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (add,) = shelf.entries[1:]
    outputs = [{**add["outputs"][0], "name": "sum\x1b[2J\u202e"}]
    bundle = shelf.bundle(entries=[{**add, "outputs": outputs}])
    main(["inspect", bundle])
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert r"sum\x1b[2J\u202e" in text


def test_inspect_of_something_else_fails(shelf: Any) -> None:
    (shelf.folder / "notes.txt").touch()
    assert main(["inspect", str(shelf.folder)]) == 4


@pytest.mark.parametrize("verb", ["inspect", "verify", "compat"])
def test_a_folder_that_is_no_bundle_is_named_as_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    given = f"{tmp_path}/other/"
    more = ["--self"] if verb == "compat" else []
    assert main([verb, given, *more]) == 4
    said = capsys.readouterr().err
    assert "[manifest-missing]" in said
    assert f"at {tmp_path}/other\n" in said.replace("other/\n", "other\n")
