"""Hybrid functions, compiled as far as they can be: `aotc.hybrid`.

function    `hybrid`, and the function that it returns
boundaries  where Python stands between regions, and what that costs
python      statements of functions: which are compiled, and the regions they form
packages    a hybrid function → a Python package with a bundle
torch       modules of PyTorch, of which parts are compiled
graphs      graphs of ONNX and StableHLO, in pieces
"""

from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.function import HybridFunction, hybrid
from aotc.hybrid_programs.python.breaks import island

__all__ = ["Boundary", "HybridFunction", "hybrid", "island"]
