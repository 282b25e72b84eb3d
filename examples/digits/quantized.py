"""Handwritten digits for integers: the network of model.py, trained as it will compute.

    python examples/digits/train_quantized.py
    aotc quantize examples/digits/quantized.py:predict --recipe int8 \
        --ranges examples/digits/quantized.safetensors -o digits-int8.mlir
    aotc build digits-int8.mlir

Layers of `train_step` and `evaluate` round weights and inputs to what the recipe's
integers can hold; the second command makes these integers of what was trained.
"""

import os
from pathlib import Path

import model
import numpy

import aotc
from aotc import nn, optim

aotc.bundle(name="digits-quantized", version="1.0.0")

RECIPE = os.environ.get("DIGITS_RECIPE", "int8")  # or int4-g32, …
TRAINED = Path(__file__).with_name("quantized.safetensors")
SAMPLES = numpy.load(Path(__file__).with_name("digits.npz"))["train_x"][:256]

network = aotc.quantization_aware(model.network, RECIPE)
start = model.weights.tree
optimizer = optim.adam(2e-4)
state = aotc.State(
    {
        "params": start,
        "moments": optimizer.init(start),
        "ranges": network.init(start, SAMPLES.astype("float32")),
    }
)
weights = aotc.Weights(
    aotc.Weights.load(TRAINED.name).tree["state"]["params"]
    if TRAINED.exists()
    else start
)


def loss(params, ranges, images, labels):
    """Mean cross-entropy, and the ranges after what was seen of these images."""
    ranges, logits = network.observe(ranges, params, images)
    return nn.cross_entropy(logits, labels).mean(), ranges


@aotc.entry(
    images=aotc.Spec((model.BATCH, 8, 8, 1)), labels=aotc.Spec((model.BATCH,), "i32")
)
def train_step(state, images, labels):
    """One step of Adam; keeps parameters and ranges, and returns the loss."""
    params, step = state["params"], aotc.value_and_grad(loss, has_aux=True)
    (value, ranges), grads = step(params, state["ranges"], images, labels)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments, "ranges": ranges}, value


@aotc.entry(state=state.frozen, images=model.image)
def evaluate(state, images):
    """The logits of the parameters in training, with layers rounded as they are."""
    return network(state["ranges"], state["params"], images)


@aotc.entry(x=model.image)
def predict(weights, x):
    """The probability of each digit, by what train_quantized.py has written."""
    return nn.softmax(model.network(weights, x))
