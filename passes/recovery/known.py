"""What is known of values when the model is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.dialects.graph import GraphOp, evaluate, has_effect
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Value
from aotc.passes.recovery.views import Numbers

LARGEST = 2**26  # elements of an array that is looked at

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Known:
    """What is known of values when the model is built.

    Args:
        numbers: those with one number in all elements.
        weights: the arrays of those that are weights.
    """

    numbers: Numbers
    weights: Mapping[Value, Array]

    def array(self, value: Value) -> Array | None:
        """The elements of a value, if they depend on weights and constants alone."""
        with np.errstate(all="ignore"):  # an overflow is what it is in a call
            return self._array(value, {})

    def _array(self, value: Value, found: dict[Value, Array | None]) -> Array | None:
        """The same, and into `found`: what is read twice is computed once."""
        if value not in found:
            found[value] = self._compute(value, found)
        return found[value]

    def _compute(self, value: Value, found: dict[Value, Array | None]) -> Array | None:
        if value in self.weights:
            return self.weights[value]
        op = getattr(value.owner, "opview", None)
        if not isinstance(op, GraphOp) or has_effect(op):
            return None
        count = element_count(Tensor.of(value).shape)
        if not isinstance(count, int) or count > LARGEST:
            return None
        operands = [self._array(each, found) for each in op.operands]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands):
            return None
        return evaluate(op, known, [])[list(op.results).index(value)]
