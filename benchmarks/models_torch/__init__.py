"""The losses of the example models in PyTorch, on the same parameters.

Kernels of convolutions are permuted to PyTorch's order once, and stay channels-last.
"""

import torch
from torch.utils import _pytree as pytree

from .convolutional import resnet, unet
from .dense import mlp
from .mixtures import moe
from .recurrent import gru, lstm
from .simulations import compiled_scan_ode, scan_ode
from .transformers import bert, dit, gpt, lora, vit

LOSSES = {
    "mlp": mlp,
    "lstm": lstm,
    "gru": gru,
    "gpt": gpt,
    "bert": bert,
    "resnet": resnet,
    "vit": vit,
    "unet": unet,
    "moe": moe,
    "dit": dit,
    "scan_ode": scan_ode,
    "lora": lora,
}
COMPILED_IN_PARTS = {"scan_ode": compiled_scan_ode}
RATE = 1e-3
TRANSPOSED = "double"  # name of transposed convolutions


def compiled_loss(name):
    """Return the loss function of a model under torch.compile."""
    return COMPILED_IN_PARTS.get(name) or torch.compile(LOSSES[name])


def leaves(tree, dtype=torch.float32, learned=True):
    """Return a pytree with its arrays as tensors, trainable if `learned`."""

    def leaf(path, array):
        tensor = torch.tensor(array).to(dtype)
        if tensor.ndim == 4:
            is_transposed = any(getattr(k, "key", None) == TRANSPOSED for k in path)
            order = (2, 3, 0, 1) if is_transposed else (3, 2, 0, 1)
            tensor = tensor.permute(order)
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor.requires_grad_(learned)

    return pytree.tree_map_with_path(leaf, tree)


def stepper(loss, params, autocast=None):
    """Return a function `step(**tensors)`: forward, backward and fused Adam; returns
    the loss.

    Args:
        loss: of parameters and a batch.
        params: as `leaves` makes them.
        autocast: the cheaper dtype of mixed precision, without scales of losses.
    """
    optimizer = torch.optim.Adam(pytree.tree_leaves(params), lr=RATE, fused=True)
    mixed = torch.autocast("cpu", autocast, enabled=autocast is not None)

    def step(**batch):
        optimizer.zero_grad()
        with mixed:
            value = loss(params, **batch)
        value.backward()
        optimizer.step()
        return float(value.detach())

    return step
