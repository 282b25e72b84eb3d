"""Mixtures of experts, whose tokens are copied to places of their experts."""

import torch
import torch.nn.functional as F

from .layers import attention, cross_entropy, layer_norm

CHOSEN, SPARE, BALANCE = 2, 1.25, 0.01


def moe(params, tokens, targets):
    """Return the loss of examples/moe."""
    x, balance = F.embedding(tokens, params["tokens"]) + params["positions"], 0.0
    for p in params["blocks"]:
        h = layer_norm(x, **p["norm1"])
        x = x + attention(h, **p["attention"], causal=True)
        h, term = mixture(p["mixture"], layer_norm(x, **p["norm2"]))
        x, balance = x + h, balance + term
    logits = layer_norm(x, **params["norm"]) @ params["tokens"].T
    return cross_entropy(logits, targets) + BALANCE * balance


def mixture(p, x):
    """Return the mixture of experts of x [batch, length, width], and the balance
    loss.
    """
    (batch, length, width), experts = x.shape, p["router"].shape[1]
    capacity = int(SPARE * length * CHOSEN / experts)
    probabilities = torch.softmax(x @ p["router"], -1)
    weights, chosen = torch.topk(probabilities, CHOSEN)
    weights = weights / weights.sum(-1, keepdim=True)
    marks = F.one_hot(chosen, experts)
    shares = marks.to(x.dtype).mean((0, 1, 2))
    balance = experts * (shares * probabilities.mean((0, 1))).sum()
    turn = marks.view(batch, -1, experts).cumsum(1).view(marks.shape) - 1
    turn = (turn * marks).sum(-1)
    kept, rows = turn < capacity, torch.arange(batch)[:, None, None]
    places = (chosen * batch + rows) * capacity + turn
    last = experts * batch * capacity  # the place of what finds none
    places = torch.where(kept, places, last)
    copies = x[:, :, None].expand(-1, -1, CHOSEN, -1).reshape(-1, width)
    xs = x.new_zeros(last + 1, width).index_copy(0, places.view(-1), copies)
    xs = xs[:-1].view(experts, -1, width)
    h = F.gelu(torch.baddbmm(p["up"]["bias"], xs, p["up"]["kernel"]))
    ys = torch.baddbmm(p["down"]["bias"], h, p["down"]["kernel"]).view(-1, width)
    ys = torch.cat([ys, ys.new_zeros(1, width)])[places]
    return (ys * (weights * kept)[..., None]).sum(2), balance
