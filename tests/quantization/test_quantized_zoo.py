"""Small models of several quantisers agree with their own runtimes."""

import sys
from pathlib import Path

import pytest

from aotc.machine import processor
from aotc.machine.target import Target, cpu_level

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALLEST = {
    ("residual", "QDQ u8s8"): ("onnxruntime", "onnxscript"),
    ("separable", "QDQ u8s8"): ("onnxruntime", "onnxscript"),
    ("decoder", "MatMulNBits"): ("onnxruntime", "onnxscript"),
    ("decoder", "GGUF Q4_0"): ("gguf",),
    ("scales", "PT2E"): ("torchao",),
    ("gated", "NNCF"): ("nncf", "onnxscript"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", SMALLEST, ids=" ".join)
def test_a_quantised_model_agrees_with_its_own_runtime(model, tmp_path, monkeypatch):
    for package in ("torch", *SMALLEST[model]):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from quantized_zoo.__main__ import compare

    level = cpu_level() if processor.arch() == "x86_64" else "vmvx"
    found = compare(*model, Target.parse(level), tmp_path)
    assert found.difference <= found.most
    assert found.same > 0.98
    assert not found.warned
