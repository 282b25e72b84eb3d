"""The steps of a loop, on entries of which only the results matter."""

from __future__ import annotations

import numpy as np

from aotc.artifacts.manifest import EntryPoint, Leaf
from aotc.core import dtypes
from aotc.training.metrics import MetricsLog
from aotc.training.steps import StepRunner

RESULTS = {
    "bf16": -0.0078125,
    "f16": 0.1,
    "f64": 0.1,
    "u64": 2**63 + 1,
    "i64": -(2**62) - 1,
    "bool": True,
}


class Fixed:
    """A model whose every entry returns the same results."""

    def entry(self, name):
        return self

    def call_flat(self, leaves):
        return [np.array(x, dtypes.to_numpy(t)) for t, x in RESULTS.items()]


def test_metrics_are_kept_in_the_dtype_of_their_output_to_the_bit():
    outputs = tuple(Leaf(name, name, ()) for name in RESULTS)
    point = EntryPoint("train", "train-step", (), None, outputs, 0, (), ())
    runner = StepRunner(
        Fixed(), point, {}, MetricsLog(None), total=2, allow_nan=False, on_step=None
    )
    expected = runner.run(1, 1, {})
    runner.run(2, 1, {})
    found = runner.metrics()
    assert list(found) == list(RESULTS)
    for one, both in zip(expected, found.values(), strict=True):
        assert both.dtype == one.dtype
        assert both.tobytes() == one.tobytes() * 2
