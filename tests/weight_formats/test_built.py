"""Bundles of models whose weights come quantised compute what the formats say."""

import json
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
from aotc.core import options
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build

gguf = pytest.importorskip("gguf")

MODEL = """
import aotc

weights = aotc.Weights.load("x.gguf")
checkpoint = aotc.Weights.load("checkpoint")


@aotc.entry(x=aotc.Spec((aotc.Dim("n", max=8), 256)))
def predict(weights, checkpoint, x):
    legacy, nested = weights["legacy"], weights["nested"]
    return {
        "legacy": x @ legacy.dequantize().T,
        "nested": nested.linear(x),
        "ordered": checkpoint["up"]["weight"].linear(x),
    }
"""
RNG = np.random.default_rng(8)


def write_gguf(file):
    """A matrix of Q4_0 and one of Q4_K, as floats."""
    found, writer = {}, gguf.GGUFWriter(file, "llama")
    for name, kind, starts in (("legacy", "Q4_0", (0,)), ("nested", "Q4_K", (0, 2))):
        number = gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[number]
        raw = RNG.integers(0, 256, (48, 256 // block, size), dtype="u1")
        for start in starts:
            scale = RNG.uniform(0.01, 0.1, (*raw.shape[:2], 1)).astype("f2")
            raw[..., start : start + 2] = scale.view("u1")
        raw = raw.reshape(48, -1)
        writer.add_tensor(name, raw, raw_dtype=number)
        found[name] = gguf.quants.dequantize(raw, number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


def write_checkpoint(folder):
    """A matrix of GPTQ with its inputs in another order, as floats."""
    folder.mkdir()
    groups = RNG.permutation(np.arange(256) // 64).astype("i4")
    words = RNG.integers(-(2**31), 2**31, (32, 48)).astype("i4")
    zeros = np.full((4, 6), 0x77777777, "i4")  # 8, less one
    scales = RNG.uniform(0.01, 0.1, (4, 48)).astype("f2")
    tensors = {"qweight": words, "qzeros": zeros, "scales": scales, "g_idx": groups}
    save_file({f"up.{k}": x for k, x in tensors.items()}, folder / "model.safetensors")
    scheme = {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": True}
    (folder / "config.json").write_text(json.dumps({"quantization_config": scheme}))
    shifts = 4 * np.arange(8)[:, None]
    levels = ((words[:, None].astype("i8") >> shifts) & 15).reshape(256, 48) - 8
    return (levels * scales.astype("f4")[groups]).T


LOOKED_UP = """
import aotc
from aotc import nn

weights = aotc.Weights.load("x.gguf")


@aotc.entry(x=aotc.Spec((1, 512)), at=aotc.Spec((3,), "i32"))
def predict(weights, x, at):
    tables, matrices = weights["table"], weights["matrix"]
    rows = {k: nn.embedding(w["weight"].dequantize(), at) for k, w in tables.items()}
    return rows, {k: w["weight"].linear(x) for k, w in matrices.items()}
"""
KINDS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")


def test_archives_have_the_bytes_of_the_file_for_each_type(tmp_path):
    writer, raw = gguf.GGUFWriter(tmp_path / "x.gguf", "llama"), {}
    for kind in KINDS:
        number = gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[number]
        for part in ("table", "matrix"):
            data = RNG.integers(0, 128, (256, 512 // block * size), dtype="u1")
            raw[f"{part}.{kind}"] = data
            writer.add_tensor(f"{part}.{kind}.weight", data, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "model.py").write_text(LOOKED_UP)
    for target in ("x86_64-v3", "x86_64-v4-dot", "aarch64"):
        unit = Unit(load(tmp_path / "model.py")).fork(Target.parse(target))
        for stage in PASS_STAGES[:2]:
            run_passes(unit, stage.passes(), silently=True)
        held = Counter()
        for name, array in unit.program.parameters.items():
            held[".".join(name.split(".")[1:3])] += array.nbytes
        for name, data in raw.items():
            assert data.nbytes <= held[name] <= 1.05 * data.nbytes, (target, name)


def test_a_bundle_computes_with_weights_of_all_formats(tmp_path):
    expected = write_gguf(tmp_path / "x.gguf")
    expected["ordered"] = write_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "model.py").write_text(MODEL)
    with options.override("AOTC_HOME", str(tmp_path / "home")):
        report = build(tmp_path / "model.py", output=tmp_path, self_check="off")
        model = aotc.load(report.bundle)
        x = RNG.standard_normal((3, 256)).astype("f4")
        found = model.predict(x=x)
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name], x @ weights.T, rtol=1e-4, atol=1e-4)
