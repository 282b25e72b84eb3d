"""The digits bundle, built once through the command line as a user would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


def run_aotc(*arguments, cwd, home, timeout=300, **environment):
    """Run `aotc` in a fresh process with a home of its own."""
    return subprocess.run(
        [sys.executable, "-m", "aotc.cli.main", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "AOTC_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder for the development key."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def keys(tmp_path_factory, home):
    """`release.key` and `release.pub`, made by `aotc keygen`."""
    folder = tmp_path_factory.mktemp("keys")
    assert run_aotc("keygen", "release", cwd=folder, home=home).returncode == 0
    return folder


@pytest.fixture(scope="session")
def release(tmp_path_factory, home, keys):
    """The digits bundle for two targets, signed for release."""
    folder, shared = tmp_path_factory.mktemp("dist"), tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # one of the processes compiles it
        shared = shared.parent
    built = run_aotc(
        "build", DIGITS / "model.py", "--sign", keys / "release.key",
        "--target", "cpu", "--target", "vmvx", "--format", "json",
        cwd=folder, home=home, AOTC_CACHE=str(shared / "release-cache"),
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder / "digits-1.0.0.aotc"


@pytest.fixture(scope="module")
def bundle(request, tmp_path_factory, home):
    """The compiled model of the module, on disk; its tests compare results."""
    from aotc.pipeline import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(home))
        output = tmp_path_factory.mktemp("out")
        return build(request.module.MODEL, output=output, self_check="off").bundle


@pytest.fixture(scope="module")
def program(request):
    """The traced model of the module, with derivatives written."""
    from aotc.importers import load
    from aotc.passes import run_passes

    traced = load(request.module.MODEL)
    run_passes(traced.module, ["autodiff"], silently=True)
    return traced


@pytest.fixture
def aotc(tmp_path, home):
    """Run a command in an empty folder: `aotc("verify", bundle)`."""
    return lambda *arguments, **options: run_aotc(
        *arguments, cwd=tmp_path, home=home, **options
    )
