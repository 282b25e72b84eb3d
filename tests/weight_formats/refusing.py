"""Refusals of files of weights."""

import re
from pathlib import Path

import aotc
from aotc.errors import AotcError, InputError
from tests.refusals import refusal


def refused_weights(code: str, path: Path, message: str) -> AotcError:
    """The error of a file of weights, whose text a pattern describes."""
    error = refusal(InputError, code, aotc.Weights.load, path)
    assert re.search(message, str(error)), error
    return error
