"""Models to loop over, compiled once, and data for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc

MODEL = Path(__file__).parents[1] / "cli" / "loop_model.py"
ROWS = 22  # five batches of four, and two rows over


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture
def load(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], aotc.Model]:
    """Loads the model anew, with its first states; the test runs in an empty folder."""
    bundle, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return lambda: aotc.load(bundle, threads=1)


@pytest.fixture
def model(load: Callable[[], aotc.Model]) -> aotc.Model:
    return load()


@pytest.fixture(scope="session")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, 2)).astype("f4")


@pytest.fixture(scope="session")
def y() -> np.ndarray:
    return np.arange(ROWS, dtype="i4")
