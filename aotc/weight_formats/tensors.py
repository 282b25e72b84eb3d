"""Types of the tensors of a checkpoint, by dotted name."""

from __future__ import annotations

from typing import TypeAlias

import numpy

from aotc.nn.quantized_weights import QuantizedWeights
from aotc.programs.computed_arrays import StoredArray

# as files have them
StoredTensors: TypeAlias = dict[str, numpy.ndarray]
# as models take them: those of a quantised layer are one value
Tensors: TypeAlias = dict[str, numpy.ndarray | StoredArray | QuantizedWeights]
