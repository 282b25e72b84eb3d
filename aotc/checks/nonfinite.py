"""Search for the op that makes the first NaN or infinity, by the reference evaluator.

All of a training step is looked through, op by op: forward, backward and optimizer. An
op is at fault that makes a NaN of operands without, or an infinity of finite ones; so
constants such as the -inf of a mask are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc import importers, reference
from aotc.core import dtypes
from aotc.core.json_values import JsonObject
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import where_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Module, Operation, func, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.mix_precision import MixPrecision
from aotc.programs.files import holds_program, read_program
from aotc.programs.program import source_of

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class NonFiniteOp:
    """The op that made the first NaN or infinity of a call, with an example element.

    Args:
        op: its name.
        call: the op with the types of its operands.
        example: the first such number, and what it was made of, where that is clear.
        where: the line of the model.
        is_derivative: whether a transformation wrote it, for what stands in that line.
    """

    op: str
    call: str
    example: str
    where: str | None
    is_derivative: bool

    def __str__(self) -> str:
        of = ", in the derivative of that line" if self.is_derivative else ""
        return f"graph.{self.op} at {self.where}{of}: {self.example}"


@dataclass(frozen=True)
class FirstNonFiniteOps:
    """The ops that made the first infinity and the first NaN, in that order."""

    found: tuple[NonFiniteOp, ...]

    @property
    def hint(self) -> str:
        """Return a hint on avoiding the first NaN or infinity."""
        return _HINTS.get(self.found[0].op, _HINT)


_HINT = (
    "np.where computes and differentiates both of its sides: choose safe operands "
    "before the op, not its results after it"
)
_HINTS = {
    "log": "keep its operand above 0, as np.log(np.maximum(x, 1e-12)) does",
    "divide": f"keep the divisor away from 0; {_HINT}",
    "sqrt": "keep its operand at 0 or above; at 0 its slope is infinite",
    "power": "keep the base above 0 where the exponent is no whole number",
    "exp": "it overflows: subtract the largest operand first, as nn.softmax and "
    "nn.logsumexp do",
}


def require_source(path: Path, source: Mapping[str, object]) -> None:
    """Raise unless a model file is the one that a bundle was built from.

    Args:
        path: the model, or IR of its graph that a build has dumped, before autodiff.
        source: what the bundle's manifest says of its model.

    Raises:
        InputError: `no-such-file`; `no-graph`: it is IR of a later stage;
            `other-source`.
    """
    if not path.is_file():
        raise InputError("no-such-file", "there is no model", where=str(path))
    is_ir = path.suffix == ".mlir" and holds_program(path)
    of = _source_of_ir(path) if is_ir else source_of(path, "")
    if of["sha256"] != source.get("sha256"):
        raise InputError(
            "other-source",
            f"expected the {source.get('file', 'file')} that the bundle was built "
            f"from, got {'IR of ' if is_ir else ''}another text",
            where=str(path),
            hint="build the bundle again from it",
        )


def _source_of_ir(path: Path) -> JsonObject:
    """Return the source record of dumped IR; raise unless it is the imported graph."""
    program = read_program(path)
    is_differentiated = _AUTODIFF in program.passes
    if program.stage != "graph" or is_differentiated:
        what = f"IR of the stage '{program.stage}'"
        after = f" after {_AUTODIFF}" if is_differentiated else ""
        raise InputError(
            "no-graph",
            f"expected the model, or IR of its graph as it was imported; got {what}"
            f"{after}, which does not say which ops are the model's and which of a "
            "derivative",
            where=str(path),
            hint=f"give {program.source['file']}, or the graph.mlir that a build with "
            "--dump writes",
        )
    return program.source


_AUTODIFF = "autodiff"


def find(
    path: Path, entry: str, values: Mapping[str, np.ndarray], mixed: str | None = None
) -> FirstNonFiniteOps:
    """Find the ops that make the first NaN and infinity in a call of an entry.

    Args:
        path: the model.
        entry: the name of the entry.
        values: the arrays of its inputs and states by their dotted names; other states
            and weights have the values that the model gives them.
        mixed: the cheaper dtype that the bundle was built in, if it was.

    Raises:
        InputError: the model has no such entry, or cannot be traced.
    """
    program = importers.load(path, (entry,))
    with context(), ir.Location.unknown():
        watch = _Watch(_ops_of_model(program.module))
        if mixed is not None and program.mixed_precision is None:
            run_passes(Unit(program), (MixPrecision(mixed),), silently=True)
        known = {**program.parameters, **values}
        ports = program.entry(entry).arguments
        run_passes(program.module, (_AUTODIFF, "inline"))
        arguments = [np.asarray(known[port.name]) for port in ports]
        reference.evaluate(program.module, entry, arguments, watch)
    return FirstNonFiniteOps(tuple(watch.first.values()))


def _ops_of_model(module: Module) -> set[tuple[str, str]]:
    """Return (op name, location) of a module's ops; call it before differentiation."""
    return {
        (op.operation.name, str(op.location))
        for function in functions_of(module).values()
        if not function.is_external
        for op in function.entry_block.operations
    }


class _Watch:
    """Evaluation hook that finds the first ops that make a NaN or an infinity."""

    def __init__(self, ops_of_model: set[tuple[str, str]]) -> None:
        self.first: dict[str, NonFiniteOp] = {}
        self._ops_of_model = ops_of_model

    def __call__(self, op: Operation, operands: Arrays, results: Arrays) -> None:
        """Record the op if it is the first to make a NaN or an infinity."""
        if isinstance(op, func.CallOp):  # what it runs was here before
            return
        for result in filter(_is_float, results):
            if np.isfinite(result).all() or "nan" in self.first:
                continue
            floats = [x for x in operands if _is_float(x)]
            is_nan = np.isnan(result)
            if is_nan.any() and not any(np.isnan(x).any() for x in floats):
                self._record("nan", op, operands, result, is_nan)
            elif operands and all(np.isfinite(x).all() for x in floats):
                self._record("infinity", op, operands, result, np.isinf(result))

    def _record(
        self,
        kind: str,
        op: Any,
        operands: Arrays,
        result: np.ndarray,
        is_wrong: np.ndarray,
    ) -> None:
        """Record the op under `kind` (nan or infinity), with the first wrong element as
        its example, unless one is recorded.
        """
        types = ", ".join(str(Tensor.of(value)) for value in op.operands)
        name = type(op)._op_name
        maker = NonFiniteOp(
            name,
            f"{name}({types})",
            _example(name, operands, result, np.argwhere(is_wrong)[0]),
            where_of(op),
            (op.operation.name, str(op.location)) not in self._ops_of_model,
        )
        self.first.setdefault(kind, maker)


def _example(name: str, operands: Arrays, result: np.ndarray, index: np.ndarray) -> str:
    """Describe a wrong element by its operands, such as `divide(1, 0) = inf at [3]`."""
    place = tuple(index.tolist())
    at = f" at {list(place)}" if place else ""
    made = f"{float(result[place]):g}{at}"
    if any(x.shape != result.shape for x in operands) or not operands:
        return f"it gives {made}"
    given = ", ".join(f"{float(x[place]):g}" for x in operands)
    return f"{name}({given}) = {made}"


def _is_float(array: np.ndarray) -> bool:
    return dtypes.is_float(dtypes.canonical_dtype(array.dtype))
