"""Handwritten digits for integers: the network of model.py, trained as it will compute.

    python examples/digits/train_quantized.py
    aotc quantize examples/digits/quantized.py:predict --recipe int8 \
        --ranges examples/digits/quantized.safetensors -o digits-int8.mlir
    aotc build digits-int8.mlir

Layers of `train_step` and `evaluate` round weights and inputs to what the recipe's
integers can hold, and learn to answer as the network of floats does (Hinton et al.,
"Distilling the knowledge in a neural network", 2015), which takes no labels. The second
command makes integers of what was trained.
"""

import os
from pathlib import Path

import model
import numpy

import aotc
import aotc.numpy as np
from aotc import nn, optim

aotc.bundle(name="digits-quantized", version="1.0.0")

RECIPE = os.environ.get("DIGITS_RECIPE", "int8")  # or int4-g32, …
TRAINED = Path(__file__).with_name("quantized.safetensors")
SAMPLES = numpy.load(Path(__file__).with_name("digits.npz"))["train_x"][:256]

teacher = model.weights
network = aotc.quantization_aware(model.network, RECIPE, learned=True)
ranges = network.init(teacher.tree, SAMPLES.astype("float32"))
start = {"params": teacher.tree, "ranges": ranges}
optimizer = optim.sgd(2e-3, momentum=0.9)
state = aotc.State({"trained": start, "moments": optimizer.init(start)})
weights = aotc.Weights(
    aotc.Weights.load(TRAINED.name).tree["state"]["trained"]["params"]
    if TRAINED.exists()
    else teacher.tree
)


def loss(trained, teacher, images):
    """Mean cross-entropy with the probabilities that the network of floats gives."""
    wanted = nn.softmax(model.network(teacher, images))
    logits = network(trained["ranges"], trained["params"], images)
    return -np.sum(wanted * nn.log_softmax(logits), -1).mean()


@aotc.entry(images=aotc.Spec((model.BATCH, 8, 8, 1)))
def train_step(state, teacher, images):
    """One step for parameters and ranges; returns the loss."""
    value, grads = aotc.value_and_grad(loss)(state["trained"], teacher, images)
    updates, moments = optimizer.update(grads, state["moments"], state["trained"])
    trained = optim.apply_updates(state["trained"], updates)
    return {"trained": trained, "moments": moments}, value


@aotc.entry(state=state.frozen, images=model.image)
def evaluate(state, images):
    """The logits of the parameters in training, with layers rounded as they are."""
    return network(state["trained"]["ranges"], state["trained"]["params"], images)


@aotc.entry(x=model.image)
def predict(weights, x):
    """The probability of each digit, by what train_quantized.py has written."""
    return nn.softmax(model.network(weights, x))
