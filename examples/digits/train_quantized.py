"""Train the digits model for integers, from the weights that were trained as floats.

    python examples/digits/train_quantized.py [--epochs 5]

It writes `quantized.safetensors`, the state of the training: parameters and ranges.
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc import training
from aotc.pipeline import build

HERE = Path(__file__).parent


def main():
    """Build the entries, train, and write the state."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    epochs = parser.parse_args().epochs
    with tempfile.TemporaryDirectory() as folder:
        entries = ("train_step", "evaluate")
        print("building the training step, with its self-check …", flush=True)
        report = build(HERE / "quantized.py", entries=entries, output=Path(folder))
        model = aotc.load(report.bundle)
        print(f"test accuracy {train(model, epochs):.1%}")
        model.save_state(HERE / "quantized.safetensors")


def train(model, epochs=5):
    """Train a loaded model; returns its accuracy on the test images."""
    images = numpy.load(HERE / "digits.npz")["train_x"].astype("float32")

    def tell(step):
        """Print the loss of the last step of each epoch."""
        if step.step * epochs % step.total == 0:
            loss = float(step.result)
            print(
                f"epoch {step.epoch}  loss {loss:.4f}  {step.seconds:.0f} s", flush=True
            )

    training.fit(model, {"images": images}, epochs=epochs, on_step=tell)
    logits = model.evaluate(images=numpy.load(HERE / "test_x.npy"))
    return float((logits.argmax(axis=1) == numpy.load(HERE / "test_y.npy")).mean())


if __name__ == "__main__":
    main()
