"""Small models as graph modules, and the proof that a pass keeps their meaning."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.tracing.tracing import Trace

Function = Callable[..., Any]


class Model:
    """One public function, `f`, traced from Python."""

    def __init__(self, function: Function, *types: str, symbols: Sequence[str] = ()):
        with context(), ir.Location.unknown():
            self.module = ir.Module.create()
            self.types = [_parse(text, symbols) for text in types]
            contracts = [Contract(name) for name in symbols]
            trace = Trace(self.module, "f", self.types, contracts)
        with trace.active():
            result = function(*trace.arguments)
            trace.finish(list(result) if isinstance(result, tuple) else [result])

    def __call__(self, *arrays: Any) -> list[Any]:
        """The results of `f` by the reference."""
        return reference.evaluate(self.module, "f", arrays)

    def inputs(self) -> list[Any]:
        """Random arrays; every symbol is 3."""
        rng = np.random.default_rng(7)
        shapes = [[n if isinstance(n, int) else 3 for n in t.shape] for t in self.types]
        return [
            rng.uniform(0.2, 2.0, shape).astype(dtypes.to_numpy(t.dtype))
            for shape, t in zip(shapes, self.types, strict=True)
        ]

    @property
    def ops(self) -> list[str]:
        """The names of the graph ops of `f`, in order, without the return."""
        functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op
            for op in self.module.body.operations
        }
        names = [op.operation.name for op in functions["f"].entry_block.operations]
        return [name.removeprefix("graph.") for name in names[:-1]]

    def run(self, *passes: str) -> bool:
        """Run passes; whether the last one changed anything."""
        return run_passes(self.module, passes)[-1].changed

    def keeps_meaning_under(self, *passes: str) -> None:
        """Run passes and compare the results before and after."""
        inputs = self.inputs()
        before = self(*inputs)
        self.run(*passes)
        for old, new in zip(before, self(*inputs), strict=True):
            assert old.shape == new.shape
            np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6)


def _parse(text: str, symbols: Sequence[str]) -> Tensor:
    """`f32[n, 4]` as a type."""
    dtype, _, sizes = text.rstrip("]").partition("[")
    names = [size.strip() for size in sizes.split(",") if size.strip()]
    return Tensor(
        tuple(
            int(name) if name.isdigit() else SymbolicDim.symbol(symbols.index(name))
            for name in names
        ),
        dtype,
    )


@pytest.fixture(scope="session")
def model() -> type[Model]:
    """Trace a Python function to a graph module."""
    return Model
