"""The beginning of models with entries, and their refusals."""

HEAD = """\
from typing import NamedTuple
import numpy
import aotc
import aotc.numpy as np

one = numpy.ones(3, "f4")
weights = aotc.Weights({"w": one, "b": [one]})
state = aotc.State({"w": one, "n": 0})
"""  # the first line of a test's own source is 9


def refused_model(model, source):
    """The error that a model with this source is refused with; names its line 9."""
    error = model.refused(HEAD + source)
    assert error.where == "model.py:9", error
    return error
