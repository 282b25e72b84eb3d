"""Arrays and numbers as JSON has them. Edge-safe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

# A document, or a part of one, as its reader has it: keys are checked where a schema is
# (`aotc.artifacts.schema`), and values have the types that it gives them.
JsonObject: TypeAlias = Mapping[str, Any]


def python_numbers(array: np.ndarray) -> Any:
    """Return an array's elements as Python numbers, in nested lists."""
    # `tolist` of bf16 gives objects that JSON does not know.
    own = array if array.dtype.kind in "biuf" else array.astype(np.float64)
    return own.tolist()


def json_value(value: object) -> object:
    """Return a value with NaN and infinities, which JSON lacks, as strings."""
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
