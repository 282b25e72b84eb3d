"""ONNX's own tests of its operators: which aotc imports, and computes as they say.

    pip install -e '.[onnx]'
    python benchmarks/frontends/onnx_nodes.py [--only TEXT] [--compiled] [--write]
    … --compiled --target x86_64-v4 --weights --kernels

Runs each model of `onnx.backend.test` on the reference evaluator, and with `--compiled`
those that pass compiled for the CPU, many to a module; `--weights` makes inputs after
the first ones weights, and `--kernels` has kernels compute small operators. Prints how
many pass, the operators that are not supported with the reasons, and every result that
is wrong; `--write` puts that into docs/onnx-ops.md. Out of the count are tests of what
is no array (strings, sequences, optional values) and of training operators.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from batches import Compiled, add_options, run_compiled, settings_of
from onnx.backend.test.case.node import collect_testcases

from aotc.errors import AotcError
from aotc.importers.common.imported import Imported
from aotc.importers.onnx.elements import ELEMENTS
from aotc.importers.onnx.network import network_of
from aotc.importers.onnx.reading import model_of
from aotc.importers.onnx.tensors import OnnxFiles
from aotc.importers.onnx.unsupported import unsupported_ops
from aotc.tracing.conversion import lift

TABLE = Path(__file__).parents[2] / "docs" / "onnx-ops.md"
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}
_STRING = onnx.TensorProto.STRING
_TRAINING = "ai.onnx.preview.training"


# tests that expect what no runtime computes; ONNX Runtime leaves them out as well
NOT_FOLLOWED = {
    "test_resize_downsample_scales_linear_align_corners": "of the fractional length "
    "2.4; runtimes place the ends of the 2 elements that there are",
    "test_resize_downsample_scales_cubic_align_corners": "of the fractional length "
    "3.2; runtimes place the ends of the 3 elements that there are",
}


@dataclass
class Outcome:
    """Names of ONNX's node tests by outcome and reason."""

    passed: list[str] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    unsupported: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    refused: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A test that passed on the reference evaluator, to be compiled."""

    name: str
    network: Imported
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[Any]
    rtol: float
    atol: float


def excluded(case: Any) -> str | None:
    """Return why a test is left out, such as strings; None if it is not."""
    if case.name in NOT_FOLLOWED:
        return "what ONNX Runtime computes differently"
    for value in (*case.model.graph.input, *case.model.graph.output):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return "sequences and optional values"
        if value.type.tensor_type.elem_type == _STRING:
            return "strings"
    if any(node.domain == _TRAINING for node in case.model.graph.node):
        return "training operators"
    return None


def held(array: Any, code: int) -> np.ndarray[Any, Any]:
    """Return an input or result of a test in the dtype that aotc uses for it."""
    kind = ELEMENTS[code]
    if isinstance(array, onnx.TensorProto):
        array = onnx.numpy_helper.to_array(array)
    data = np.asarray(array)
    return data if kind.narrow is None else data.astype(np.dtype(_numpy(kind.dtype)))


def _numpy(dtype: str) -> str:
    """Return NumPy's code of a dtype."""
    return {"f32": "f4", "i8": "i1", "u8": "u1"}[dtype]


def mismatch(got: Any, want: Any, rtol: float, atol: float) -> str | None:
    """Describe a result that differs by more than rounding; None if it does not."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if got.dtype.kind in "biu":
        same = np.array_equal(got, want)
        return None if same else f"{np.sum(got != want)} of {got.size} differ"
    left, right = got.astype("f8"), want.astype("f8")
    unit = EPSILON.get(str(got.dtype), 0.0)
    largest = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))
    rtol, atol = max(rtol, 2 * unit), max(atol, unit * largest)
    if np.allclose(left, right, rtol, atol, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"differs by {np.nanmax(np.abs(left - right)):.3g}"


def _wanted(case: Any, data_set: Any) -> list[Any]:
    """Return a test's expected results, in aotc's dtypes."""
    codes = [value.type.tensor_type.elem_type for value in case.model.graph.output]
    return [held(a, code) for a, code in zip(data_set[1], codes, strict=True)]


def evaluate(case: Any, outcome: Outcome) -> Case | None:
    """Import one test, run it by the reference evaluator, and record the outcome."""
    try:
        model = model_of(case.model, case.name, OnnxFiles(None, b""))
        built = network_of(model, {})
        codes = [model.graph.types[n].tensor_type.elem_type for n in model.graph.inputs]
        inputs = [held(a, c) for a, c in zip(case.data_sets[0][0], codes, strict=True)]
        wanted = _wanted(case, case.data_sets[0])
        stored = [] if built.weights is None else [built.weights.tree]
        found = built(*stored, *map(lift, inputs))
    except AotcError as error:
        if error.code in ("bad-node", "bad-tensor"):  # in a file that is right
            outcome.wrong.append((case.name, str(error)))
            return None
        for key in _reasons(case, error):
            outcome.unsupported[key].append(case.name)
        outcome.refused += 1
        return None
    except Exception as error:  # a bug of the importer
        outcome.wrong.append((case.name, f"{type(error).__name__}: {error}"))
        return None
    arrays = list(found.values()) if isinstance(found, dict) else [found]
    for got, want in zip(arrays, wanted, strict=True):
        why = mismatch(np.asarray(got), want, case.rtol, case.atol)
        if why and not _is_random(case):
            outcome.wrong.append((case.name, why))
            return None
    outcome.passed.append(case.name)
    return Case(case.name, built, inputs, wanted, case.rtol, case.atol)


def _reasons(case: Any, error: AotcError) -> list[tuple[str, str]]:
    """Return (operator, reason) of what makes a test unsupported."""
    if error.code != "unsupported-ops" or not error.message.startswith("the model"):
        return [(_operator(case), f"{error.code}: {error.message}")]
    model = model_of(case.model, case.name, OnnxFiles(None, b""))
    return [(each.op, each.reason) for each in unsupported_ops(model)]


def _operator(case: Any) -> str:
    """Return the operator that a test is about."""
    nodes = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else case.name.removeprefix("test_")


def _is_random(case: Any) -> bool:
    """Return whether a model draws random numbers."""
    random = ("Bernoulli", "Random", "Multinomial")
    return any(node.op_type.startswith(random) for node in case.model.graph.node)


def chosen(pattern: str) -> Iterator[Any]:
    """Yield the tests whose names contain the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    return (case for case in cases if pattern in case.name)


