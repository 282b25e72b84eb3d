"""Quantise a network by a framework; give the file, and what its own runtime returns.

ONNX files are run by ONNX Runtime as they are, node by node (`ORT_DISABLE_ALL`), those
of PyTorch by PyTorch. A GGUF file has weights alone: the `gguf` package, which has
llama.cpp's formats, quantises and dequantises them, and PyTorch runs the network.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .networks import Network

Run = Callable[[np.ndarray], np.ndarray]
SAMPLES = 8  # that ranges are measured on


def quantize(network: Network, how: str, folder: Path) -> tuple[Path, Run]:
    """Quantise a network; return its file and a function that runs it.

    Args:
        network: of floats.
        how: one of `WAYS`.
        folder: for files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return WAYS[how](network, folder)


# ---- ONNX ----------------------------------------------------------------------------


def _exported(network: Network, folder: Path) -> Path:
    """Export a float network to ONNX; return the file."""
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain, prepared = folder / "plain.onnx", folder / "prepared.onnx"
    example = (torch.tensor(network.input(0)),)
    torch.onnx.export(
        network.module(), example, str(plain), dynamo=True, input_names=["x"],
        verbose=False,
    )  # fmt: skip
    onnx.save(onnx.load(str(plain)), str(plain), save_as_external_data=False)
    quant_pre_process(str(plain), str(prepared))
    return prepared


class _Samples:
    """Calibration data in the form that ONNX Runtime's quantiser reads."""

    def __init__(self, network: Network) -> None:
        self._rest = [network.input(seed) for seed in range(SAMPLES)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next inputs; None after the last."""
        return {"x": self._rest.pop()} if self._rest else None


def _static(form: str, activation: str, weight: str, *, per_channel: bool) -> Any:
    """Return a quantizer by ONNX Runtime's static quantisation."""

    def quantized(network: Network, folder: Path) -> tuple[Path, Run]:
        from onnxruntime import quantization

        file = folder / "static.onnx"
        quantization.quantize_static(
            str(_exported(network, folder)),
            str(file),
            _Samples(network),
            quant_format=quantization.QuantFormat[form],
            activation_type=quantization.QuantType[activation],
            weight_type=quantization.QuantType[weight],
            per_channel=per_channel,
        )
        return file, _onnx_runtime(file)

    return quantized


def _dynamic(network: Network, folder: Path) -> tuple[Path, Run]:
    """Quantise by ONNX Runtime's dynamic quantisation."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file = folder / "dynamic.onnx"
    prepared = str(_exported(network, folder))
    quantize_dynamic(prepared, str(file), weight_type=QuantType.QInt8)
    return file, _onnx_runtime(file)


def _four_bits(network: Network, folder: Path) -> tuple[Path, Run]:
    """Quantise weights to 4 bits in blocks (MatMulNBits)."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    file = folder / "four_bits.onnx"
    model = onnx.load(str(_exported(network, folder)))
    quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=False)
    quantizer.process()
    onnx.save(quantizer.model.model, str(file))
    return file, _onnx_runtime(file)


def _nncf(network: Network, folder: Path) -> tuple[Path, Run]:
    """Quantise by NNCF."""
    import nncf
    import onnx

    file = folder / "nncf.onnx"
    data = nncf.Dataset([{"x": network.input(seed)} for seed in range(SAMPLES)])
    is_transformer = network.kind in ("encoder", "decoder", "speech")
    kind = nncf.ModelType.TRANSFORMER if is_transformer else None
    model = onnx.load(str(_exported(network, folder)))
    found = nncf.quantize(model, data, model_type=kind, subset_size=SAMPLES)
    onnx.save(found, str(file))
    return file, _onnx_runtime(file)


def _onnx_runtime(file: Path) -> Run:
    """Return a function that runs an ONNX file without optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(file), options, providers=providers)
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


# ---- PyTorch -------------------------------------------------------------------------


def _pt2e(network: Network, folder: Path) -> tuple[Path, Run]:
    """Quantise by PyTorch's PT2E for x86 processors."""
    from torchao.quantization.pt2e import quantize_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    example = (torch.tensor(network.input(0)),)
    graph = torch.export.export(network.module(), example).module()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = quantize_pt2e.prepare_pt2e(graph, quantizer)
    for seed in range(SAMPLES):
        prepared(torch.tensor(network.input(seed)))
    return _saved(quantize_pt2e.convert_pt2e(prepared), example, folder)


