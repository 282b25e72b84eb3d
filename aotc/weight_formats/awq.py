"""AWQ checkpoints: `qweight`, `qzeros` and `scales` of each layer.

Source: `dequantize_gemm` of `packing_utils.py` in AutoAWQ. Outputs are packed along the
last axis of `qweight` [inputs, outputs] and `qzeros` [groups, outputs]; of eight that
share a word, the even ones come before the odd ones.
"""

from __future__ import annotations

import numpy

from aotc import numpy as np
from aotc.core.json_values import JsonObject
from aotc.nn.packed_integers import unpack
from aotc.nn.quantized_weights import QuantizedWeights
from aotc.tracing.array import Array
from aotc.tracing.deferred_arrays import compute_when_read
from aotc.tracing.source_locations import fail
from aotc.weight_formats.packed_words import (
    bytes_of,
    grouped_weights,
    layers_with,
    require_shapes,
    take,
    to_signed,
    transpose_when_read,
    weight_name,
)
from aotc.weight_formats.tensors import StoredTensors, Tensors

_BITS = 4
# where each of eight outputs lies in a word
_PLACES = numpy.array([0, 4, 1, 5, 2, 6, 3, 7], "i4")


def decode(arrays: StoredTensors, config: JsonObject) -> Tensors:
    """Return the arrays of an AWQ checkpoint, each quantised layer as one weight.

    Raises:
        InputError: the tensors are packed in another way.
    """
    form = str(config.get("version", "gemm")).lower()
    bits = int(config.get("bits", config.get("w_bit", _BITS)))
    if form != "gemm" or bits != _BITS:
        fail(
            "unsupported-quantization",
            f"the tensors are packed as '{form}' of {bits} bits; aotc reads 'gemm' of "
            f"{_BITS}",
            "quantise the model with version='gemm', w_bit=4",
        )
    arrays = dict(arrays)
    layers: Tensors = {}
    group = int(config.get("group_size") or config.get("q_group_size") or -1)
    for layer in layers_with(arrays, "qweight"):
        weights = _pop_layer_weight(arrays, layer, group)
        layers[weight_name(arrays, layer)] = weights
    return {**arrays, **layers}


def _pop_layer_weight(
    arrays: StoredTensors, layer: str, group: int
) -> QuantizedWeights:
    """Return the quantised weight of a layer; remove its tensors from `arrays`."""
    words, zeros, scales = (
        take(arrays, layer, name) for name in ("qweight", "qzeros", "scales")
    )
    require_shapes(
        layer, [("qweight", words, 2), ("qzeros", zeros, 2), ("scales", scales, 2)]
    )

    def integers(packed: Array) -> Array:
        eights = np.take(unpack(packed, _BITS), _PLACES, -1)
        return np.transpose(to_signed(np.reshape(eights, (packed.shape[0], -1)), _BITS))

    return grouped_weights(
        compute_when_read(integers, bytes_of(words)),
        transpose_when_read(scales),
        compute_when_read(integers, bytes_of(zeros)),
        bits=_BITS,
        block=group if group > 0 else words.shape[0],
    )
