"""PyTorch modules for tests, and how they are compared."""

import dataclasses

import numpy as np
import pytest

import aotc
from aotc.importers.common.imported import Imported

torch = pytest.importorskip("torch")


class Call(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, torch.nn.ModuleList(parts)

    def forward(self, *args, **named):
        return self.function(*self.parts, *args, **named)


def stored(net: Imported) -> list:
    """The weights and the state as the network's function takes them."""
    return [part.tree for part in (net.weights, net.state) if part is not None]


def agrees(module, *args, **options) -> None:
    """The imported module gives what the module does."""
    net = aotc.from_torch(module.eval(), args, **options)
    found = net(*stored(net), *(np.asarray(arg) for arg in args))
    with torch.no_grad():
        expected = module(*args)
    for one, other in zip(
        torch.utils._pytree.tree_leaves(found),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    ):
        values = np.asarray(one, np.float64), torch.as_tensor(other).double()
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)


# ---- inputs and outputs -------------------------------------------------------------


@dataclasses.dataclass
class Output:
    """An output that a model of a library may return."""

    values: torch.Tensor
    rest: dict


torch.export.register_dataclass(Output, serialized_type_name="test.Output")


# ---- ops ----------------------------------------------------------------------------

ROWS = torch.tensor([[3.0, 1, 2, 1], [0, torch.nan, 5, 4]])
