"""Models without structure in their inputs."""

import torch.nn.functional as F

from .layers import cross_entropy, dense


def mlp(params, x, labels):
    """Return the loss of examples/mlp."""
    for p in params[:-1]:
        x = F.relu(dense(x, **p))
    return cross_entropy(dense(x, **params[-1]), labels)
