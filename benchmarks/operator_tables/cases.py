"""The operators that are compared: those of ResNet-50, MobileNetV2, BERT and GPT-2.

Batch 1, f32. A case knows its sizes and what it computes; `model` and `torch_calls` say
how each system writes it. Bytes are those of inputs, weights and outputs, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An operator of the tables with its sizes.

    Attributes:
        name: of the entry.
        family: conv, gemm, batched, or an operator of rows.
        shape: of the input.
        weight: of the constant operand (HWIO for convolutions); () if there is none.
        other: of a second input; () if there is none.
        stride: of a convolution.
        groups: of a convolution.
    """

    name: str
    family: str
    shape: Shape
    weight: Shape = ()
    other: Shape = ()
    stride: int = 1
    groups: int = 1

    @property
    def result(self) -> Shape:
        """The shape of the output."""
        if self.family == "conv":
            _, height, width, _ = self.shape
            sizes = (-(-size // self.stride) for size in (height, width))
            return (1, *sizes, self.weight[-1])
        if self.family == "gemm":
            return (self.shape[0], self.weight[1])
        if self.family == "batched":
            return (*self.shape[:-1], self.other[-1])
        return self.shape if self.family in ROWS else self.shape[:-1]

    @property
    def flops(self) -> int:
        """Multiplications and additions; 0 for row operators."""
        if self.family == "conv":
            return 2 * prod(self.result) * prod(self.weight[:-1])
        if self.family in ("gemm", "batched"):
            return 2 * prod(self.result) * self.shape[-1]
        return 0

    @property
    def bytes(self) -> int:
        """The least bytes to read and write."""
        shapes = (self.shape, self.weight, self.other, self.result)
        return 4 * sum(prod(shape) for shape in shapes if shape)


ROWS = ("softmax", "layer_norm")  # the others are reductions of the last axis


def conv(size: int, inputs: int, outputs: int, window: int, stride: int, groups: int):
    """Return the case of a convolution with "SAME" padding."""
    name = f"conv_{size}_{inputs}_{outputs}_{window}x{window}_s{stride}"
    weight = (window, window, inputs // groups, outputs)
    shape = (1, size, size, inputs)
    if groups > 1:
        name = f"depthwise_{size}_{inputs}_{window}x{window}_s{stride}"
    return Case(name, "conv", shape, weight, stride=stride, groups=groups)


def resnet50() -> Iterator[Case]:
    """Yield the convolutions of ResNet-50 (He et al. 2015, table 1)."""
    yield conv(224, 3, 64, 7, 2, 1)
    inputs, size = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            yield conv(size, inputs, width, 1, 1, 1)
            yield conv(size, width, width, 3, stride, 1)
            if not block:
                yield conv(size, inputs, 4 * width, 1, stride, 1)
            size //= stride
            yield conv(size, width, 4 * width, 1, 1, 1)
            inputs = 4 * width


# expansion, channels, blocks, stride: Sandler et al., "MobileNetV2", 2018, table 2
_INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
    (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet_v2() -> Iterator[Case]:
    """Yield the convolutions of MobileNetV2."""
    yield conv(224, 3, 32, 3, 2, 1)
    inputs, size = 32, 112
    for expansion, channels, blocks, first in _INVERTED:
        for block in range(blocks):
            stride, hidden = first if not block else 1, inputs * expansion
            if expansion > 1:
                yield conv(size, inputs, hidden, 1, 1, 1)
            yield conv(size, hidden, hidden, 3, stride, hidden)
            size //= stride
            yield conv(size, hidden, channels, 1, 1, 1)
            inputs = channels
    yield conv(size, inputs, 1280, 1, 1, 1)


def gemm(rows: int, inner: int, columns: int) -> Case:
    """Return the case of a product by a weight."""
    name = f"gemm_{rows}_{inner}_{columns}"
    return Case(name, "gemm", (rows, inner), (inner, columns))


def batched(heads: int, rows: int, inner: int, columns: int) -> Case:
    """Return the case of a batched product of two inputs."""
    shapes = (heads, rows, inner), (heads, inner, columns)
    name = f"batched_{heads}_{rows}_{inner}_{columns}"
    return Case(name, "batched", shapes[0], other=shapes[1])


def transformers() -> Iterator[Case]:
    """Yield the products of BERT-base (128 tokens) and of GPT-2 (64 tokens, and
    one).
    """
    for rows, layers in (
        (128, ((768, 768), (768, 2304), (768, 3072), (3072, 768))),
        (64, ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257))),
        (1, ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257))),
    ):
        for inner, columns in layers:
            yield gemm(rows, inner, columns)
    for tokens in (128, 64):
        yield batched(12, tokens, 64, tokens)
        yield batched(12, tokens, tokens, 64)


# in a cache, and four times as large as a last level of 32 MB
_ROW_SIZES = ((1536, 128), (128, 768), (64, 50257), (32768, 1024))


def rows() -> Iterator[Case]:
    """Yield the cases of softmax, norms and reductions of the last axis."""
    for family in (*ROWS, "sum", "max"):
        for count, width in _ROW_SIZES:
            yield Case(f"{family}_{count}_{width}", family, (count, width))


def all_cases() -> list[Case]:
    """Return all cases, each once."""
    found = [*resnet50(), *mobilenet_v2(), *transformers(), *rows()]
    return list(dict.fromkeys(found))


def arrays(case: Case):
    """Draw input, weights and second input of a case; None for those it lacks."""
    import numpy as np

    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(shape, np.float32) if shape else None
        for shape in (case.shape, case.weight, case.other)
    ]
