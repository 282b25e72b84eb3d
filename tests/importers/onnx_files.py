"""ONNX files, written in a few lines."""

import pytest

from aotc.dialects import context
from aotc.dialects.sizes.symbols import known_contracts
from aotc.errors import InputError

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper, parser  # noqa: E402

from aotc.importers.onnx import from_onnx  # noqa: E402


class Written:
    """Models in ONNX's text form, as files of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "net.onnx"

    def __call__(self, text, opset=18, **tensors):
        """The network of a graph in text form, with initialisers."""
        self.file.write_bytes(self.proto(text, opset, **tensors).SerializeToString())
        return from_onnx(self.file)

    def proto(self, text, opset=18, **tensors):
        """The message."""
        domains = f'"": {opset}, "own": 1, "ai.onnx.ml": 3, "com.microsoft": 1'
        header = f"<ir_version: 9, opset_import: [{domains}]>"
        proto = parser.parse_model(header + text)
        for name, array in tensors.items():
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
        return proto

    def refused(self, text, opset=18, **tensors):
        """The error that a graph is refused with."""
        with pytest.raises(InputError) as caught:
            self(text, opset, **tensors)
        return caught.value


def types_of(network):
    """The graph's result types as text, after tracing."""
    (entry,) = network.program().entries
    with context(), known_contracts(entry.symbols):
        return [str(port.type) for port in entry.results]


def sizes_of(network):
    """The names of the sizes that only a call decides."""
    (entry,) = network.program().entries
    return [contract.name for contract in entry.symbols]


# ---- weights ------------------------------------------------------------------------

DENSE = """
    dense (float[batch, 3] x) => (float[batch, 2] y) { y = MatMul(x, w) }
"""


# ---- symbolic sizes -----------------------------------------------------------------

TABLE = """
    g (float[n, length, 2] x) => (float[n, length, 2] y) {
        shape = Shape(x)
        at = Constant<value_ints = [1]>()
        length = Gather(shape, at)
        zero = Constant<value_ints = [0]>()
        positions = Slice(table, zero, length, zero)
        y = Add(x, positions)
    }
"""


# ---- subgraphs and functions --------------------------------------------------------

LOOP = """
    g (float[2] x) => (float[2] y, float[3, 2] ys) {
        steps = Constant<value_int = 3>()
        on = Constant<value = bool {1}>()
        y, ys = Loop(steps, on, x) <
            body = b (int64 i, bool c, float[2] a) => (bool d, float[2] n, float[2] s) {
                d = Identity(c)
                two = Constant<value_float = 2.0>()
                n = Mul(a, two)
                s = Identity(n)
            }
        >
    }
"""
