"""Time the same calls in PyTorch: eagerly, and captured as a CUDA graph.

    python peers.py CALLS SECONDS OUT

CALLS is a JSON list of [program, entry, sizes]. Needs PyTorch alone. Parameters are
random: what a call computes is the same, its numbers are not. `call` begins and ends
with arrays on the host, `eager` and `graph` leave them on the GPU. Without a GPU the
processor is timed, and only eagerly.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from measuring import captured, device_events, is_copy, measure, write
from torch import nn
from torch.nn import functional as F

PROFILED = 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# As in NumPy and aotc, f32 is multiplied in f32.
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def normal(*shape, dtype=torch.float32):
    """Return random normal numbers on the GPU."""
    return torch.randn(*shape, device=DEVICE).to(dtype)


def classes(*shape):
    """Return random classes 0 and 1 on the GPU."""
    return torch.randint(0, 2, shape, device=DEVICE)


class Digits(nn.Module):
    """The network of examples/digits in PyTorch."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.dense1, self.dense2 = nn.Linear(512, 64), nn.Linear(64, 10)

    def forward(self, x):
        """Logits of images."""
        x = F.relu(self.conv2(F.relu(self.conv1(x / 16))))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.dense2(F.relu(self.dense1(x)))


class Cnn(nn.Module):
    """The network of examples/cnn in PyTorch."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden, self.head = nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        """Logits of images."""
        x = F.local_response_norm(F.relu(self.conv1(x)), 5)
        x = F.max_pool2d(x, 3, 2, padding=1)
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, 2, padding=1).flatten(1)
        x = F.dropout(F.relu(self.hidden(x)), 0.5, self.training)
        return self.head(x)


class Encoder(nn.Module):
    """The network of models/encoder.py in PyTorch."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(256), nn.LayerNorm(256)
        self.qkv, self.out = nn.Linear(256, 768, False), nn.Linear(256, 256, False)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        """Return the result of one encoder layer."""
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, 4, 64)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.out(h.reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def training(network, optimizer_of, *shape):
    """Return a training step of a network, and its inputs."""
    network = network.to(DEVICE).train()
    optimizer = optimizer_of(network.parameters())

    def step(images, labels):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (normal(*shape), classes(shape[0]))


def inference(network, *inputs):
    """Return a network in inference mode, and its inputs."""
    network = network.to(DEVICE).to(inputs[0].dtype).eval()
    return torch.no_grad()(network), inputs


def softmax_of(network):
    """Return the network followed by a softmax."""
    return nn.Sequential(network, nn.Softmax(-1))


def adam(parameters):
    """Return Adam in a form that CUDA graphs can capture."""
    return torch.optim.Adam(parameters, 1e-3, capturable=DEVICE == "cuda")


def momentum(parameters):
    """Return SGD with momentum."""
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def attention(sizes, dtype, causal):
    """Return an attention function, and its three inputs in aotc's layout."""
    shape = sizes["batch"], sizes["length"], 4, 64
    inputs = [normal(*shape, dtype=dtype) for _ in range(3)]

    def attend(*arrays):
        q, k, v = (x.transpose(1, 2) for x in arrays)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return found.transpose(1, 2).contiguous()

    return attend, inputs


def recurrence(sizes):
    """Return a simple recurrent network, written as a loop, and its inputs."""
    kernel = 0.1 * normal(64, 64)

    def recur(xs):
        h, states = torch.zeros_like(xs[0]), []
        for x in xs:
            h = torch.tanh(h @ kernel + x)
            states.append(h)
        return h, torch.stack(states)

    return recur, (normal(sizes["steps"], sizes["batch"], 64),)


def normalised(x):
    """Return softmax, layer norm and variance of rows."""
    return x.softmax(1), F.layer_norm(x, x.shape[1:]), x.var(1, correction=0)


# program.entry → a function and its inputs, for some sizes
CALLS = {
    "digits.train_step": lambda s: training(Digits(), adam, 64, 1, 8, 8),
    "digits.predict": lambda s: inference(
        softmax_of(Digits()), normal(s["batch"], 1, 8, 8)
    ),
    "cnn.train_step": lambda s: training(Cnn(), momentum, 64, 1, 8, 8),
    "cnn.predict": lambda s: inference(softmax_of(Cnn()), normal(s["batch"], 1, 8, 8)),
    "encoder.encode": lambda s: inference(
        Encoder(), normal(s["batch"], 128, 256, dtype=torch.bfloat16)
    ),
    "attention.attend": lambda s: attention(s, torch.float32, False),
    "attention.attend_before": lambda s: attention(s, torch.float16, True),
    "reduction.sums": lambda s: (
        lambda x: (x.sum(1), x.sum(0), x.sum()),
        (normal(s["rows"], s["columns"]),),
    ),
    "reduction.normalised": lambda s: (normalised, (normal(s["n"], s["m"]),)),
    "scan.recur": recurrence,
    "scan.running": lambda s: (
        lambda x: (x.cumsum(0), x.cumsum(2)),
        (normal(s["steps"], s["batch"], 64),),
    ),
}


def settled(call):
    """Return a call that waits for the GPU."""

    def run():
        call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    return run


def from_host(function, inputs):
    """Return a call that copies its inputs to the GPU and its results back."""
    given = [x.cpu() for x in inputs]

    def call():
        found = function(*(x.to(DEVICE) for x in given))
        found = found if isinstance(found, tuple) else (found,)
        return [x.cpu() for x in found]

    return call


def launches(run):
    """Return the number of kernels that a call launches."""
    events = device_events(lambda: [run() for _ in range(PROFILED)])
    copies = list(filter(is_copy, events))
    return {
        "kernels": (len(events) - len(copies)) / PROFILED,
        "copies": len(copies) / PROFILED,
    }


def main():
    """Time the calls that the command line names; write what is found as it comes."""
    calls, seconds, out = json.loads(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    found = {"torch": torch.__version__, "device": DEVICE, "calls": {}}
    for program, entry, sizes in calls:
        name = f"{program}.{entry}"
        if name not in CALLS:
            continue
        row = found["calls"][name] = {}
        try:
            function, inputs = CALLS[name](sizes)
            run = partial(function, *inputs)
            row["call"] = measure(settled(from_host(function, inputs)), seconds)
            row["eager"] = measure(settled(run), seconds)
            if DEVICE == "cuda":
                row["launches"] = launches(run)
                row["graph"] = measure(settled(captured(run)), seconds)
        except Exception as error:  # one that fails leaves the others
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        write(out, found)


if __name__ == "__main__":
    main()
