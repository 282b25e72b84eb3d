"""Updates of states that kernels compute together, which the tests beside it build."""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import optim

SHAPES = (64,), (40, 65), (33,), (1,), (), (0, 3), (16, 3, 3, 7)
_rng = onp.random.default_rng(0)
_PARAMS = {f"p{n}": _rng.normal(size=x).astype("f4") for n, x in enumerate(SHAPES)}
_GRADS = {f"p{n}": aotc.Spec(x) for n, x in enumerate(SHAPES)}


def _training(name, optimizer):
    state = aotc.State({"params": _PARAMS, "opt": optimizer.init(_PARAMS)})

    def step(state, grads):
        updates, kept = optimizer.update(grads, state["opt"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {"params": params, "opt": kept}, grads["p1"].sum()

    step.__name__ = name
    globals()[f"{name}_state"] = state
    globals()[name] = aotc.entry(state=state, grads=_GRADS)(step)


_training("momentum", optim.sgd(0.1, momentum=0.9, nesterov=True))
_clipped = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(1e-2))
_training("scaled", optim.dynamic_loss_scale(_clipped))
_training("narrow", optim.adam(1e-2, mu_dtype="bf16"))

others = aotc.State(
    {
        "a": onp.ones((7, 9), "f4"),
        "b": onp.arange(63, dtype="f4").reshape(7, 9),
        "c": onp.arange(63, dtype="f4").reshape(9, 7),
        "d": onp.arange(9, dtype="f4"),
        "e": onp.arange(63, dtype="f4"),
        "frozen": onp.ones(3, "f4"),
    }
)


@aotc.entry(others=others, x=aotc.Spec((7, 9)))
def entangled(others, x):
    """New states of one another, of views of others, and of what becomes of them."""
    a, b, c, d, e = (others[name] for name in "abcde")
    doubled = b * 2 + x
    new = {
        "a": doubled,
        "b": a - x,
        "c": c * 0.5 + b.T,
        "d": d + doubled.sum(0),
        "e": e + np.reshape(doubled, -1),
        "frozen": others["frozen"],
    }
    return new, (a * b).sum() + doubled.sum()
