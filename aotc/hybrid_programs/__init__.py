"""Hybrid functions, compiled as far as they can be: `aotc.hybrid`.

names        which names statements read and store
statements   which statements may be compiled, and the operations in one
rewriting    a function's statements → runs of them
breaks       what ends a region while it is traced; `aotc.island`
regions      statements that `aotc.jit` compiles
runs         a run of statements: regions and islands, as tracing finds them
boundaries   where Python stands between regions, and what that costs
function     `hybrid`
effects      which objects of a module its statements may change
slicing      the part of a module that some of its names need
device_statements  a module's statements as a package can have them
values       digests of values, here and in a fresh process
packages     a hybrid function → a Python package with a bundle

Of models of other frameworks:

torch_modules       modules of PyTorch, split by their modules
pieces              the nodes of a graph → regions and islands
piece_codes         the codes of a piece: for which calls, and how many
split_graphs        a graph in pieces, executed
onnx_nodes          the nodes of an ONNX graph as nodes to split
onnx_inputs         what calls give it, held to what its file declares
onnx_watching       which nodes keep a region from being imported
onnx_runtime        an island of ONNX as code
onnx_graphs         ONNX, with islands by ONNX Runtime
stablehlo_nodes     the ops of a StableHLO module as nodes
stablehlo_modules   StableHLO and JAX, with islands by XLA
xla                 an island of StableHLO as code
"""

from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.function import HybridFunction, hybrid
from aotc.hybrid_programs.python.breaks import island

__all__ = ["Boundary", "HybridFunction", "hybrid", "island"]
