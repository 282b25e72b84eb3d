"""Islands of ONNX: ONNX Runtime computes them, or the evaluator that `onnx` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aotc.errors import InputError
from aotc.system_errors import raise_system_error

Run = Callable[[Mapping[str, Any]], list[Any]]


def load(model: Any, outputs: Sequence[str], place: str) -> Run:
    """The function of inputs by name that a model is.

    Args:
        model: a ModelProto.
        outputs: which results to compute.
        place: of its first node, for messages.

    Raises:
        InputError: `framework-cannot-load`; of a call: `framework-refused`.
    """
    try:
        session = _session(model)
    except Exception as error:  # its own exceptions have no common base
        raise_system_error(error)
        raise InputError(
            "framework-cannot-load",
            f"an island of ONNX cannot be computed: {_said(error)}",
            where=place,
            hint="install an onnxruntime that computes the op for such inputs",
        ) from error

    def run(given: Mapping[str, Any]) -> list[Any]:
        try:
            found: list[Any] = session.run([*outputs], dict(given))
        except Exception as error:
            raise_system_error(error)
            raise InputError(
                "framework-refused",
                f"ONNX Runtime cannot compute an island: {_said(error)}",
                where=place,
                hint="see whether it computes the whole file for these inputs",
            ) from error
        return found

    return run


def _session(model: Any) -> Any:
    if find_spec("onnxruntime") is None:
        return import_module("onnx.reference").ReferenceEvaluator(model)
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what fails is an error of ours
    return runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _said(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
