"""A model of four devices, compiled once, and data for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aotc.machine.target import Target

MODEL = Path(__file__).with_name("parallel_model.py")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("parallel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        asked = {"targets": Target.named("native"), "self_check": "off"}
        return Path(build(MODEL, output=folder, **asked).bundle), folder / "home"


@pytest.fixture
def bundle(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The bundle, which is trusted; the test runs in an empty folder with data."""
    path, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    write_data()
    return path


def write_data() -> None:
    """Write rows for the step of the model to `data.npz`."""
    rng = np.random.default_rng(1)
    rows = {"x": rng.standard_normal((70, 3)), "y": rng.standard_normal((70, 2))}
    np.savez("data.npz", **{name: array.astype("f4") for name, array in rows.items()})
