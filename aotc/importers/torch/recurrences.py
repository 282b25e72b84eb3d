"""Recurrent networks in torch.export: shapes that hold for sequences of any length.

Torch finds the shape of an LSTM's result by taking the LSTM apart into its steps, which
fixes their number. The op itself stays whole in the exported graph, so that only its
shapes matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table

_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


@contextmanager
def whole() -> Iterator[None]:
    """Keep LSTM, GRU and RNN as single ops in torch.export within this block."""
    aten = torch.ops.aten
    rules = {
        aten.lstm.input: _shapes_of_lstm,
        aten.gru.input: _shapes,
        aten.rnn_tanh.input: _shapes,
        aten.rnn_relu.input: _shapes,
    }
    kept = {op: dict(op.py_kernels) for op in rules}
    for op, rule in rules.items():
        _set_kernels(op, {**op.py_kernels, **dict.fromkeys(_KEYS, rule)})
    try:
        with mock.patch.dict(decomposition_table, rules):
            yield
    finally:
        for op, kernels in kept.items():
            _set_kernels(op, kernels)


def _set_kernels(
    op: torch._ops.OpOverload, kernels: dict[DispatchKey, Callable[..., object]]
) -> None:
    """Replace the Python kernels of a torch op, in place."""
    op.py_kernels = kernels
    op._dispatch_cache.clear()


def _shapes_of_lstm(
    x: torch.Tensor, initial: Sequence[torch.Tensor], *options: object
) -> tuple[torch.Tensor, ...]:
    """Return empty tensors like an LSTM's outputs, last states and last cells."""
    state, cell = initial
    width = state.shape[-1]
    return _outputs(x, width, options), state.clone(), cell.clone()


def _shapes(
    x: torch.Tensor, state: torch.Tensor, *options: object
) -> tuple[torch.Tensor, ...]:
    """Return empty tensors like a GRU's or RNN's outputs and last states."""
    return _outputs(x, state.shape[-1], options), state.clone()


def _outputs(x: torch.Tensor, width: int, options: Sequence[object]) -> torch.Tensor:
    """Return an empty tensor like a recurrent network's outputs."""
    bidirectional = options[5]
    return x.new_empty((*x.shape[:-1], width * (2 if bidirectional else 1)))
