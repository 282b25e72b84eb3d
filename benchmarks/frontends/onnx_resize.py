"""Resize of ONNX in every mode, at odd sizes and factors, against ONNX Runtime.

    pip install -e '.[onnx]'
    python benchmarks/frontends/onnx_resize.py [--factors 0.7 1.3 …] [--sizes 10 …]

One model for each mode × coordinate transformation × rounding × antialiasing × factor
× size, evaluated with a fixed size, and with one that a call decides. Prints how many
have the shape and the values of ONNX Runtime, what is refused and why, and what is
wrong; ends with 1 if anything is.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from aotc import reference
from aotc.errors import AotcError
from aotc.importers.common.imported import Imported
from aotc.importers.onnx.network import network_of
from aotc.importers.onnx.reading import model_of
from aotc.importers.onnx.tensors import OnnxFiles
from aotc.tracing.conversion import lift

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FACTORS = (0.3, 0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5, 1.7, 2.0, 2.5, 2.7, 3.0)
SIZES = (1, 2, 3, 5, 7, 10, 13, 20, 30, 33)
ROI = (0.1, 0.9)


@dataclass(frozen=True)
class Case:
    """One ONNX Resize along the last axis.

    Args:
        attributes: of the node.
        size: of the axis.
        factor: what it is multiplied by.
        by_sizes: whether the node is given the new size instead of the factor.
    """

    attributes: dict[str, Any]
    size: int
    factor: float
    by_sizes: bool

    @property
    def title(self) -> str:
        """The case's attributes and sizes in one line."""
        how = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        given = "sizes" if self.by_sizes else "scales"
        return f"{self.size} x {self.factor} by {given}: {how}"

    def model(self, size: int | str) -> Any:
        """Return the ONNX model, with an axis of fixed or named size."""
        factors = np.array([1, 1, 1, self.factor], "f4")
        new = np.array([1, 2, 3, max(int(self.size * self.factor), 1)], "i8")
        inputs, tensors = ["x", "roi", "scales"], {"scales": factors}
        if self.by_sizes:
            inputs, tensors = ["x", "roi", "", "sizes"], {"sizes": new}
        tensors["roi"] = np.array([0, 0, 0, ROI[0], 1, 1, 1, ROI[1]], "f4")
        node = helper.make_node("Resize", inputs, ["y"], **self.attributes)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, size])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, None])
        stored = [numpy_helper.from_array(a, name) for name, a in tensors.items()]
        graph = helper.make_graph([node], "resize", [x], [y], stored)
        opsets = [helper.make_opsetid("", 19)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@dataclass
class Outcome:
    """Counts of right and refused cases, and descriptions of wrong ones."""

    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def modes() -> Iterator[dict[str, Any]]:
    """Yield the attributes of each Resize mode that ONNX Runtime and aotc both have."""
    for places in COORDINATES:
        where = {"coordinate_transformation_mode": places}
        if places == "tf_crop_and_resize":
            where["extrapolation_value"] = 9.0
        for rounding in ROUNDINGS:
            yield {"mode": "nearest", "nearest_mode": rounding, **where}
        for mode in ("linear", "cubic"):
            yield {"mode": mode, **where}
            if places != "tf_crop_and_resize":
                yield {"mode": mode, "antialias": 1, **where}
        yield {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5, **where}


def session(model: Any) -> Any:
    """Return ONNX Runtime's session of a model, without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def imported(model: Any) -> Imported:
    """Return an ONNX model as a function of aotc's arrays."""
    return network_of(model_of(model, "resize", OnnxFiles(None, b"")), {})


@cache
def program_of(model: bytes) -> Any:
    """Trace a serialized model; return the program, or aotc's error."""
    try:
        return imported(onnx.load_from_string(model)).program()
    except AotcError as error:
        return error


def compare(case: Case, open_size: bool, outcome: Outcome) -> None:
    """Run a case by ONNX Runtime and aotc; record in `outcome` whether they agree."""
    kind = "a size of each call" if open_size else "a fixed size"
    model = case.model("n" if open_size else case.size)
    rng = np.random.default_rng(case.size)
    x = rng.standard_normal((1, 2, 3, case.size)).astype("f4")
    try:
        wanted = session(model).run(None, {"x": x})[0]
    except Exception as error:
        outcome.unknown[str(error).rpartition(":")[2].strip()[:90]] += 1
        return
    try:
        found = np.asarray(
            evaluated(model, x) if open_size else imported(model)(lift(x))
        )
    except AotcError as error:
        reason = error.message.rpartition(": ")[2]
        outcome.refused[f"{kind}: {error.code}: {reason[:120]}"] += 1
        return
    why = mismatch(found, wanted)
    if why is None:
        outcome.right[kind] += 1
    else:
        outcome.wrong.append(f"{kind}: {case.title}: {why}")


def evaluated(model: Any, x: Any) -> Any:
    """Evaluate the traced model on an array by the reference evaluator."""
    program = program_of(model.SerializeToString())
    if isinstance(program, AotcError):
        raise program
    return reference.evaluate(program.module, "main", [x])[0]


def mismatch(found: Any, wanted: Any) -> str | None:
    """Describe a result that differs by more than rounding; None if it does not."""
    if found.shape != wanted.shape:
        return f"shape {found.shape}, ONNX Runtime has {wanted.shape}"
    if np.allclose(found, wanted, 2e-5, 2e-5):
        return None
    return f"differs by {np.max(np.abs(found - wanted)):.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases; 1 if any result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factors", nargs="*", type=float, default=FACTORS)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--fixed", action="store_true", help="fixed sizes only")
    options = parser.parse_args(arguments)
    outcome = Outcome()
    cases = itertools.product(modes(), options.sizes, options.factors, (False, True))
    for attributes, size, factor, by_sizes in cases:
        case = Case(attributes, size, factor, by_sizes)
        compare(case, False, outcome)
        if not options.fixed:
            compare(case, True, outcome)
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    for kind, count in outcome.right.items():
        print(f"{count} right with {kind}")
    for what, counts in (("refused", outcome.refused), ("not run", outcome.unknown)):
        for why, count in counts.most_common():
            print(f"{count} {what}: {why}")
    print(f"{len(outcome.wrong)} wrong")
    print(*outcome.wrong, sep="\n")
    return int(bool(outcome.wrong))


if __name__ == "__main__":
    sys.exit(main())
