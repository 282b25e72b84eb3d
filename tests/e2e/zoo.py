"""Models of several kinds, small enough to evaluate by the reference, as entries."""

import numpy

import aotc
import aotc.numpy as np
from aotc import control, nn, optim, random

rng = numpy.random.default_rng(0)


def normal(*shape, scale=0.3):
    """Seeded random weights."""
    return (scale * rng.normal(size=shape)).astype("f4")


def norm(size):
    """Scale and bias of a normalisation."""
    return {"scale": numpy.ones(size, "f4"), "bias": numpy.zeros(size, "f4")}


# ---- a convolutional network with every kind of convolution, over a symbolic batch ---

cnn = {
    "strided": normal(3, 3, 3, 8),
    "dilated": normal(3, 3, 8, 16),
    "depthwise": normal(3, 3, 1, 16),
    "grouped": normal(3, 3, 4, 16),
    "norm": norm(16),
    "head": normal(16, 5),
}


def batch_norm(x, scale, bias):
    """Normalised over all axes but the last."""
    axes = (0, 1, 2)
    centered = x - x.mean(axes)
    return centered * np.rsqrt(x.var(axes) + 1e-5) * scale + bias


def cnn_loss(p, x, y):
    """Cross-entropy of the network, and weight decay."""
    h = nn.relu(nn.conv2d(x, p["strided"], strides=2, padding="SAME"))
    h = nn.max_pool(h, 3, strides=2, padding=1)
    h = batch_norm(nn.conv2d(h, p["dilated"], padding="SAME", dilation=2), **p["norm"])
    skip = h
    h = nn.silu(nn.conv2d(h, p["depthwise"], padding="SAME", groups=16))
    h = nn.gelu(nn.conv2d(h, p["grouped"], padding=1, groups=4)) + skip
    logits = nn.avg_pool(h, 2).mean((1, 2)) @ p["head"]
    return nn.cross_entropy(logits, y).mean() + 1e-3 * (p["head"] ** 2).sum()


sgd = optim.sgd(0.05, momentum=0.9)
cnn_state = aotc.State({"params": cnn, "moments": sgd.init(cnn)})


@aotc.entry(x=aotc.Spec(("batch", 16, 16, 3)), y=aotc.Spec(("batch",), "i32"))
def cnn_step(cnn_state, x, y):
    """One step of SGD with momentum."""
    value, grads = aotc.value_and_grad(cnn_loss)(cnn_state["params"], x, y)
    updates, moments = sgd.update(grads, cnn_state["moments"], cnn_state["params"])
    params = optim.apply_updates(cnn_state["params"], updates)
    return {"params": params, "moments": moments}, value


# ---- a transformer with dropout ------------------------------------------------------

WIDTH, HEADS, LENGTH = 16, 2, 8
gpt = {
    "token": normal(20, WIDTH),
    "position": normal(LENGTH, WIDTH),
    "attention": {
        "norm": norm(WIDTH),
        "qkv": normal(WIDTH, 3 * WIDTH),
        "out": normal(WIDTH, WIDTH),
    },
    "mlp": {
        "norm": norm(WIDTH),
        "up": normal(WIDTH, 4 * WIDTH),
        "down": normal(4 * WIDTH, WIDTH),
    },
}


