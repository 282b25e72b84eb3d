"""An ONNX file as another runtime computes it, as a whole and node by node.

ONNX Runtime where it is installed, else the reference evaluator of the `onnx` package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core.pytree import OrderedTree
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.importers.common.original import Inputs, Original
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.graph import OnnxModel
from aotc.tracing.source_locations import Place

Feeds = Mapping[str, np.ndarray]


def of_file(
    model: OnnxModel, path: Path, inputs: Sequence[str], outputs: Sequence[str]
) -> Original:
    """Return an `Original` that runs an ONNX file in ONNX Runtime or onnx's reference.

    Args:
        model: what was read from it.
        path: of the file.
        inputs: the names that the entry has for its inputs.
        outputs: those for its results.
    """
    graph = model.graph
    codes = [graph.types[name].tensor_type.elem_type for name in graph.inputs]
    own = dict(zip(inputs, zip(graph.inputs, codes, strict=True), strict=True))

    def feeds(given: Mapping[str, Any]) -> Feeds:
        return {
            own[name][0]: value.astype(element(own[name][1]).numpy)
            for name, value in given.items()
        }

    def run(given: Inputs) -> Any:
        found = _run(path, graph.outputs, feeds(given))
        results = [found[name] for name in graph.outputs]
        if len(results) == 1:
            return results[0]
        return OrderedTree(zip(outputs, results, strict=True))

    def steps(given: Inputs) -> dict[Place, Any]:
        named = {n.place: [o for o in n.outputs if o] for n in graph.nodes}
        wanted = dict.fromkeys(name for names in named.values() for name in names)
        found = _run(path, tuple(wanted), feeds(given))
        return {place: [found[n] for n in names] for place, names in named.items()}

    return Original(_framework(), run, steps)


def _engine() -> tuple[str, Callable[..., dict[str, object]]]:
    """Return the package that runs ONNX files here, and the function that does so."""
    if find_spec("onnxruntime") is not None:
        return "onnxruntime", _by_runtime
    return "onnx", _by_reference


def _framework() -> str:
    """Return name and version of the package that runs ONNX files here."""
    package, _ = _engine()
    name = "onnx reference evaluator" if package == "onnx" else package
    return f"{name} {import_module(package).__version__}"


def _run(path: Path, names: Sequence[str], feeds: Feeds) -> dict[str, Any]:
    """Run an ONNX file on `feeds`; return the values `names`, intermediate ones too."""
    _, compute = _engine()
    return compute(path, names, feeds)


def _by_runtime(path: Path, names: Sequence[str], feeds: Feeds) -> dict[str, object]:
    """Run an ONNX file by ONNX Runtime; return the arrays of these values by name."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    # node by node, as the file says: its rewriting of QDQ graphs rounds elsewhere
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    provider = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=provider)
    except Exception as error:  # its own exceptions have no common base
        raise_system_error(error, str(path))
        raise _not_loaded(path, error) from error
    if {each.name for each in session.get_outputs()} >= set(names):
        return dict(zip(names, session.run(list(names), feeds), strict=True))
    onnx = import_module("onnx")
    proto = onnx.load(str(path))
    known = {each.name for each in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in known
    )
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=provider
    )
    return dict(zip(names, session.run(list(names), feeds), strict=True))


def _not_loaded(path: Path, error: Exception) -> InputError:
    """Return the error of a file that ONNX Runtime cannot load."""
    said = (str(error).strip().splitlines() or [""])[0]
    return InputError(
        "framework-cannot-load",
        f"{_framework()} cannot load {path.name}: {said}",
        hint="upgrade ONNX Runtime, or export with an older IR version or opset; "
        "a build without --parity does not need it",
    )


def _by_reference(path: Path, names: Sequence[str], feeds: Feeds) -> dict[str, object]:
    """Run an ONNX file by onnx's reference evaluator; return these values by name."""
    evaluator = import_module("onnx.reference").ReferenceEvaluator(str(path))
    return dict(evaluator.run(list(names), dict(feeds), intermediate=True))
