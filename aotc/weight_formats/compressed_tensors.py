"""Checkpoints of compressed-tensors: integers in words or bytes, with their scales.

Source: `PackedQuantizationCompressor` and `IntQuantizationCompressor` of
vllm-project/compressed-tensors. A layer has `weight_packed` [outputs, words], with
`weight_shape` ("pack-quantized"), or `weight` of i8 ("int-quantized",
"naive-quantized"); `weight_scale` [outputs, groups], [outputs, 1] or a number; where it
is asymmetric, `weight_zero_point`, of which outputs are packed beside packed weights;
and `weight_g_idx`, if its inputs were quantised in another order.
"""

from __future__ import annotations

import re

import numpy

from aotc import numpy as np
from aotc.core.json_values import JsonObject
from aotc.nn.packed_integers import unpack
from aotc.nn.quantized_weights import QuantizedWeights
from aotc.programs.computed_arrays import StoredArray
from aotc.tracing.array import Array
from aotc.tracing.deferred_arrays import compute_when_read
from aotc.tracing.source_locations import fail
from aotc.weight_formats.packed_words import (
    bytes_of,
    columns_of,
    grouped_weights,
    layers_with,
    order_of_groups,
    require_bits,
    require_float,
    require_shapes,
    take,
    to_signed,
    weight_name,
)
from aotc.weight_formats.tensors import StoredTensors, Tensors

_FORMATS = ("pack-quantized", "int-quantized", "naive-quantized")
_STRATEGIES = ("tensor", "channel", "group")


def decode(arrays: StoredTensors, config: JsonObject) -> Tensors:
    """Return a compressed-tensors checkpoint's arrays, each quantised layer as one
    weight.

    Raises:
        InputError: the tensors are quantised in another way.
    """
    arrays = dict(arrays)
    layers: Tensors = {}
    for layer in layers_with(arrays, "weight_scale"):
        facts = _weight_settings(layer, config)
        weights = _pop_layer_weight(arrays, layer, facts)
        layers[weight_name(arrays, layer)] = weights
    return {**arrays, **layers}


def _weight_settings(layer: str, config: JsonObject) -> JsonObject:
    """Return the quantisation settings of a layer's weight from the checkpoint's
    config.

    Raises:
        InputError: aotc does not read such.
    """
    groups = list(config.get("config_groups", {}).values())
    exact = [
        g for g in groups if any(_matches_layer(t, layer) for t in g.get("targets", []))
    ]
    found = (exact or groups or [{}])[0]
    facts = found.get("weights") or {}
    form = found.get("format") or config.get("format")
    strategy = facts.get("strategy")
    is_known = form in _FORMATS and facts.get("type", "int") == "int"
    if not is_known or strategy not in _STRATEGIES:
        fail(
            "unsupported-quantization",
            f"layer '{layer}' is quantised in format '{form}' of {facts.get('type')}s "
            f"by '{strategy}'; aotc reads {', '.join(_FORMATS)} of ints by "
            f"{', '.join(_STRATEGIES)}",
            "compress the model with a scheme such as W4A16 or W8A8",
        )
    known: JsonObject = facts
    return known


def _matches_layer(target: str, layer: str) -> bool:
    """Return whether a config target (a name or `re:` pattern) matches a
    layer's name.
    """
    if target.startswith("re:"):
        return re.match(target.removeprefix("re:"), layer) is not None
    return target == layer


def _pop_layer_weight(
    arrays: StoredTensors, layer: str, facts: JsonObject
) -> QuantizedWeights:
    """Return the quantised weight of a layer; remove its tensors from `arrays`."""
    bits = int(facts.get("num_bits", 8))
    scale = take(arrays, layer, "weight_scale")
    zeros = arrays.pop(f"{layer}.weight_zero_point", None)
    groups = arrays.pop(f"{layer}.weight_g_idx", None)
    is_packed = f"{layer}.weight_packed" in arrays
    stored = take(arrays, layer, "weight_packed" if is_packed else "weight")
    require_shapes(layer, [("weight", stored, 2)])
    shape = tuple(map(int, arrays.pop(f"{layer}.weight_shape", stored.shape)))
    _require_integers(layer, stored, shape, is_packed=is_packed)
    if facts["strategy"] != "group":
        groups = None
    block = int(facts.get("group_size") or -1)
    block = block if facts["strategy"] == "group" and block > 0 else shape[1]
    order = None
    if groups is not None and (groups >= 0).all():
        order = order_of_groups(groups, shape[1], block, layer)
    if is_packed:
        require_bits(layer, bits)
        data = columns_of(stored, bits, shape[1], order)
    else:
        data = stored if order is None else _permute_columns(stored, order)
    zero_point: StoredArray | None = zeros
    if is_packed and zeros is not None and zeros.dtype == numpy.int32:
        zero_point = _packed_zero_points(zeros, bits, shape[0])
    if facts["strategy"] == "tensor":
        return _per_tensor_weight(data, scale, zero_point, bits)
    return grouped_weights(data, scale, zero_point, bits=bits, block=block, order=order)


def _require_integers(
    layer: str, stored: numpy.ndarray, shape: tuple[int, ...], *, is_packed: bool
) -> None:
    """Refuse a stored weight that holds no integers or does not fit its stated shape.

    Raises:
        ValueError: they are not.
    """
    rows, columns = stored.shape
    fits = len(shape) == 2 and shape[0] == rows and (is_packed or shape[1] == columns)
    if not fits:
        raise ValueError(
            f"expected '{layer}.weight_shape' that fits {list(stored.shape)}; got "
            f"{list(shape)}"
        )
    if stored.dtype.kind not in "iu":
        raise ValueError(f"expected integers of '{layer}'; got {stored.dtype}")


def _permute_columns(data: numpy.ndarray, order: numpy.ndarray) -> StoredArray:
    """Return a matrix with its columns permuted, computed when it is read."""
    return compute_when_read(lambda a: np.take(a, order, 1), data)


def _packed_zero_points(words: numpy.ndarray, bits: int, outputs: int) -> StoredArray:
    """Unpack zero points [outputs, groups] from words [words, groups], when read."""
    require_bits("weight_zero_point", bits)

    def compute(packed: Array) -> Array:
        rows = np.transpose(unpack(packed, bits), (0, 2, 1))
        flat = np.reshape(rows, (-1, packed.shape[1]))
        return to_signed(flat[:outputs], bits)

    return compute_when_read(compute, bytes_of(words))


def _per_tensor_weight(
    data: StoredArray,
    scale: numpy.ndarray,
    zero_point: StoredArray | None,
    bits: int,
) -> QuantizedWeights:
    """Return a quantised weight with one scale and zero point for the whole tensor."""
    require_float(scale)
    zero = None if zero_point is None else numpy.asarray(zero_point).reshape(())
    if zero is not None and not zero.any():
        zero = None
    return QuantizedWeights(data, scale.reshape(()), zero, bits=bits)
