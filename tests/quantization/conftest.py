"""The digits example, whose weights are trained, and data to calibrate with."""

import numpy as np
import pytest

from aotc.quantization.data import Data
from tests.quantization.models import DIGITS, SAMPLES, load


@pytest.fixture(scope="session")
def calibration():
    """128 digits of the training data."""
    stored = np.load(DIGITS / "digits.npz")
    return Data({"x": stored["train_x"][:SAMPLES].astype("f")}, "calibration.npz")


@pytest.fixture(scope="session")
def held_out():
    """Digits that nothing was trained or calibrated on, and what they are."""
    x = np.load(DIGITS / "test_x.npy").astype("f")
    return Data({"x": x, "labels": np.load(DIGITS / "test_y.npy")}, "held-out.npz")


@pytest.fixture
def digits():
    """The entry `predict` of the example."""
    return load(DIGITS / "model.py", "predict")
