"""Random models keep their meaning where kernels compute regions of them.

`python -m benchmarks.fuzz.weighted` draws more of them.
"""

import pytest

from aotc import processor
from aotc.kernels import contraction, rows
from aotc.pipeline import build
from aotc.target import Target
from benchmarks.fuzz.weighted import differences, model_source


@pytest.mark.filterwarnings("ignore:.*is not used")  # a random entry need not read all
@pytest.mark.parametrize("level", ["x86_64-v3", "x86_64-v4"])
def test_random_entries_compute_what_their_model_says(level, tmp_path, monkeypatch):
    target = Target.parse(level)
    if not set(target.cpu_features_required) <= set(processor.cpu_features()):
        pytest.skip(f"this processor runs no code for {target}")
    monkeypatch.setattr(contraction, "_LEAST_WORK", 1)  # kernels for small ones too
    monkeypatch.setattr(rows, "_LEAST", 1)
    model = tmp_path / "model.py"
    model.write_text(model_source(seed=9, entries=20), encoding="utf-8")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(model, output=tmp_path, **asked)
    assert list(differences(model, report.bundle)) == []
