"""Write the losses of a model's first steps, by PyTorch in f64.

    python -m training.expected FOLDER

reads what `training.export` has written, and writes `expected.npz`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from .runners.eager import loader

STEPS = 6  # the first is the call with which a worker starts


def main() -> None:
    """Compute the expected losses in PyTorch and write them."""
    folder = Path(sys.argv[1])
    with np.load(folder / "inputs.npz") as file:
        inputs = dict(file)
    load = loader(dtype=torch.float64)
    step = load(folder / "params.npz", inputs, torch.get_num_threads())
    losses = np.array([step()[0] for _ in range(STEPS)])
    np.savez(folder / "expected.npz", losses[1:])


if __name__ == "__main__":
    main()
