"""What tests of programs share."""

import pytest

from benchmarks.fuzz import evaluated


@pytest.fixture
def without_compiler():
    """Code is what the reference evaluator computes; all around it is as ever."""
    with evaluated.without_compiler():
        yield
