"""A U-Net that finds the discs and rectangles of noisy images, pixel by pixel.

    aotc build examples/unet/model.py

Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image
segmentation", MICCAI 2015. On the way down each level halves the image; on the way up
transposed convolutions double it, and what was seen at that level is put beside.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="unet", version="1.0.0")

SIZE = 32
WIDTHS = (8, 16, 32)
CLASSES = 3
BATCH = 8


def network(params, images):
    """Logits [batch, size, size, classes] of images [batch, size, size, 1]."""
    x, seen = images, []
    for p in params["down"]:
        x = twice(p, x)
        seen.append(x)
        x = nn.max_pool(x, 2)
    x = twice(params["bottom"], x)
    for p in params["up"]:
        x = nn.conv_transpose(x, **p["double"], strides=2)
        x = twice(p, np.concatenate([seen.pop(), x], axis=-1))
    return nn.conv2d(x, **params["head"])


def twice(p, x):
    """Two convolutions that keep the size."""
    x = nn.relu(nn.conv2d(x, **p["first"], padding="SAME"))
    return nn.relu(nn.conv2d(x, **p["second"], padding="SAME"))


def init(seed=0):
    """Fresh parameters: kernels by He et al. (2015), biases zero."""
    keys, he = iter(random.split(random.key(seed), 64)), nn.initializers.he_normal()

    def conv(size, inputs, outputs):
        kernel = he(next(keys), (size, size, inputs, outputs))
        return {"kernel": kernel, "bias": np.zeros(outputs)}

    def pair(inputs, outputs):
        return {"first": conv(3, inputs, outputs), "second": conv(3, outputs, outputs)}

    down = [pair(*sizes) for sizes in zip((1, *WIDTHS), WIDTHS[:-1], strict=False)]
    up = [
        {"double": conv(2, 2 * width, width), **pair(2 * width, width)}
        for width in reversed(WIDTHS[:-1])
    ]
    bottom, head = pair(*WIDTHS[-2:]), conv(1, WIDTHS[0], CLASSES)
    return {"down": down, "bottom": bottom, "up": up, "head": head}


def loss(params, images, classes):
    """Mean cross-entropy over all pixels."""
    return nn.cross_entropy(network(params, images), classes).mean()


start = init()
optimizer = optim.adam(optim.warmup_cosine_decay_schedule(0.0, 6e-3, 60, 600))
state = aotc.State({"params": start, "moments": optimizer.init(start)})

image = (SIZE, SIZE)


@aotc.entry(
    images=aotc.Spec((BATCH, *image, 1)), classes=aotc.Spec((BATCH, *image), "i32")
)
def train_step(state, images, classes):
    """One step of Adam; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, images, classes)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, images=aotc.Spec(("batch", *image, 1)))
def predict(state, images):
    """The likeliest class of each pixel, by the parameters in training."""
    return np.argmax(network(state["params"], images), axis=-1)