# ---- report -------------------------------------------------------------------------


def report(outcome: Outcome, compiled: Compiled | None) -> str:
    """Return the report in Markdown: counts, and everything that did not pass."""
    flag = " --compiled" if compiled else ""
    counted = len(outcome.passed) + outcome.refused + len(outcome.wrong)
    excluded = ", ".join(f"{n} of {why}" for why, n in outcome.excluded.items())
    share = len(outcome.passed) / max(counted, 1)
    lines = [
        "# Operators of ONNX",
        "",
        f"Generated by `python benchmarks/frontends/onnx_nodes.py{flag} --write` with "
        f"onnx {onnx.__version__}.",
        "",
        f"Of ONNX's own tests of its operators {counted} count (left out: {excluded}). "
        f"On the reference evaluator {len(outcome.passed)} pass ({share:.1%}), "
        f"{outcome.refused} are not supported, {len(outcome.wrong)} are wrong.",
        *_listed(outcome.wrong),
        "",
        "| tests | operator | why not | such as |",
        "|--:|---|---|---|",
    ]
    reasons = sorted(outcome.unsupported.items(), key=lambda row: -len(row[1]))
    for (operator, reason), names in reasons:
        lines.append(f"| {len(names)} | {operator} | {reason} | {names[0]} |")
    return "\n".join(lines + (_of_compiled(compiled) if compiled else [])) + "\n"


def _of_compiled(compiled: Compiled) -> list[str]:
    """Return the report's lines on compiled tests."""
    refused = compiled.refused.total()
    lines = [
        "",
        f"## {compiled.title()}",
        "",
        f"Of the tests that pass and draw no random numbers, {compiled.passed} pass "
        f"compiled, {refused} are not traced, {len(compiled.failed)} are not compiled, "
        f"{len(compiled.wrong)} are wrong. Small inputs are constants where an "
        "operator must know them.",
    ]
    if refused:
        lines += ["", "| tests | why they are not traced |", "|--:|---|"]
    lines += [f"| {count} | {why} |" for why, count in compiled.refused.most_common()]
    return [*lines, *_listed(compiled.failed), *_listed(compiled.wrong)]


def _listed(failures: Sequence[tuple[str, str]]) -> list[str]:
    """Return failures as lines of a list."""
    rows = [f"- `{name}`: {why}" for name, why in failures]
    return ["", *rows] if rows else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; 1 if any result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tests whose names contain this")
    parser.add_argument("--compiled", action="store_true", help="compile them as well")
    parser.add_argument("--write", action="store_true", help="write docs/onnx-ops.md")
    add_options(parser)
    options = parser.parse_args(arguments)
    settings = settings_of(options)
    outcome, ready = Outcome(), []
    for case in chosen(options.only):
        why = excluded(case)
        if why is not None:
            outcome.excluded[why] += 1
            continue
        evaluated = evaluate(case, outcome)
        if evaluated is not None and not _is_random(case):
            ready.append(evaluated)
    compiled = run_compiled(ready, mismatch, settings) if options.compiled else None
    text = report(outcome, compiled)
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    return int(bool(outcome.wrong or (compiled and compiled.wrong)))


if __name__ == "__main__":
    sys.exit(main())
