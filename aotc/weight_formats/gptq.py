"""GPTQ checkpoints: `qweight`, `qzeros`, `scales` and `g_idx` of each layer.

Source: `QuantLinear` of `qlinear_cuda.py` in AutoGPTQ, whose `forward` has the formula:
inputs are packed along the first axis of `qweight` [inputs, outputs], outputs along the
last of `qzeros` [groups, outputs]. Version 1 of the format stores a zero point less one
(`checkpoint_format` "gptq"), version 2 ("gptq_v2") as it is. With `desc_act`, inputs
were quantised in another order, and `g_idx` says which group each of them is in.
"""

from __future__ import annotations

from collections.abc import Mapping

from aotc import numpy as np
from aotc.core.json_values import JsonObject
from aotc.nn.packed_integers import unpack
from aotc.nn.quantized_weights import QuantizedWeights
from aotc.tracing.array import Array
from aotc.tracing.deferred_arrays import compute_when_read
from aotc.tracing.source_locations import fail
from aotc.weight_formats.packed_words import (
    WORD,
    bytes_of,
    grouped_weights,
    layers_with,
    order_of_groups,
    require_bits,
    require_shapes,
    take,
    to_signed,
    transpose_when_read,
    weight_name,
)
from aotc.weight_formats.tensors import StoredTensors, Tensors

_ZERO_POINT_OFFSETS = {"gptq": 1, "gptq_v2": 0}  # stored zero points are less by this


def decode(arrays: StoredTensors, config: JsonObject) -> Tensors:
    """Return the arrays of a GPTQ checkpoint, each quantised layer as one weight.

    Raises:
        InputError: the tensors are packed in another way.
    """
    form = str(config.get("checkpoint_format") or config.get("format") or "gptq")
    if form not in _ZERO_POINT_OFFSETS or config.get("is_marlin_format"):
        fail(
            "unsupported-quantization",
            f"the tensors are packed as '{form}'; aotc reads "
            f"{', '.join(_ZERO_POINT_OFFSETS)}",
            "save the checkpoint in format 'gptq' or 'gptq_v2'",
        )
    arrays = dict(arrays)
    layers: Tensors = {}
    for layer in layers_with(arrays, "qweight"):
        group = int(config.get("group_size") or -1)
        weights = _pop_layer_weight(arrays, layer, group, _ZERO_POINT_OFFSETS[form])
        _require_configured_bits(config, weights, layer)
        layers[weight_name(arrays, layer)] = weights
    return {**arrays, **layers}


def _require_configured_bits(
    config: Mapping[str, object], weights: QuantizedWeights, layer: str
) -> None:
    """Raise if the config's number of bits is not that of a layer's tensors.

    Raises:
        ValueError: they are others, as in a checkpoint with a configuration of another.
    """
    said = config.get("bits", weights.bits)
    if said != weights.bits and not config.get("dynamic"):  # layers have their own
        raise ValueError(
            f"expected integers of {said} bits, as the configuration says; those of "
            f"'{layer}' have {weights.bits}"
        )


def _pop_layer_weight(
    arrays: StoredTensors, layer: str, group: int, zero_point_offset: int
) -> QuantizedWeights:
    """Return the quantised weight of a layer; remove its tensors from `arrays`.

    Args:
        arrays: with the tensors.
        layer: whose they are.
        group: how many inputs share a scale; all of them if it is not positive.
        zero_point_offset: to add to stored zero points.
    """
    words, zeros, scales = (
        take(arrays, layer, name) for name in ("qweight", "qzeros", "scales")
    )
    require_shapes(
        layer, [("qweight", words, 2), ("qzeros", zeros, 2), ("scales", scales, 2)]
    )
    outputs = words.shape[1]
    bits = zeros.shape[1] * WORD // max(outputs, 1)
    require_bits(layer, bits)
    inputs = words.shape[0] * WORD // bits
    block = group if group > 0 else inputs
    groups = arrays.pop(f"{layer}.g_idx", None)
    order = None if groups is None else order_of_groups(groups, inputs, block, layer)

    def data(packed: Array) -> Array:
        rows = np.transpose(unpack(packed, bits), (1, 0, 2))
        levels = to_signed(np.reshape(rows, (outputs, inputs)), bits)
        return levels if order is None else np.take(levels, order, 1)

    def zero_points(packed: Array) -> Array:
        levels = np.reshape(unpack(packed, bits), (packed.shape[0], outputs))
        # one more than 8 bits hold, where all are in use
        wide = to_signed(levels, bits, "i16" if bits == 8 else "i8")
        return np.transpose(np.add(wide, zero_point_offset))

    return grouped_weights(
        compute_when_read(data, bytes_of(words)),
        transpose_when_read(scales),
        compute_when_read(zero_points, bytes_of(zeros)),
        bits=bits,
        block=block,
        order=order,
    )
