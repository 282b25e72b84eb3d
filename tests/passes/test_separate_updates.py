"""separate-updates: no two tensors are written over a part that they share."""

import aotc
from aotc import numpy as np
from aotc.dialects import context
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

UPDATED = """
func.func @f(%x: tensor<4xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = tensor.concat dim(0) %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %u = tensor.insert_slice %x into %w[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %v = tensor.insert_slice %x into %u[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %y = tensor.insert_slice %x into %c[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %z = linalg.add ins(%c, %v : tensor<8xf32>, tensor<8xf32>) outs(%w : tensor<8xf32>)
    -> tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}
"""
LOWERED = ["autodiff", "inline", "lower-to-linalg", "cse"]


def barriers(function):
    """How many barriers the pass puts into a function of two vectors."""
    entry = aotc.entry(x=aotc.Spec((4,)), y=aotc.Spec((4,)))(function)
    module = trace([entry], {}).module
    run_passes(module, LOWERED)
    run_passes(module, ["separate-updates"])
    once = str(module)
    run_passes(module, ["separate-updates"])
    assert str(module) == once
    return once.count("call @iree.barrier")


def test_fires_on_concatenations_that_begin_alike():
    def two(x, y):
        return np.concatenate([x, y]), np.concatenate([x, x])

    def stacks(x, y):
        return np.stack([x, y]), np.stack([x, x])

    assert barriers(two) == barriers(stacks) == 1


def test_fires_on_parts_that_are_read_and_written_over():
    with context(), ir.Location.unknown():
        module = ir.Module.parse(UPDATED)
    run_passes(module, ["separate-updates"])
    assert str(module).count("call @iree.barrier") == 1


def test_does_not_fire_on_concatenations_that_begin_otherwise():
    def parts(x, y):
        return np.concatenate([x, y]), np.concatenate([y, x])

    assert barriers(parts) == 0


def test_does_not_fire_on_concatenations_of_other_sizes():
    def parts(x, y):
        return np.concatenate([x, y]), np.concatenate([x, y, x])

    assert barriers(parts) == 0
