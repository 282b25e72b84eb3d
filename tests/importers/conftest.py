"""Small models, written to files and loaded."""

import pkgutil
import textwrap
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from aotc import numpy as anp
from aotc.errors import InputError
from aotc.importers import load
from aotc.importers.common.padded.values import Padded, as_padded, inside, padded_axes


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


@pytest.fixture
def written(tmp_path):
    """Models of this test."""
    from tests.importers.onnx_files import Written

    return Written(tmp_path)


@pytest.fixture
def bad_padding(monkeypatch):
    """A function: in modules of these names, padding becomes as bad as can be."""

    def spoil(*names):
        for module in [each for name in names for each in modules_of(name)]:
            for origin in ("from_first", "mask_padding_gradient", "as_padded"):
                if hasattr(module, origin):
                    monkeypatch.setattr(module, origin, spoiled)

    return spoil


def modules_of(name):
    """A module and those within it."""
    module = import_module(name)
    inner = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}.")
    return [module, *(import_module(each.name) for each in inner)]


def spoiled(data, shape):
    """An array as a padded value, with NaN, say, in its padding."""
    if not padded_axes(shape):
        return as_padded(data, shape)
    bad = {"bool": True, "f32": np.nan}.get(data.dtype, -12345)
    mask = inside(tuple(shape))
    return Padded(anp.where(mask, data, anp.full((), bad, data.dtype)), tuple(shape))
