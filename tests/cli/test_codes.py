"""One failure has one code, from the command line and from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc import runtime
from aotc.cli.main import main
from aotc.errors import AotcError

ONES = np.ones((1, 2), "f4")

# what is wrong: code, arguments after the bundle, and the same in Python
FAILURES: dict[str, tuple[str, list[str], Callable[[Any], Any]]] = {
    "no such entry": (
        "unknown-entry",
        ["--entry", "scail"],
        lambda load: load().entry("scail"),
    ),
    "no such input": (
        "unknown-input",
        ["--entry", "add", "-i", "z=1"],
        lambda load: load().add(a=ONES, b=ONES, z=1),
    ),
    "an input too few": (
        "missing-input",
        ["--entry", "add", "-i", "a=[1,2,3]"],
        lambda load: load().add(a=ONES),
    ),
    "an input of another shape": (
        "shape-mismatch",
        ["--entry", "add", "-i", "a=[1,2]", "-i", "b=[1,2,3]"],
        lambda load: load().add(a=np.ones(2, "u1"), b=np.ones(3, "u1")),
    ),
    "an input of another dtype": (
        "dtype-mismatch",
        ["--entry", "add", "-i", "a=@f.npy", "-i", "b=[1,2,3]"],
        lambda load: load().add(a=np.ones(3, "f4"), b=np.ones(3, "u1")),
    ),
    "no such variant": (
        "unknown-variant",
        ["--target", "aarch64"],
        lambda load: load(target="aarch64"),
    ),
    "a key that is not there": (
        "key-missing",
        ["--trust", "none.pub"],
        lambda load: load(trust="none.pub"),
    ),
    "a key of someone else": (
        "untrusted-key",
        [],
        lambda load: load(),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_command_and_the_loader_call_a_failure_by_one_code(
    shelf: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
) -> None:
    code, arguments, call = FAILURES[failure]
    bundle = shelf.bundle()
    monkeypatch.chdir(shelf.folder)
    np.save("f.npy", np.ones(3, "f4"))
    assert main(["keygen", "other"]) == 0
    key = "other.pub" if code == "untrusted-key" else shelf.public_key

    def load(**given: Any) -> runtime.Model:
        return runtime.load(bundle, **{"trust": key, **given})

    with pytest.raises(AotcError) as caught:
        call(load)
    assert caught.value.code == code
    trusted = [] if "--trust" in arguments else ["--trust", key]
    assert main(["run", bundle, *trusted, *arguments]) == caught.value.exit_code
    assert f"[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "inspect", "verify"])
@pytest.mark.parametrize(
    ("path", "code"),
    [("none", "bundle-missing"), ("file", "bundle-not-directory")],
)
def test_a_bundle_that_is_none_is_called_so_by_every_verb(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    path: str,
    code: str,
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AotcError) as caught:
        runtime.load(tmp_path / path)
    assert main([verb, str(tmp_path / path)]) == caught.value.exit_code == 2
    assert caught.value.code == code
    assert f"[{code}]" in capsys.readouterr().err


def test_a_target_that_the_bundle_lacks_is_told_what_runs_here(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", shelf.bundle(), "--trust", shelf.public_key]
    assert main([*arguments, "--target", "aarch64"]) == 2
    said = capsys.readouterr().err
    assert "expected one of the bundle's variants, vmvx; got 'aarch64'" in said
    assert "this machine runs vmvx: name it, or none" in said
