"""Models made of attention."""

from .layers import attention, cross_entropy, feed_forward, layer_norm


def gpt(params, tokens, targets):
    """examples/gpt."""
    x = params["tokens"][tokens] + params["positions"]
    for p in params["blocks"]:
        x = block(p, x, causal=True)
    return cross_entropy(layer_norm(x, **params["norm"]) @ params["tokens"].T, targets)


def block(p, x, causal=False):
    """Attention and a dense network, each of what is normalised before it."""
    x = x + attention(layer_norm(x, **p["norm1"]), **p["attention"], causal=causal)
    return x + feed_forward(p, layer_norm(x, **p["norm2"]))
