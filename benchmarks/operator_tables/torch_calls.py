"""The cases in PyTorch: eager, and with weights and inputs in oneDNN's own layouts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional
from torch.utils import mkldnn

from .cases import Case, arrays

OPERATORS = {
    "softmax": lambda x: functional.softmax(x, -1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "sum": lambda x: torch.sum(x, -1),
    "max": lambda x: torch.amax(x, -1),
}


def eager(case: Case) -> Callable[[], torch.Tensor]:
    """Return a function that computes the case in PyTorch, channels-last."""
    x, weight, other = (
        None if each is None else torch.from_numpy(each) for each in arrays(case)
    )
    if case.weight:
        module, x = _module(case, weight), _input(case, x)
        return lambda: module(x)
    if other is not None:
        return lambda: torch.bmm(x, other)
    return lambda: OPERATORS[case.family](x)


def packed(case: Case) -> Callable[[], torch.Tensor] | None:
    """Return a function that computes the case by oneDNN on packed weights; None if it
    cannot.
    """
    if not case.weight:
        return None
    x, weight, _ = arrays(case)
    module = mkldnn.to_mkldnn(_module(case, torch.from_numpy(weight)))
    x = _input(case, torch.from_numpy(x)).contiguous().to_mkldnn()
    return lambda: module(x)


def _module(case: Case, weight: torch.Tensor) -> torch.nn.Module:
    """Return the case's PyTorch module with the given weight."""
    if case.family == "gemm":
        module = torch.nn.Linear(*weight.shape, bias=False)
        module.weight.data = weight.T.contiguous()
        return module.eval()
    window, _, inputs, outputs = weight.shape
    module = torch.nn.Conv2d(
        inputs * case.groups,
        outputs,
        window,
        case.stride,
        window // 2,
        groups=case.groups,
        bias=False,
    )
    module.weight.data = weight.permute(3, 2, 0, 1).contiguous()
    return module.eval().to(memory_format=torch.channels_last)


def _input(case: Case, x: torch.Tensor) -> torch.Tensor:
    """Return an NHWC array as a channels-last tensor."""
    return x.permute(0, 3, 1, 2) if case.family == "conv" else x
