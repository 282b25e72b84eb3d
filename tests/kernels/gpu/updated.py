"""Updates of states that kernels for GPUs compute together."""

import aotc
import aotc.numpy as np
from aotc import optim

SHAPES = (64,), (40, 65), (33,), (1,), (5,), (), (0, 3), (16, 3, 3, 7)


def _params():
    return {f"p{n}": np.ones(shape) for n, shape in enumerate(SHAPES)}


def _training(name, optimizer):
    state = aotc.State({"params": _params(), "opt": optimizer.init(_params())})

    def step(state, grads):
        updates, kept = optimizer.update(grads, state["opt"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {"params": params, "opt": kept}, grads["p1"].sum()

    step.__name__ = name
    specs = {f"p{n}": aotc.Spec(shape) for n, shape in enumerate(SHAPES)}
    globals()[f"{name}_state"] = state
    globals()[name] = aotc.entry(state=state, grads=specs)(step)


_training("adam", optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-2)))
_training("scaled", optim.dynamic_loss_scale(optim.sgd(0.1, momentum=0.9)))
_training("narrow", optim.adamw(1e-2, mu_dtype="bf16"))

pair = aotc.State({"a": np.ones((7, 9)), "b": np.zeros((7, 9)), "c": np.ones((9, 7))})


@aotc.entry(state=pair, x=aotc.Spec((7, 9)))
def exchanged(state, x):
    """Each of two states is computed of the other one."""
    a, b, c = state["a"], state["b"], state["c"]
    return {"a": b * 2 + x, "b": a - x, "c": c * 0.5 + b.T}, (a * b).sum()
