"""Models to quantise."""

from pathlib import Path

from aotc import importers
from aotc.dialects import context
from aotc.mlir import ir
from aotc.quantization.quantizer import quantize

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SAMPLES = 128


def load(path, *entries):
    """A model as it is imported."""
    return importers.load(Path(path), entries)


def quantized(program, choice, *data):
    """Return the quantized form of a program."""
    with context(), ir.Location.unknown():
        return quantize(program, choice, *data)
