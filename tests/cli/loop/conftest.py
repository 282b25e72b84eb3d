"""A bundle that learns, built once, and a folder with its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.loop.data import MODEL, X, Y


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture
def run(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The arguments that every call begins with, in a folder with data."""
    bundle, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=X, y=Y, unused=X)
    save_file({"x": X, "y": Y}, "data.safetensors")
    return ["run", str(bundle), "--threads", "1"]


@pytest.fixture
def train(run: list[str]) -> list[str]:
    return [*run, "--entry", "train", "--loop", "data.npz"]
