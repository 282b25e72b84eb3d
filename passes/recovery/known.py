"""Facts on values that are known when the model is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.dialects.functions.walking import backward_slice, in_order
from aotc.dialects.graph import GraphOp, evaluate, has_effect
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Value
from aotc.passes.recovery.labels import SplatValues
from aotc.programs.computed_arrays import StoredArray

LARGEST = 2**26  # elements of an array that is looked at

Array = np.ndarray


@dataclass(frozen=True)
class KnownValues:
    """Values that can be evaluated at build time, from weights and constants.

    Args:
        numbers: those with one number in all elements.
        weights: the arrays of those that are weights, which may be computed when they
            are asked for.
    """

    numbers: SplatValues
    weights: Mapping[Value, StoredArray]

    def array(self, value: Value) -> Array | None:
        """Evaluate a value now; None unless weights and constants alone decide it."""
        ops = self._ops_behind(value)
        if ops is None:
            return None
        found: dict[Value, Any] = dict(self.weights)
        with np.errstate(all="ignore"):  # an overflow is what it is in a call
            for op in ops:
                results = evaluate(op, [np.asarray(found[x]) for x in op.operands], [])
                found.update(zip(op.results, results, strict=True))
        return np.asarray(found[value])

    def _ops_behind(self, value: Value) -> list[GraphOp] | None:
        """Return the ops to evaluate a value, in order; None if it needs inputs or is
        too large.

        Nothing is computed before that is known, and no call made for each op: most
        values that are asked for depend on inputs, through all layers before.
        """
        ops: list[GraphOp] = []
        for each in backward_slice([value]):
            if each in self.weights:
                continue
            op = getattr(each.owner, "opview", None)
            if not isinstance(op, GraphOp) or has_effect(op):
                return None
            count = element_count(Tensor.of(each).shape)
            if not isinstance(count, int) or count > LARGEST:
                return None
            ops.append(op)
        return in_order(ops)
