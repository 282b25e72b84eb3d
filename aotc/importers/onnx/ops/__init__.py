"""The operators that are imported: name → function, by family.

A function takes the inputs by place and the attributes by name; see
`aotc.importers.onnx.calling`. Operators that are not here, but that ONNX defines by a
body of others, are expanded into it.
"""

from __future__ import annotations

from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import (
    activations,
    attention,
    constants,
    control,
    convolution,
    elementwise,
    indexing,
    learning,
    matrices,
    narrow,
    normalization,
    padded,
    pooling,
    quantization,
    quantization_microsoft,
    random,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    signals,
    windows,
)

FAMILIES = (
    constants,
    elementwise,
    narrow,
    activations,
    reductions,
    shapes,
    indexing,
    matrices,
    attention,
    convolution,
    pooling,
    normalization,
    resizing,
    sampling,
    windows,
    recurrent,
    quantization,
    quantization_microsoft,
    signals,
    random,
    learning,
    control,
)

TABLE: dict[str, Imports] = {
    key: function for family in FAMILIES for key, function in family.TABLE.items()
}

# of values whose sizes depend on values: each by rules of its own, or op by op
PADDED: dict[str, Imports] = {
    **{n: by_op_rules(f) for n, f in TABLE.items() if n not in control.TABLE},
    **padded.PADDED,
}

# operators of which values decide how many results they have
SOURCES = frozenset({"Compress", "NonZero", "Unique"})
