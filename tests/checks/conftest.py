"""A small model that is checked."""

import pytest

from tests.checks.models import MODEL


@pytest.fixture
def model(tmp_path):
    """A model with an entry of symbolic size, and one that trains."""
    file = tmp_path / "small.py"
    file.write_text(MODEL)
    return file
