r"""The models of this folder in PyTorch, as files that peers read: .onnx and .pt2.

    python benchmarks/execution/peers.py scoring out/
    aotc bench benchmarks/execution/scoring.py --traffic scoring.csv --models dynamic \
        --against onnxruntime:out/scoring.onnx,torch:out/scoring.pt2

Weights are those of the model.py, and sizes are symbols. `aotc bench` compares the
outputs. Needs torch, onnx and onnxscript.
"""

import runpy
import sys
from pathlib import Path

import numpy
import torch
from torch.nn import functional

HERE = Path(__file__).parent


def tensor(array):
    """Return an array as a frozen PyTorch parameter."""
    data = torch.from_numpy(numpy.ascontiguousarray(array))
    return torch.nn.Parameter(data, requires_grad=False)


def tensors(*arrays):
    """Return several arrays as a list of frozen PyTorch parameters."""
    return torch.nn.ParameterList([tensor(array) for array in arrays])


class Scoring(torch.nn.Module):
    """The language model of scoring.py in PyTorch, with the same weights."""

    names = ("tokens", "following")

    def __init__(self, weights):
        super().__init__()
        self.embedding = tensor(weights["tokens"])
        self.positions = tensor(weights["positions"])
        self.norm = self._norm(weights["norm"])
        blocks = [self._block(block) for block in weights["blocks"]]
        self.blocks = torch.nn.ModuleList(map(torch.nn.ModuleDict, blocks))
        self.heads = weights["blocks"][0]["attention"]["query"].shape[1]

    @staticmethod
    def _norm(p):
        """Return the parameters of a layer norm."""
        return tensors(p["scale"], p["bias"])

    def _block(self, p):
        """Return the parameters of a transformer block."""
        attention = p["attention"]
        width = len(attention["query"])
        wide = [
            attention[name].reshape(width, -1) for name in ("query", "key", "value")
        ]
        output = attention["output"].reshape(-1, width)
        dense = {
            name: (p[name]["kernel"].T, p[name]["bias"]) for name in ("up", "down")
        }
        return {
            "norm1": self._norm(p["norm1"]),
            "norm2": self._norm(p["norm2"]),
            "attention": tensors(numpy.concatenate(wide, axis=1).T, output.T),
            **{name: tensors(*pair) for name, pair in dense.items()},
        }

    def forward(self, tokens, following):
        """Return log probabilities [1, length] of the following tokens."""
        length, width = tokens.shape[1], self.embedding.shape[1]
        x = functional.embedding(tokens, self.embedding) + self.positions[:length]
        for p in self.blocks:
            h = functional.layer_norm(x, (width,), *p["norm1"])
            wide, output = p["attention"]
            parts = functional.linear(h, wide).chunk(3, dim=-1)
            heads = [x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in parts]
            h = functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + functional.linear(h.transpose(1, 2).flatten(2), output)
            h = functional.layer_norm(x, (width,), *p["norm2"])
            h = functional.gelu(functional.linear(h, *p["up"]))
            x = x + functional.linear(h, *p["down"])
        x = functional.layer_norm(x, (width,), *self.norm)
        scores = functional.log_softmax(functional.linear(x, self.embedding), dim=-1)
        return scores.gather(-1, following.long().unsqueeze(-1)).squeeze(-1)

    def examples(self):
        """Return example inputs, and which of their sizes are symbols."""
        length = torch.export.Dim("length", min=1, max=len(self.positions))
        # two tensors: torch.export takes one that is given twice for one input
        inputs = tuple(torch.zeros((1, 48), dtype=torch.int32) for _ in self.names)
        return inputs, ({1: length}, {1: length})


class Images(torch.nn.Module):
    """The convolutional network of images.py in PyTorch; images are channels-last."""

    names = ("image",)

    def __init__(self, weights):
        super().__init__()
        self.stem = self._conv(weights["stem"])
        stages = [
            {name: self._conv(part) for name, part in stage.items()}
            for stage in weights["stages"]
        ]
        self.stages = torch.nn.ModuleList(map(torch.nn.ModuleDict, stages))
        self.head = tensor(weights["head"])

    @staticmethod
    def _conv(p):
        """Return the parameters of a convolution in PyTorch's layout."""
        return tensors(p["kernel"].transpose(3, 2, 0, 1), p["bias"])

    def forward(self, image):
        """Return the logits [1, 100] of an image."""
        x = image.permute(0, 3, 1, 2)
        x = functional.relu(functional.conv2d(x, *self.stem, padding=1))
        for p in self.stages:
            # SAME: of even sizes, all padding is at the end
            x = functional.pad(x, (0, 1, 0, 1))
            x = functional.relu(functional.conv2d(x, *p["down"], stride=2))
            h = functional.relu(functional.conv2d(x, *p["first"], padding=1))
            x = functional.relu(x + functional.conv2d(h, *p["second"], padding=1))
        return x.mean(dim=(2, 3)) @ self.head

    def examples(self):
        """Return example inputs, and which of their sizes are symbols."""
        sizes = [
            torch.export.Dim(f"{n}_16", min=2, max=16) for n in ("height", "width")
        ]
        height, width = (16 * size for size in sizes)
        return (torch.zeros((1, 64, 96, 3)),), ({1: height, 2: width},)


def export(name, folder):
    """Write a model's ONNX and torch.export files."""
    weights = runpy.run_path(str(HERE / f"{name}.py"))["weights"].tree
    model = {"scoring": Scoring, "images": Images}[name](weights).eval()
    inputs, sizes = model.examples()
    program = torch.export.export(model, inputs, dynamic_shapes=sizes)
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, folder / f"{name}.pt2")
    torch.onnx.export(
        program, input_names=model.names, dynamo=True, external_data=False
    ).save(folder / f"{name}.onnx")


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
