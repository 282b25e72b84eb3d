"""Checkpoints of safetensors are what the documents of their formats say."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
from aotc import nn
from aotc.errors import InputError
from tests.weight_formats.refusing import refused_weights

RNG = np.random.default_rng(34)
OUT, IN = 16, 64


def packed(values, bits):
    """Unsigned integers in words along the last axis, the first in the lowest bits."""
    many = 32 // bits
    rows = values.astype("u4").reshape(*values.shape[:-1], -1, many)
    return (rows << (np.arange(many, dtype="u4") * bits)).sum(-1, dtype="u4").view("i4")


def saved(folder, tensors, scheme, name="config.json"):
    """A folder with a checkpoint of one layer called `net.0`."""
    whole = {f"net.0.{key}": np.ascontiguousarray(x) for key, x in tensors.items()}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    config = {"quantization_config": scheme} if name == "config.json" else scheme
    (folder / name).write_text(json.dumps(config))
    return folder


def layer(path):
    return aotc.Weights.load(path).tree["net"]["0"]


def equals(weights, expected):
    assert isinstance(weights, nn.QuantizedWeights)
    assert weights.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(weights.dequantize()), expected)


# ---- GPTQ ---------------------------------------------------------------------------


def gptq(bits, groups, less, size, symmetric=False):
    """The tensors of a layer, and its weights: scales[g] * (q - zeros[g])."""
    top, count = 2**bits, -(-IN // size)
    q = RNG.integers(0, top, (IN, OUT))
    zeros = RNG.integers(less, top + less, (count, OUT))
    if symmetric:
        zeros[:] = top // 2
    scales = RNG.uniform(0.01, 0.1, (count, OUT)).astype("f2")
    tensors = {
        "qweight": packed(q.T, bits).T,
        "qzeros": packed(zeros - less, bits),
        "scales": scales,
        "g_idx": groups.astype("i4"),
        "bias": np.ones(OUT, "f2"),
    }
    wide = scales.astype("f4")
    return tensors, (wide[groups] * (q - zeros[groups]).astype("f4")).T


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("form", "less"), [("gptq", 1), ("gptq_v2", 0)])
@pytest.mark.parametrize("act_order", [False, True])
def test_gptq_is_scale_times_level_less_zero(tmp_path, bits, form, less, act_order):
    groups = np.arange(IN) // 16
    if act_order:
        groups = RNG.permutation(groups)
    tensors, expected = gptq(bits, groups, less, 16)
    scheme = {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": 16,
        "desc_act": act_order,
        "checkpoint_format": form,
    }
    found = layer(saved(tmp_path, tensors, scheme))
    equals(found["weight"], expected)
    assert found.keys() == {"weight", "bias"}
    assert (found["weight"].order is not None) == act_order
    assert (found["weight"].bits, found["weight"].block) == (bits, 16)


def test_gptq_of_one_group_is_a_scale_for_each_output(tmp_path):
    groups = np.zeros(IN, int)
    tensors, expected = gptq(4, groups, 1, IN, symmetric=True)
    del tensors["g_idx"]
    scheme = {"bits": 4, "group_size": -1}
    folder = saved(tmp_path, tensors, scheme, "quantize_config.json")
    found = layer(folder / "model.safetensors")["weight"]
    equals(found, expected)
    assert (found.axis, found.block, found.zero_point) == (0, None, None)


def test_the_last_group_may_be_short(tmp_path):
    groups = RNG.permutation(np.arange(IN) // 48)
    tensors, expected = gptq(4, groups, 1, 48)
    scheme = {"quant_method": "gptq", "bits": 4, "group_size": 48}
    equals(layer(saved(tmp_path, tensors, scheme))["weight"], expected)


# ---- AWQ ----------------------------------------------------------------------------


def test_awq_has_even_outputs_before_odd_ones(tmp_path):
    q, zeros = RNG.integers(0, 16, (IN, OUT)), RNG.integers(0, 16, (2, OUT))
    scales = RNG.uniform(0.01, 0.1, (2, OUT)).astype("f2")

    def interleaved(x):
        return x.reshape(len(x), -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].reshape(x.shape)

    tensors = {
        "qweight": packed(interleaved(q), 4),
        "qzeros": packed(interleaved(zeros), 4),
        "scales": scales,
    }
    scheme = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "GEMM"}
    groups = np.arange(IN) // 32
    expected = (q - zeros[groups]).astype("f4") * scales.astype("f4")[groups]
    equals(layer(saved(tmp_path, tensors, scheme))["weight"], expected.T)


# ---- compressed-tensors -------------------------------------------------------------


def compressed(form, **weights):
    facts = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 16}
    group = {"targets": ["Linear"], "weights": facts | weights}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": group},
    }


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["symmetric", "zero points", "order"])
def test_packed_integers_are_offset_by_half_their_range(tmp_path, bits, kind):
    half, inputs = 2 ** (bits - 1), 60  # a remainder: words and groups are padded
    q = RNG.integers(-half, half, (OUT, inputs))
    scale = RNG.uniform(0.01, 0.1, (OUT, 4)).astype("f2")
    groups, zeros = np.arange(inputs) // 16, np.zeros((OUT, 4), int)
    padded = np.pad(q + half, ((0, 0), (0, 4)))
    tensors = {
        "weight_packed": packed(padded, bits)[:, : -(-inputs * bits // 32)],
        "weight_scale": scale,
        "weight_shape": np.array([OUT, inputs]),
    }
    if kind == "zero points":
        zeros = RNG.integers(-half, half, (OUT, 4))
        tensors["weight_zero_point"] = packed((zeros + half).T, bits).T
    if kind == "order":
        groups = RNG.permutation(groups)
        tensors["weight_g_idx"] = groups.astype("i4")
    expected = (q - zeros[:, groups]).astype("f4") * scale.astype("f4")[:, groups]
    scheme = compressed("pack-quantized", num_bits=bits)
    found = layer(saved(tmp_path, tensors, scheme))
    equals(found["weight"], expected)
    assert found.keys() == {"weight"}


@pytest.mark.parametrize("strategy", ["channel", "tensor"])
def test_bytes_are_scaled_by_channel_or_all(tmp_path, strategy):
    q = RNG.integers(-128, 128, (OUT, IN)).astype("i1")
    shape = (OUT, 1) if strategy == "channel" else (1,)
    scale = RNG.uniform(0.01, 0.1, shape).astype("f4")
    zeros = RNG.integers(-9, 9, shape).astype("i1")
    tensors = {"weight": q, "weight_scale": scale, "weight_zero_point": zeros}
    scheme = compressed("int-quantized", num_bits=8, strategy=strategy)
    found = layer(saved(tmp_path, tensors, scheme))["weight"]
    equals(found, (q.astype("f4") - zeros) * scale)


def test_layers_have_the_scheme_that_names_them(tmp_path):
    scheme = compressed("pack-quantized", num_bits=8, strategy="channel")
    named = compressed("pack-quantized", num_bits=4)["config_groups"]["group_0"]
    scheme["config_groups"]["group_1"] = named | {"targets": [r"re:net\.\d"]}
    tensors = {
        "weight_packed": packed(RNG.integers(0, 16, (OUT, IN)), 4),
        "weight_scale": np.ones((OUT, 4), "f2"),
        "weight_shape": np.array([OUT, IN]),
    }
    assert layer(saved(tmp_path, tensors, scheme))["weight"].bits == 4


# ---- files --------------------------------------------------------------------------


def test_a_folder_is_all_files_of_its_index(tmp_path):
    for number in (1, 2):
        save_file(
            {f"a.{number}": np.full(3, number)}, tmp_path / f"{number}.safetensors"
        )
    index = {"weight_map": {"a.1": "1.safetensors", "a.2": "2.safetensors"}}
    file = tmp_path / "model.safetensors.index.json"
    file.write_text(json.dumps(index))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    found = aotc.Weights.load(tmp_path)
    assert found.tree["a"]["2"].tolist() == [2, 2, 2]
    assert found.metadata["config"]["model_type"] == "llama"
    (tmp_path / "2.safetensors").unlink()
    refused_weights("missing-data", tmp_path, r"2\.safetensors")


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ({"quant_method": "bitsandbytes"}, "'bitsandbytes'"),
        ({"quant_method": "gptq", "checkpoint_format": "marlin"}, "'marlin'"),
        ({"quant_method": "awq", "version": "gemv"}, "'gemv'"),
        (compressed("nvfp4-pack-quantized", type="float"), "nvfp4"),
        (compressed("pack-quantized", strategy="block"), "'block'"),
    ],
)
def test_other_schemes_are_refused_by_name(tmp_path, scheme, message):
    tensors = {"weight_scale": np.ones(1, "f4"), "weight": np.ones((2, 2), "i1")}
    refused_weights(
        "unsupported-quantization", saved(tmp_path, tensors, scheme), message
    )


def test_integers_that_lie_across_words_are_refused(tmp_path):
    tensors = {
        "qweight": np.zeros((IN * 3 // 32, 32), "i4"),
        "qzeros": np.zeros((1, 3), "i4"),
        "scales": np.ones((1, 32), "f2"),
    }
    folder = saved(tmp_path, tensors, {"quant_method": "gptq", "bits": 3})
    refused_weights("unsupported-quantization", folder, "3 bits")


def test_a_layer_without_its_scales_is_refused(tmp_path):
    tensors, _ = gptq(4, np.arange(IN) // 16, 1, 16)
    del tensors["scales"]
    folder = saved(tmp_path, tensors, {"quant_method": "gptq", "group_size": 16})
    refused_weights("missing-data", folder, "'net.0' is quantised and has no 'scales'")
    tensors["scales"] = np.ones((3, OUT), "f2")
    folder = saved(tmp_path, tensors, {"quant_method": "gptq", "group_size": 16})
    refused_weights("bad-file", folder, r"scales of shape \[16, 4\]")


# ---- damaged ones -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "scheme", "why"),
    [
        ({"g_idx": np.zeros(5, "i4")}, {}, "a group .* of each of 64 inputs"),
        ({}, {"bits": 8}, "8 bits, as the configuration says; those of 'net.0' have 4"),
        ({"qweight": np.zeros((8, OUT), "f4")}, {}, "packed words of 32 bits"),
        ({"scales": np.ones((4, OUT), "i4")}, {}, "scales that are floats; got int32"),
        ({"weight": np.zeros((OUT, IN), "f2")}, {}, "alone; got 'net.0.weight'"),
    ],
)
def test_tensors_that_contradict_each_other_are_refused(tmp_path, change, scheme, why):
    tensors, _ = gptq(4, np.arange(IN) // 16, 1, 16)
    given = {"quant_method": "gptq", "bits": 4, "group_size": 16, **scheme}
    folder = saved(tmp_path, {**tensors, **change}, given)
    with pytest.raises(InputError, match=why) as caught:
        layer(folder)
    assert caught.value.code == "bad-file"


@pytest.mark.parametrize("shape", [[OUT + 1, IN], [OUT, IN, 1]])
def test_shapes_that_packed_weights_do_not_have_are_refused(tmp_path, shape):
    tensors = {
        "weight_packed": packed(RNG.integers(0, 16, (OUT, IN)), 4),
        "weight_scale": np.ones((OUT, 4), "f2"),
        "weight_shape": np.array(shape),
    }
    with pytest.raises(InputError, match="weight_shape' that fits"):
        layer(saved(tmp_path, tensors, compressed("pack-quantized")))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("config.json", "{", "JSON in 'config.json'"),
        ("config.json", '{"quantization_config": [1]}', "'quantization_config' in"),
        ("model.safetensors.index.json", '{"weight_map": []}', "object 'weight_map'"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "../model.safetensors"}}',
            "files beside 'model.safetensors.index.json'",
        ),
        ("model.safetensors", "text", "model.safetensors': "),
    ],
)
def test_files_of_a_folder_that_are_damaged_are_named(tmp_path, name, text, why):
    saved(tmp_path, {"a": np.ones(3, "f")}, {})
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=why) as caught:
        aotc.Weights.load(tmp_path)
    assert caught.value.code == "bad-file"
