"""Small models, written to files and loaded."""

import textwrap
from pathlib import Path

import pytest

from aotc.errors import InputError
from aotc.frontends import load


class Model:
    """A model.py (and other files) in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, source: str, name: str = "model.py") -> Path:
        """Store a file; its source may be indented."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source), encoding="utf-8")
        return file

    def load(self, source: str, *entries: str):
        """The program of this model.py."""
        return load(self.write(source), entries)

    def refused(self, source: str) -> InputError:
        """The error that this model.py is refused with."""
        with pytest.raises(InputError) as caught:
            self.load(source)
        return caught.value


@pytest.fixture
def model(tmp_path) -> Model:
    """A folder for one model."""
    return Model(tmp_path)
