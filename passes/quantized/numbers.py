"""Numbers known when a model is built, and quantisations of floats to bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aotc.core import dtypes
from aotc.dialects.functions.entries import entries_of, weight_ports
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.ops.contraction import BYTES
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Operation, Value
from aotc.programs.program import Program

Array = np.ndarray
Numbers = Mapping[Value, Array]


def numbers_of_weights(program: Program) -> dict[Value, Array]:
    """Return the weights with a single element, by value, as NumPy scalars."""
    if not program.has_arrays:
        return {}
    functions, found = functions_of(program.module), dict[Value, Array]()
    for entry in entries_of(program.module):
        for value, port in weight_ports(functions[entry.name], entry):
            if element_count(port.type.shape) == 1:
                array = np.asarray(program.parameters[port.name])
                found[value] = array.reshape(())
    return found


def known_number(value: Value, numbers: Numbers) -> Array | None:
    """Return the number that a value repeats, if known from a splat or `numbers`; else
    None.
    """
    while (op := made_by(value, Broadcast) or made_by(value, Reshape)) is not None:
        value = op.x
    if value in numbers:
        return numbers[value]
    number = splat_of(value)
    kind = dtypes.to_numpy(Tensor.of(value).dtype)
    return None if number is None else np.array(number).astype(kind)


def is_quantization(op: Operation) -> bool:
    """Return whether an op is a cast from another dtype to i8 or u8."""
    if not isinstance(op, Cast):
        return False
    kinds = Tensor.of(op.x).dtype, Tensor.of(op.y).dtype
    return kinds[0] not in BYTES and kinds[1] in BYTES
