"""The losses of the example models in PyTorch, on the same parameters."""

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree


def dense(x, kernel, bias):
    """`x @ kernel + bias`."""
    return torch.addmm(bias, x.reshape(-1, x.shape[-1]), kernel).view(*x.shape[:-1], -1)


def cross_entropy(logits, labels):
    """Mean over all labels."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def mlp(params, x, labels):
    """examples/mlp."""
    for p in params[:-1]:
        x = F.relu(dense(x, **p))
    return cross_entropy(dense(x, **params[-1]), labels)


def lstm(params, sequences, sums):
    """examples/lstm, by PyTorch's own LSTM, which has a second bias."""
    xs = sequences.transpose(0, 1)
    width = params["head"]["kernel"].shape[0]
    zeros = torch.zeros(len(params["layers"]), xs.shape[1], width)
    weights = [
        w
        for p in params["layers"]
        for w in (p["kernel"].T, p["recurrent"].T, p["bias"], torch.zeros(4 * width))
    ]
    xs, _, _ = torch.lstm(
        xs,
        (zeros, zeros),
        weights,
        True,
        len(params["layers"]),
        0.0,
        True,
        False,
        False,
    )
    return F.mse_loss(dense(xs[-1], **params["head"])[:, 0], sums)


def gpt(params, tokens, targets):
    """examples/gpt."""
    x = F.embedding(tokens, params["tokens"]) + params["positions"]
    for p in params["blocks"]:
        x = x + attention(layer_norm(x, **p["norm1"]), **p["attention"])
        h = F.gelu(dense(layer_norm(x, **p["norm2"]), **p["up"]))
        x = x + dense(h, **p["down"])
    return cross_entropy(layer_norm(x, **params["norm"]) @ params["tokens"].T, targets)


def layer_norm(x, scale, bias):
    """Over the last axis."""
    return F.layer_norm(x, scale.shape, scale, bias, 1e-5)


def attention(x, query, key, value, output):
    """Causal, of many heads."""
    batch, length, width = x.shape
    q, k, v = (
        (x @ w.reshape(width, width)).view(batch, length, *w.shape[1:]).transpose(1, 2)
        for w in (query, key, value)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    return y.reshape(x.shape) @ output.reshape(width, width)


def resnet(params, images, labels):
    """examples/resnet in training; channels first, as the kernels prefer."""
    x = F.relu(convolve(params["stem"], images.permute(0, 3, 1, 2), 1))
    for p in params["blocks"]:
        stride, shortcut = 1, x
        if "shortcut" in p:
            stride = 2
            shortcut = convolve(p["shortcut"], x, stride)
        h = F.relu(convolve(p["first"], x, stride))
        x = F.relu(convolve(p["second"], h, 1) + shortcut)
    return cross_entropy(dense(x.mean((2, 3)), **params["head"]), labels)


def convolve(p, x, stride):
    """A convolution, and batch norm by the batch; "SAME" puts more at the end."""
    size = p["kernel"].shape[0]
    if stride == 2 and size == 3:
        x = F.pad(x, (0, 1, 0, 1))
    padding = size // 2 if stride == 1 else 0
    x = F.conv2d(x, p["kernel"].permute(3, 2, 0, 1), stride=stride, padding=padding)
    return F.batch_norm(x, None, None, p["scale"], p["bias"], True)


LOSSES = {"mlp": mlp, "lstm": lstm, "resnet": resnet, "gpt": gpt}


def stepper(loss, optimizer, params, compiled=False, autocast=None):
    """`step(**batch)`: an eager step, or one of torch.compile; returns the loss.

    Args:
        loss: of parameters and a batch.
        optimizer: leaves → torch.optim.Optimizer.
        params: a pytree of NumPy arrays.
        compiled: compile the loss, forward and backward.
        autocast: the cheaper dtype of mixed precision, without scales of losses.
    """
    params = pytree.tree_map(lambda x: torch.tensor(x, requires_grad=True), params)
    optimizer = optimizer(pytree.tree_leaves(params))
    loss = torch.compile(loss) if compiled else loss
    mixed = torch.autocast("cpu", autocast, enabled=autocast is not None)

    def step(**batch):
        tensors = {name: torch.from_numpy(x) for name, x in batch.items()}
        for name in ("labels", "targets"):
            if name in tensors:
                tensors[name] = tensors[name].long()
        optimizer.zero_grad()
        with mixed:
            value = loss(params, **tensors)
        value.backward()
        optimizer.step()
        return float(value.detach())

    return step
