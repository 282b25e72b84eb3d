"""Islands of ONNX: ONNX Runtime computes them, or the evaluator that `onnx` has."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from aotc.core.dtypes import to_numpy
from aotc.errors import InputError
from aotc.errors.system import raise_system_error

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Run = Callable[[Mapping[str, object]], list[object]]

_BFLOAT16 = "tensor(bfloat16)"


def load(model: onnx.ModelProto, outputs: Sequence[str], place: str) -> Run:
    """Load an ONNX model into ONNX Runtime; return a function of its inputs by name.

    Args:
        model: a ModelProto.
        outputs: which results to compute.
        place: of its first node, for messages.

    Raises:
        InputError: `framework-cannot-load`; of a call: `framework-refused`.
    """
    try:
        compute = _session(model, [*outputs])
    except Exception as error:  # its own exceptions have no common base
        raise_system_error(error)
        raise InputError(
            "framework-cannot-load",
            f"an island of ONNX cannot be computed: {_first_line(error)}",
            where=place,
            hint="install an onnxruntime that computes the op for such inputs",
        ) from error

    def run(given: Mapping[str, object]) -> list[object]:
        try:
            return compute(given)
        except Exception as error:
            raise_system_error(error)
            raise InputError(
                "framework-refused",
                f"ONNX Runtime cannot compute an island: {_first_line(error)}",
                where=place,
                hint="see whether it computes the whole file for these inputs",
            ) from error

    return run


def _session(model: onnx.ModelProto, outputs: list[str]) -> Run:
    """Return a function that computes outputs by ONNX Runtime, or by
    `onnx.reference`.
    """
    if find_spec("onnxruntime") is None:
        evaluator = import_module("onnx.reference").ReferenceEvaluator(model)
        return lambda given: list(evaluator.run(outputs, dict(given)))
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what fails is an error of ours
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    ends = (*session.get_inputs(), *session.get_outputs())
    if any(each.type == _BFLOAT16 for each in ends):
        return partial(_run_with_bfloat16, session, outputs)
    return lambda given: list(session.run(outputs, dict(given)))


def _run_with_bfloat16(
    session: onnxruntime.InferenceSession,
    outputs: list[str],
    given: Mapping[str, object],
) -> list[object]:
    """Run a session with bf16 inputs or outputs, which NumPy has no dtype for."""
    values = {name: _as_value(np.asarray(array)) for name, array in given.items()}
    return [*map(_as_array, session.run_with_ort_values(outputs, values))]


def _as_value(array: np.ndarray) -> onnxruntime.OrtValue:
    """Return an array as an ONNX Runtime value; bf16 by its bits."""
    kind = import_module("onnxruntime").OrtValue
    if array.dtype != to_numpy("bf16"):
        return kind.ortvalue_from_numpy(array)
    code = import_module("onnx").TensorProto.BFLOAT16
    bits = np.ascontiguousarray(array).view(np.uint16)
    return kind.ortvalue_from_numpy_with_onnx_type(bits, code)


def _as_array(value: onnxruntime.OrtValue) -> np.ndarray:
    """Return a copy of the elements of an ONNX Runtime value."""
    if value.data_type() != _BFLOAT16:
        array: np.ndarray = value.numpy()
        return array
    found = np.empty(value.shape(), np.uint16)
    ctypes.memmove(found.ctypes.data, value.data_ptr(), found.nbytes)
    return found.view(to_numpy("bf16"))


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