def attention(p, x):
    """Causal self-attention."""
    batch, length, _ = x.shape
    parts = np.split(nn.layer_norm(x, **p["norm"]) @ p["qkv"], 3, axis=-1)
    shape = (batch, length, HEADS, WIDTH // HEADS)
    q, k, v = (np.transpose(np.reshape(a, shape), (0, 2, 1, 3)) for a in parts)
    scores = q @ np.swapaxes(k, -1, -2) / (WIDTH // HEADS) ** 0.5
    steps = np.arange(length)
    causal = np.greater_equal(steps[:, None], steps[None, :])
    mixed = nn.softmax(np.where(causal, scores, -1e9)) @ v
    return np.reshape(np.transpose(mixed, (0, 2, 1, 3)), x.shape) @ p["out"]


def gpt_logits(p, ids, key=None):
    """Next-token logits; dropout where there is a key."""
    x = nn.embedding(p["token"], ids) + p["position"][: ids.shape[1]]
    x = x + attention(p["attention"], x)
    h = nn.gelu(nn.layer_norm(x, **p["mlp"]["norm"]) @ p["mlp"]["up"], approximate=True)
    h = h if key is None else nn.dropout(key, h, 0.1)
    return (x + h @ p["mlp"]["down"]) @ p["token"].T


def gpt_loss(p, ids, key):
    """Mean surprise at the next token."""
    return nn.cross_entropy(gpt_logits(p, ids[:, :-1], key), ids[:, 1:]).mean()


adam = optim.adam(1e-2)
gpt_state = aotc.State({"params": gpt, "moments": adam.init(gpt), "key": random.key(3)})
gpt_weights = aotc.Weights(gpt)


@aotc.entry(ids=aotc.Spec((3, LENGTH), "i32"))
def gpt_step(gpt_state, ids):
    """One step of Adam; the random key is part of the state."""
    key, dropout_key = random.split(gpt_state["key"])
    loss = aotc.value_and_grad(gpt_loss)
    value, grads = loss(gpt_state["params"], ids, dropout_key)
    updates, moments = adam.update(grads, gpt_state["moments"], gpt_state["params"])
    params = optim.apply_updates(gpt_state["params"], updates)
    return {"params": params, "moments": moments, "key": key}, value


@aotc.entry(ids=aotc.Spec(("batch", aotc.Dim("length", max=LENGTH)), "i32"))
def gpt_predict(gpt_weights, ids):
    """Logits for any batch and length."""
    return gpt_logits(gpt_weights, ids)


# ---- a recurrent network, and derivatives of derivatives -----------------------------

cell = aotc.Weights({"x": normal(4, 32), "h": normal(8, 32), "bias": normal(32)})


def lstm(p, xs):
    """The last hidden state of six steps."""
    h = c = np.zeros((xs.shape[0], 8))
    for step in range(6):
        gates = xs[:, step] @ p["x"] + h @ p["h"] + p["bias"]
        i, f, g, o = np.split(gates, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
        h = nn.sigmoid(o) * np.tanh(c)
    return h


@aotc.entry(xs=aotc.Spec(("batch", 6, 4)), target=aotc.Spec(("batch", 8)))
def lstm_gradient(cell, xs, target):
    """The loss, and its gradient by weights and inputs."""
    return aotc.value_and_grad(
        lambda p, inputs: np.square(lstm(p, inputs) - target).mean(), argnums=(0, 1)
    )(cell, xs)


@aotc.entry(x=aotc.Spec((3,), "f64"))
def second_derivative(x):
    """The gradient of the squared gradient of sin(x) e**x tanh(x), in f64."""

    def first(v):
        return aotc.grad(lambda u: (np.sin(u) * np.exp(u) * np.tanh(u)).sum())(v)

    return aotc.grad(lambda v: (first(v) ** 2).sum())(x)


# ---- control flow --------------------------------------------------------------------

recurrent = aotc.Weights(normal(8, 8))


@aotc.entry(xs=aotc.Spec(("time", "batch", 8)))
def scan_gradient(recurrent, xs):
    """A recurrent network over any number of steps and examples: states, a gradient."""

    def states(w):
        def step(h, x):
            h = np.tanh(h @ w + x)
            return h, h

        last, every = control.scan(step, np.zeros(xs.shape[1:]), xs)
        return np.sum(every**2.0), (last, every)

    return aotc.value_and_grad(states, has_aux=True)(recurrent)


@aotc.entry(x=aotc.Spec((9, 3)))
def scans(x):
    """Scans both ways, of as many steps as a turn of the loop has, fewer and more."""

    def scanned(rows, reverse):
        def step(carried, row):
            total, count = carried
            total = np.tanh(total + row)
            return (total, count + 1.0), (total, np.sum(row) * count)

        start = np.zeros(3), np.zeros(())
        return control.scan(step, start, rows, reverse=reverse)

    def loss(x):
        _, (totals, products) = scanned(x, True)
        return np.sum(totals[2:7] ** 2.0) + np.sum(np.sin(products))

    found = [scanned(x[:n], n % 4 == 2) for n in (1, 4, 6)]
    return found, scanned(x, False), aotc.grad(loss)(x)


def doubled(x, max_steps=None):
    """Double as often as needed: a number of steps that the values decide."""
    return control.while_loop(
        lambda v: np.sum(np.abs(v)) < 50.0,
        lambda v: v * 2.0 + np.sign(v),
        x + 0.1,
        max_steps,
    )


@aotc.entry(x=aotc.Spec((5,)))
def branches(x):
    """Branches, a loop of unknown length, for each of three, and its gradient."""
    chosen = control.switch(np.argmax(x), [np.sum, np.max, lambda v: np.sum(v * x)], x)
    curved = control.cond(np.sum(x) > 0.0, np.sin, lambda v: v * v, x)
    scales = np.asarray([0.1, 1.0, 10.0])
    slope = aotc.grad(lambda x: np.sum(doubled(x, max_steps=12) ** 2.0))(x)
    each = aotc.vmap(lambda s: doubled(s * x))(scales)
    return chosen, curved, doubled(x), each, slope


@aotc.entry(x=aotc.Spec(("batch", 5, 4)), b=aotc.Spec((4,)))
def sums(x, b):
    """Sums of products over all sets of axes, with factors that have some of them."""
    axes = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    factors = [b, np.exp(b), x[0], x[:, :1], x[:, :, :1]]
    return [np.sum(x * factor, axis) for factor in factors for axis in axes]


@aotc.entry(x=aotc.Spec((5, "batch", 4)))
def equal_starts(x):
    """Loops that begin with one value several times."""

    def step(carried, each):
        scaled = enumerate(carried, start=1)
        carried = tuple(np.tanh(v * 0.5 + each * n) for n, v in scaled)
        return carried, sum(carried)

    zeros = np.zeros_like(x[0])
    return [control.scan(step, (zeros,) * count, x)[1] for count in (2, 3, 4)]


@aotc.entry(start=aotc.Spec(()), xs=aotc.Spec(("batch",)))
def totals(start, xs):
    """A loop that carries a number and stacks numbers."""
    return control.scan(lambda total, x: (total + x, total * x), start, xs)


@aotc.entry(x=aotc.Spec(("batch", 6, 2)), positions=aotc.Spec((3,), "i32"))
def channels(x, positions):
    """Read by an index, of every other element in memory."""
    one = x[..., 1]
    return np.flip(one, 1), np.take(one, positions, 1), np.flip(x[:, 1:, 0], 0)


@aotc.entry(x=aotc.Spec(("batch", 3)))
def loop_derivatives(x):
    """Second derivatives of a bounded loop and a branch, and a batch of them."""

    def bounded(x):
        return np.sum(
            control.while_loop(
                lambda v: np.sum(v) < 50.0, lambda v: v * 2 + np.sin(x), x, max_steps=5
            )
        )

    def branch(x):
        return np.sum(control.cond(np.sum(x) > 4.0, np.sin, lambda v: v * v, x))

    def along(function):
        return lambda x: aotc.jvp(function, [x], [np.cos(x)])[1]

    def squared(function):
        return lambda x: np.sum(aotc.grad(function)(x) ** 2.0)

    second = [
        order for f in (bounded, branch)
        for order in (aotc.grad(along(f)), along(aotc.grad(f)), aotc.grad(squared(f)))
    ]  # fmt: skip
    together = aotc.vmap(aotc.grad(squared(bounded)))(np.stack([x, x * 0.5]))
    return [function(x) for function in second], together


@aotc.entry(x=aotc.Spec(("batch", 3)))
def loops_of_numbers(x):
    """Loops and branches that carry numbers, read by others and with derivatives."""
    first = x[:, 0]

    def newton(a):
        return control.while_loop(
            lambda y: np.abs(y * y - a) > 1e-5 * a, lambda y: 0.5 * (y + a / y), a
        )

    def collatz(n):
        def step(carried):
            n, steps = carried
            n = control.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)
            return n, steps + 1

        return control.while_loop(lambda carried: carried[0] != 1, step, (n, 0))[1]

    def series(x):
        count = lambda i, s: s * 0.9 + i.astype("f32") / x.size  # noqa: E731
        return control.fori_loop(0, x.shape[0] * 4, count, np.sum(x))

    both = control.fori_loop(0, 9, lambda i, c: (c[1], c[0] + c[1]), (x[0, 0], x[0, 1]))
    mixed = control.scan(lambda c, e: (c * 0.5 + e, None), 0.0, first, reverse=True)[0]
    return {
        "root": newton(np.sum(x)) * x,
        "slope": aotc.jvp(lambda x: newton(np.sum(x)), [x], [x])[1],
        "roots": aotc.vmap(newton)(first),
        "steps": collatz((np.sum(x) * 100).astype("i32") + 1),
        "gradient": aotc.grad(series)(x),
        "both": (both, mixed),
        "none": control.fori_loop(0, 0, lambda i, s: s + 1.0, x[0, 0]),
    }
