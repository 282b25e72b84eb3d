"""One step of a decoder: the scores after one token, from keys and values of the past.

The past of layer N are the arguments key_N and value_N, (batch, heads, past, depth).
"""

from __future__ import annotations

from .layers import blocks_of, layer_norm, linear, rms_norm
from .transformers import gpt2_block, llama_block


def gpt2_step(weights, input_ids, position_ids, **past):
    """Return the logits of one GPT-2 decoding step."""
    words = weights["words"]["weight"]
    x = words[input_ids] + weights["positions"]["weight"][position_ids]
    for number, p in enumerate(blocks_of(weights["blocks"])):
        x = gpt2_block(p, x, past=_of_layer(past, number))
    return layer_norm(weights["norm"], x, 1e-5) @ words.T


def llama_step(weights, input_ids, position_ids, **past):
    """Return the logits of one LLaMA-style decoding step."""
    angles = weights["cosines"][position_ids[0]], weights["sines"][position_ids[0]]
    x = weights["words"]["weight"][input_ids]
    for number, p in enumerate(blocks_of(weights["blocks"])):
        x = llama_block(p, x, angles=angles, past=_of_layer(past, number))
    return linear(weights["head"], rms_norm(weights["norm"], x))


def _of_layer(past, number):
    """Return a layer's past keys and values."""
    return past[f"key_{number}"], past[f"value_{number}"]
