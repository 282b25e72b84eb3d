"""Random keys for modules that are imported as they train: dropout draws from one.

PyTorch draws from a hidden state. A network that drops takes a key with each call
instead, and every place that draws gets a key of its own from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from aotc import random
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import Trace, current_trace

_RATES = ("p", "dropout_p", "dropout")
_DROPPING = (
    "aten.dropout",
    "aten.native_dropout",
    "aten.scaled_dot_product_attention",
    "aten.lstm",
    "aten.gru",
    "aten.rnn_tanh",
    "aten.rnn_relu",
)

# why a network without a key cannot drop, and what to do
REFUSED = (
    "it draws random numbers from a hidden state",
    "call .eval() on the module, or import it with train=True",
)


@dataclass
class _Keys:
    """The random key of a call, the number of keys derived from it, and its trace."""

    key: Array
    trace: Trace | None
    count: int = 0


_keys: ContextVar[_Keys | None] = ContextVar("aotc_torch_keys", default=None)


def drops(node: Node) -> bool:
    """Return whether an fx node is a dropout in training, with a rate above 0."""
    if str(node.target).rpartition(".")[0] not in _DROPPING:
        return False
    schema: Any = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    rate = next((given[name] for name in _RATES if name in given), 0)
    return bool(rate) and given.get("train", True) is not False


@contextmanager
def drawing_from(key: Array | None) -> Iterator[None]:
    """Draw dropout masks from `key` within this block; None refuses dropout."""
    token = _keys.set(None if key is None else _Keys(key, current_trace()))
    try:
        yield
    finally:
        _keys.reset(token)


def next_key() -> Array:
    """Return a new random key, derived from the key of the current call.

    Raises:
        InputError: the network has none, or it is asked for in a loop or branch, each
            run of which would draw the same.
    """
    keys = _keys.get()
    if keys is None:
        fail("unsupported", f"dropout: {REFUSED[0]}", REFUSED[1])
    if current_trace() is not keys.trace:
        fail(
            "unsupported",
            "dropout in a loop or branch would drop the same elements in each run",
            "call .eval() on the layer, or drop outside of the loop",
        )
    keys.count += 1
    return random.fold_in(keys.key, keys.count)
