"""The operators that are imported: name → function, by family.

A function takes the inputs by place and the attributes by name; see
`aotc.importers.onnx.calling`. Operators that are not here, but that ONNX defines by a
body of others, are expanded into it.
"""

from __future__ import annotations

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

PADDED = padded.PADDED

# operators of which values decide how many results they have
SOURCES = frozenset({"Compress", "NonZero", "Unique"})
