"""Table of the ops of the graph dialect, its context, and the table of its rules."""

import sys
from functools import cache
from typing import Any

from aotc.dialects.functions import transform
from aotc.dialects.graph import RULES, Graph, GraphOp, Reason
from aotc.dialects.limits import limits_of
from aotc.dialects.ops import FAMILIES
from aotc.mlir import ir, provide_dialect

OPS: dict[str, type[GraphOp]] = {
    op._op_name: op
    for family in FAMILIES
    for op in Graph.operations
    if op.__module__ == family.__name__
}

__all__ = ["FAMILIES", "OPS", "context", "matrix", "transform"]


@cache
def context() -> ir.Context:
    """Return the process's MLIR context with the graph dialect, created once."""
    created = ir.Context()
    # Verifiers are Python functions: threads would only wait for one another.
    created.enable_multithreading(False)
    provide_dialect("graph", sys.modules[__package__])
    with created, ir.Location.unknown():
        Graph.load()
    return created


def matrix() -> list[dict[str, Any]]:
    """Return one row per op: name, family, formula, dtypes, and limits by target.

    Per rule it says "yes", or the reason for which there is none.
    """
    return [_row(name, op) for name, op in OPS.items()]


def family_of(op: type[GraphOp]) -> str:
    """Return the name of the module that defines an op: a label of tables."""
    return op.__module__.rsplit(".", 1)[-1]


def _row(name: str, op: type[GraphOp]) -> dict[str, Any]:
    """Return an op's row of `matrix`."""
    rules = {}
    for rule in RULES:
        value = op.rule(rule)
        rules[rule] = value.text if isinstance(value, Reason) else "yes"
    doc = (op.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    return {
        "op": name,
        "family": family_of(op),
        "formula": " ".join(doc.split()),
        "why": op.why,
        "precision": op.precision,
        "dtypes": list(op.dtypes),
        "missing": {family: list(ops) for family, ops in limits_of(name).items()},
        "rules": rules,
    }