def _torchao(name: str) -> Any:
    """Return a quantizer by a configuration of torchao."""

    def quantized(network: Network, folder: Path) -> tuple[Path, Run]:
        from torchao import quantization
        from torchao.utils import unwrap_tensor_subclass

        module = network.module()
        quantization.quantize_(module, getattr(quantization, name)())
        example = (torch.tensor(network.input(0)),)
        return _saved(unwrap_tensor_subclass(module), example, folder)

    return quantized


def _saved(module: Any, example: Any, folder: Path) -> tuple[Path, Run]:
    """Export a quantised module; return its file and a function that runs it."""
    file = folder / "model.pt2"
    with torch.no_grad():
        exported = torch.export.export(module, example)
    torch.export.save(exported, file)
    run = exported.module()
    return file, lambda x: run(torch.tensor(x)).detach().numpy()


# ---- GGUF ----------------------------------------------------------------------------

MODEL = """
import aotc
import aotc.numpy as np
from aotc import nn

weights = aotc.Weights.load("x.gguf")
WIDTH, HEADS = {width}, 4


def attention(w, x):
    packed = w["inputs"]["0"]
    parts = np.split(packed["weight"].linear(x, packed["bias"]), 3, -1)
    q, k, v = (np.reshape(y, (*x.shape[:2], HEADS, WIDTH // HEADS)) for y in parts)
    y = np.reshape(nn.attention(q, k, v, causal=True), x.shape)
    return w["output"]["weight"].linear(y, w["output"]["bias"])


def block(w, x):
    first, second = (w["norms"][n] for n in "01")
    x = x + attention(w["attention"], nn.layer_norm(x, first["weight"], first["bias"]))
    y = nn.layer_norm(x, second["weight"], second["bias"])
    y = nn.gelu(w["mlp"]["0"]["weight"].linear(y, w["mlp"]["0"]["bias"]))
    return x + w["mlp"]["2"]["weight"].linear(y, w["mlp"]["2"]["bias"])


@aotc.entry(x=aotc.Spec({shape}, "i64"))
def main(weights, x):
    x = np.take(weights["words"]["weight"].dequantize(), x, axis=0)
    x = x + weights["positions"]
    for number in "01":
        x = block(weights["blocks"][number], x)
    x = nn.layer_norm(x, weights["norm"]["weight"], weights["norm"]["bias"])
    return weights["head"]["weight"].linear(x, weights["head"]["bias"])
"""


def _gguf(kind: str) -> Any:
    """Return a quantizer of weights to a GGUF type."""

    def quantized(network: Network, folder: Path) -> tuple[Path, Run]:
        import gguf

        number = gguf.GGMLQuantizationType[kind]
        writer = gguf.GGUFWriter(str(folder / "x.gguf"), "gpt2")
        module = copy.deepcopy(network.module())
        for name, tensor in _matrices(module, writer):
            raw = gguf.quants.quantize(tensor.detach().numpy(), number)
            writer.add_tensor(name, raw, raw_dtype=number)
            tensor.data = torch.tensor(gguf.quants.dequantize(raw, number))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        file = folder / "model.py"
        source = MODEL.format(width=module.positions.shape[1], shape=network.shape)
        file.write_text(source, encoding="utf-8")
        return file, lambda x: module(torch.tensor(x)).detach().numpy()

    return quantized


def _matrices(module: nn.Module, writer: Any) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the weights to quantise, and write the others to the GGUF writer."""
    for name, tensor in module.named_parameters():
        if tensor.ndim == 2 and name != "positions":
            yield name, tensor
        else:
            writer.add_tensor(name, tensor.detach().numpy())


WAYS: dict[str, Callable[[Network, Path], tuple[Path, Run]]] = {
    "QDQ u8s8": _static("QDQ", "QUInt8", "QInt8", per_channel=True),
    "QDQ s8s8": _static("QDQ", "QInt8", "QInt8", per_channel=True),
    "QDQ u8u8": _static("QDQ", "QUInt8", "QUInt8", per_channel=False),
    "QOperator u8s8": _static("QOperator", "QUInt8", "QInt8", per_channel=True),
    "dynamic": _dynamic,
    "MatMulNBits": _four_bits,
    "NNCF": _nncf,
    "PT2E": _pt2e,
    "torchao int8 dynamic": _torchao("Int8DynamicActivationInt8WeightConfig"),
    "torchao int8 weights": _torchao("Int8WeightOnlyConfig"),
    "GGUF Q4_0": _gguf("Q4_0"),
    "GGUF Q8_0": _gguf("Q8_0"),
    "GGUF Q5_1": _gguf("Q5_1"),
}
