"""Attention alone, in f32 and in f16, of any length."""

import aotc
from aotc import nn

aotc.bundle(name="attention", version="1.0.0")

HEADS, DEPTH = 4, 64


def spec(dtype):
    """Return the spec of queries, keys or values."""
    return aotc.Spec(("batch", "length", HEADS, DEPTH), dtype)


@aotc.entry(q=spec("f32"), k=spec("f32"), v=spec("f32"))
def attend(q, k, v):
    """Return the attention in which each position sees all."""
    return nn.attention(q, k, v)


@aotc.entry(q=spec("f16"), k=spec("f16"), v=spec("f16"))
def attend_before(q, k, v):
    """Return the causal attention."""
    return nn.attention(q, k, v, causal=True)
