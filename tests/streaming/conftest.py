"""A model with entries to stream through, compiled once."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aotc

MODEL = Path(__file__).with_name("stream_model.py")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("streaming")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture(scope="session")
def load(built: tuple[Path, Path]) -> Callable[..., aotc.Model]:
    """Loads the model anew, with its first states."""
    bundle, home = built

    def load_model(threads: int = 1) -> aotc.Model:
        return aotc.load(bundle, trust=home / "development.pub", threads=threads)

    return load_model


@pytest.fixture(scope="session")
def model(load: Callable[..., aotc.Model]) -> aotc.Model:
    return load()
