"""The decoder of `sized.py` in PyTorch, without its cache, as .pt2 or .onnx.

    python benchmarks/decoders/sized_torch.py FILE SHAPES

FILE ends with .pt2, or with .onnx, whose weights then lie in a file beside it. SHAPES
is JSON: the shape of each weight by name. `benchmarks/build_memory.py` calls this.
"""

import json
import sys
from pathlib import Path

import torch
from torch.nn import functional

DEPTH = 64  # of a head
PROMPT = 128  # tokens that are read at once


class Decoder(torch.nn.Module):
    """A decoder with the given weight shapes; returns the logits after a prompt.

    Args:
        shapes: of the weights by name.
    """

    def __init__(self, shapes):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weights = torch.nn.ParameterDict()
        for name, shape in shapes.items():
            data = torch.zeros(shape)  # but for a few elements, as in build_memory.py
            data.view(-1)[:256] = 0.1 * torch.randn(256, generator=generator)
            self.weights[name.replace(".", "_")] = data
        self.layers = sum(name.endswith(".q") for name in shapes)

    def forward(self, tokens):
        """Return the logits of the token after the prompt."""
        w = self.weights
        x = functional.embedding(tokens, w["words"])
        for n in range(self.layers):
            p = {name: w[f"layers_{n}_{name}"] for name in NAMES}
            h = norm(x, p["before"])
            heads = (*tokens.shape, -1, DEPTH)
            q, k, v = ((h @ p[name].T).view(heads).transpose(1, 2) for name in "qkv")
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + y.transpose(1, 2).reshape(x.shape) @ p["o"].T
            h = norm(x, p["after"])
            gated = functional.silu(h @ p["gate"].T) * (h @ p["up"].T)
            x = x + gated @ p["down"].T
        return norm(x[:, -1], w["norm"]) @ w["head"].T


NAMES = ("q", "k", "v", "o", "gate", "up", "down", "before", "after")


def norm(x, scale):
    """Return the RMS norm of x, times a scale."""
    return functional.rms_norm(x, scale.shape, scale, 1e-6)


def write(file, shapes):
    """Export the decoder to a file."""
    tokens = torch.zeros((1, PROMPT), dtype=torch.int64)
    program = torch.export.export(Decoder(shapes).eval(), (tokens,))
    if file.suffix == ".pt2":
        torch.export.save(program, file)
        return
    exported = torch.onnx.export(program, input_names=["tokens"], dynamo=True)
    exported.save(file, external_data=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]), json.loads(sys.argv[2]))
