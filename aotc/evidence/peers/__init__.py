"""Peers: other runtimes, which replay the same requests on a file of the same model.

    PEERS      name → its package, the files it reads, and the engine that runs them
    choosing   what is asked for → contenders
    matching   which input and output of a file is which of the entry
    agreement  whether a peer computes what aotc does
    player     makes the calls of a replay on an engine

A new peer is a row and an engine (`engine.Engine`). The module of the engine, and so
the package, is imported in the process of a replay alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """Another project's runtime, such as ONNX Runtime, that replays are compared with.

    Args:
        package: that has to be installed, by the name of its import.
        suffixes: of the files that it reads.
        engine: module and class.
    """

    package: str
    suffixes: tuple[str, ...]
    engine: str


PEERS = {
    "onnxruntime": Peer(
        "onnxruntime", (".onnx",), "aotc.evidence.peers.onnx_runtime:OnnxRuntime"
    ),
    "openvino": Peer(
        "openvino", (".onnx", ".xml"), "aotc.evidence.peers.open_vino:OpenVino"
    ),
    "torch": Peer("torch", (".pt2",), "aotc.evidence.peers.pytorch:Torch"),
    "torch-compile": Peer(
        "torch", (".pt2",), "aotc.evidence.peers.pytorch:TorchCompile"
    ),
}
