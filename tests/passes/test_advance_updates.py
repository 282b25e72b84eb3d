"""advance-updates: a new state stands behind the last of what it is computed from."""

import aotc
from aotc import control, optim
from aotc import numpy as np
from aotc.dialects import context
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

LOWERED = ["autodiff", "inline", "simplify", "cse", "lower-to-linalg", "cse"]


def stepped(layers):
    """The lowered training step of a deep network."""
    params = [np.ones((8, 8)) for _ in range(layers)]
    optimizer = optim.adam(optim.cosine_decay_schedule(0.1, 100))

    def loss(params, x):
        for kernel in params:
            x = np.tanh(x @ kernel)
        return x.sum()

    @aotc.entry(x=aotc.Spec((4, 8)), state=aotc.State((params, optimizer.init(params))))
    def step(state, x):
        params, moments = state
        grads = aotc.grad(loss)(params, x)
        updates, moments = optimizer.update(grads, moments, params)
        return (optim.apply_updates(params, updates), moments), 0.0

    module = trace([step], {}).module
    run_passes(module, LOWERED)
    return module


def kinds(module):
    """For each loop whether it is a product, in order."""
    loops = [line for line in str(module).splitlines() if "iterator_types" in line]
    return ["product" if "reduction" in line else "update" for line in loops]


def test_updates_come_between_the_gradients():
    module = stepped(4)
    late = kinds(module)
    run_passes(module, ["advance-updates"])
    early = kinds(module)
    assert sorted(late) == sorted(early)
    assert late[-8:] == ["update"] * 8
    last = len(early) - 1 - early[::-1].index("product")
    assert early[:last].count("update") > late[:last].count("update")


def test_a_loop_of_numbers_stays_behind_the_stack_that_it_writes():
    @aotc.entry(start=aotc.Spec(()), xs=aotc.Spec((3,)))
    def totals(start, xs):
        return control.scan(lambda total, x: (total + x, total), start, xs)

    module = trace([totals], {}).module
    run_passes(module, [*LOWERED, "advance-updates"])
    text = str(module)
    assert text.index("call @iree.stack0.begin") < text.index("scf.for")


def test_running_it_again_changes_nothing():
    module = stepped(2)
    first = run_passes(module, ["advance-updates"])
    (second,) = run_passes(module, ["advance-updates"])
    assert (first[0].changed, second.changed) == (True, False)


_LOOP = """linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } ins(%INPUT : tensor<4xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = arith.negf %in : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>"""
_READ_BY_AN_UNUSED_LOOP = f"""
func.func @f(%p: tensor<4xf32>, %x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>)
{{
  %start = tensor.empty() : tensor<4xf32>
  %product = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>)
    outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
  %update = {_LOOP.replace("%INPUT", "%p")}
  %unused = {_LOOP.replace("%INPUT", "%update")}
  return %update, %product : tensor<4xf32>, tensor<4x4xf32>
}}
"""


def test_an_update_that_an_unused_loop_reads_is_advanced():
    with context():
        module = ir.Module.parse(_READ_BY_AN_UNUSED_LOOP)
    run_passes(module, ["advance-updates"])
    text = str(module)
    assert text.index("arith.negf") < text.index("linalg.matmul")
