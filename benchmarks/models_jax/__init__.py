"""The losses of the example models in JAX, on the same parameters."""

import jax
import jax.numpy as jnp
import optax

from .convolutional import cnn, resnet, unet
from .dense import linear, mlp
from .mixtures import moe
from .recurrent import bilstm, gru, lstm
from .simulations import ode, scan_ode
from .transformers import bert, dit, gpt, lora, vit

LOSSES = {
    "linear": linear,
    "mlp": mlp,
    "lstm": lstm,
    "gru": gru,
    "bilstm": bilstm,
    "cnn": cnn,
    "resnet": resnet,
    "unet": unet,
    "gpt": gpt,
    "bert": bert,
    "moe": moe,
    "vit": vit,
    "dit": dit,
    "ode": ode,
    "scan_ode": scan_ode,
    "lora": lora,
}


def stepper(loss, optimizer, params):
    """Return a function `step(**batch)`: a jitted training step that returns the
    loss.
    """
    params = jax.tree.map(lambda x: jnp.array(x, copy=True), params)
    state = [params, optimizer.init(params)]

    def update(params, moments, batch):
        value, grads = jax.value_and_grad(loss)(params, **batch)
        updates, moments = optimizer.update(grads, moments, params)
        return optax.apply_updates(params, updates), moments, value

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step(**batch):
        *state[:], value = compiled(*state, batch)
        jax.block_until_ready(state)
        return float(value)

    return step
