"""One model with what is delicate to compile: symbolic slices, keys, gradients."""

import iree.runtime as iree
import numpy as np

from aotc import reference
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.passes import run_passes

MODEL = """
import aotc
import aotc.numpy as np
from aotc import random

rows = aotc.Dim("rows", min=3)

@aotc.entry(x=aotc.Spec((rows, 4)), i=aotc.Spec((), "i32"), key=aotc.Spec(2, "u32"))
def f(x, i, key):
    def loss(x):
        ends = (x[:2] * x[1:3]).sum() + (x[-2:] * x[::2][:1]).sum()
        return ends + 2 * x[-1].sum() + x[i].sum()

    one, two = random.split(random.fold_in(key, i))
    return {
        "slices": (x[2:], x[-1], x[-2:], x[::-1], x[i], x[i - x.shape[0]]),
        "sizes": (x / x.shape[0], np.roll(x, 1, 0), np.tril(x @ x.T), np.var(x, 0)),
        "random": (random.normal(one, x.shape), random.bits(two, (3,))),
        "gradient": aotc.grad(loss)(x),
    }
"""


def test_a_compiled_model_gives_what_the_reference_gives(model):
    program = model.load(MODEL)
    rng = np.random.default_rng(0)
    inputs = [
        rng.normal(size=(5, 4)).astype("f4"),
        np.array(3, "i4"),
        np.zeros(2, "u4"),
    ]
    run_passes(program.module, ["autodiff", "inline"])
    expected = reference.evaluate(program.module, "f", inputs)
    run_passes(
        program.module, ["simplify", "cse", "lower-to-linalg", "control-to-blocks"]
    )
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    vmfb = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    results = iree.load_vm_module(vmfb, config).f(*inputs)
    for ours, wanted in zip(results, expected, strict=True):
        found = np.asarray(ours)
        found = found.view(wanted.dtype)  # IREE has no sign
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
