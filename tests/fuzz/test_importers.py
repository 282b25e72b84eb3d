"""Random modules and graphs are imported right; many more by the command."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from benchmarks.fuzz import importers  # noqa: E402


@pytest.mark.parametrize(("kind", "count"), [("torch", 6), ("onnx", 20)])
def test_random_networks_compute_what_their_frameworks_do(kind, count):
    found = [outcome for _, outcome in importers.outcomes(count, 1000, kind)]
    assert [each for each in found if each.startswith("WRONG")] == []
    assert sum(each.startswith("right") for each in found) > count // 2


def test_a_wrong_import_is_found(monkeypatch):
    monkeypatch.setattr(importers.reference, "evaluate", lambda *_: [np.zeros((1, 1))])
    ((_, outcome),) = importers.outcomes(1, 1000, "onnx")
    assert outcome.startswith("WRONG")
