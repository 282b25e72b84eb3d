"""Models of sequences, by PyTorch's own layers."""

import torch
import torch.nn.functional as F

from .layers import dense


def lstm(params, sequences, sums):
    """Return the loss of examples/lstm; PyTorch's second bias is zeros."""
    layers = params["layers"]
    weights = [
        w
        for p in layers
        for w in (
            p["kernel"].T,
            p["recurrent"].T,
            p["bias"],
            torch.zeros_like(p["bias"]),
        )
    ]
    xs = sequences.transpose(0, 1)
    zeros = xs.new_zeros(len(layers), xs.shape[1], layers[0]["recurrent"].shape[0])
    xs = recurrent(torch.lstm, xs, (zeros, zeros), weights)
    return F.mse_loss(dense(xs[-1], **params["head"])[:, 0], sums)


def gru(params, values, targets):
    """Return the loss of examples/gru."""
    p, xs = params["gru"], values.T[..., None]
    weights = [p["kernel"].T, p["recurrent"].T, p["bias"], p["recurrent_bias"]]
    zeros = xs.new_zeros(1, xs.shape[1], p["recurrent"].shape[0])
    xs = recurrent(torch.gru, xs, zeros, weights)
    return F.mse_loss(dense(xs, **params["head"])[..., 0], targets.T)


@torch.compiler.disable  # it unrolls a GRU for a quarter of an hour; its LSTM fails
def recurrent(function, xs, start, weights):
    """Return all hidden states [length, batch, units] of PyTorch's recurrent layers."""
    layers = len(weights) // 4
    return function(xs, start, weights, True, layers, 0.0, True, False, False)[0]
