"""The two sweeps over a tape: cotangents backwards, tangents forwards.

They do what `aotc.passes.sweeps` does to functions of the graph, in the same order, so
that sums come out the same; what they compute they emit in the current scope.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.core import dtypes
from aotc.errors import AotcError, CompileError
from aotc.numpy.creation import full
from aotc.tracing.array import Array
from aotc.tracing.execution import (
    Applied,
    ByForwardRule,
    ByReverseRule,
    Node,
    Tape,
    Variable,
)
from aotc.tracing.tracing import emit
from aotc.transforms.op_rules import jvp_rule, vjp_rule

Slopes = dict[Variable, Array]


# ---- backwards ----------------------------------------------------------------------


def pulled_back(
    nodes: Sequence[Node],
    outputs: Sequence[Variable],
    cotangents: Sequence[Array],
    wanted: Sequence[Variable],
) -> list[Array]:
    """Return the cotangents of `wanted` variables from those of outputs: reverse sweep.

    Raises:
        CompileError: an op on the way has no rule; it names the line of the op.
    """
    active, known = _dependents(nodes, wanted), Slopes()
    for value, cotangent in zip(outputs, cotangents, strict=True):
        _accumulate(known, active, value, cotangent)
    for node in reversed(nodes):
        if any(value in known for value in node.results):
            for value, found in _pulled_through(node, known):
                _accumulate(known, active, value, found)
    return [known[value] if value in known else _zero(value) for value in wanted]


def _dependents(nodes: Sequence[Node], roots: Sequence[Variable]) -> set[Variable]:
    """Return the float variables that depend on `roots` through float variables."""
    active = set(roots)
    for node in nodes:
        if any(value in active for value in node.operands):
            active.update(value for value in node.results if value.is_active)
    return active


def _accumulate(
    known: Slopes, active: set[Variable], value: Variable, cotangent: Array
) -> None:
    """Add a cotangent to what is known for an active variable."""
    if value in active:
        before = known.get(value)
        known[value] = cotangent if before is None else emit("add", before, cotangent)


def _pulled_through(node: Node, known: Slopes) -> list[tuple[Variable, Array]]:
    """Return a node's operands with their cotangents, from those of its results."""
    smooth = [value for value in node.results if value.is_active]
    given = [known[y] if y in known else _zero(y) for y in smooth]
    try:
        found = _cotangents(node, given)
    except AotcError as error:
        error.where = error.where or node.where
        raise
    pairs = zip(_cotangent_places(node), found, strict=True)
    return [(value, each) for value, each in pairs if each is not None]


def _cotangent_places(node: Node) -> list[Variable]:
    """Return the operands for which a node's reverse rule gives cotangents."""
    everything = isinstance(node, Applied)
    return [value for value in node.operands if everything or _is_float(value)]


def _cotangents(node: Node, given: list[Array]) -> Sequence[Array | None]:
    """Compute a node's reverse rule; return a cotangent per operand or None."""
    if isinstance(node, ByReverseRule):
        return node.backward(given)
    if isinstance(node, ByForwardRule):
        return _transposed(node, given)
    operands = [value.primal for value in node.operands]
    rule = vjp_rule(node.name, node.attributes, [x.type for x in operands])
    results = [value.primal for value in node.results]
    return rule.execute([*operands, *results, *given])


def _transposed(node: ByForwardRule, given: list[Array]) -> list[Array]:
    """Compute a node's reverse rule by transposing its forward rule."""
    tape = Tape()
    tangents = [tape.wrap(_zero(value)) for value in node.operands if _is_float(value)]
    with tape.recording():
        slopes = [tape.variable(slope) for slope in node.rule(tangents)]
    wanted = [tape.variable(tangent) for tangent in tangents]
    return pulled_back(tape.nodes, slopes, given, wanted)


# ---- forwards -----------------------------------------------------------------------


def pushed_forward(
    nodes: Sequence[Node], tangents: Slopes, outputs: Sequence[Variable]
) -> list[Array]:
    """Return the tangents of outputs from those of some variables: forward sweep.

    Raises:
        CompileError: an op on the way has no rule; it names the line of the op.
    """
    known = dict(tangents)
    for node in nodes:
        if any(value in known for value in node.operands):
            smooth = [value for value in node.results if value.is_active]
            found = _pushed_through(node, known)
            known |= {
                value: slope
                for value, slope in zip(smooth, found, strict=True)
                if slope is not None
            }
    return [known[value] if value in known else _zero(value) for value in outputs]


def _pushed_through(node: Node, known: Slopes) -> Sequence[Array | None]:
    """Return the tangents of a node's float results; name its line in errors."""
    try:
        return _tangents(node, known)
    except AotcError as error:
        error.where = error.where or node.where
        raise


def _tangents(node: Node, known: Slopes) -> Sequence[Array | None]:
    """Compute a node's forward rule; return a tangent per float result or None."""
    if isinstance(node, ByReverseRule):
        raise CompileError(
            "not-differentiable",
            f"'{node.title}' cannot be differentiated: it has a rule for reverse mode "
            "only (custom_vjp)",
            hint="give it a custom_jvp, from which both modes follow",
        )
    if isinstance(node, ByForwardRule):
        floats = [value for value in node.operands if _is_float(value)]
        return node.rule([known[x] if x in known else _zero(x) for x in floats])
    operands = [value.primal for value in node.operands]
    moved = [i for i, value in enumerate(node.operands) if value in known]
    rule = jvp_rule(node.name, node.attributes, [x.type for x in operands], moved)
    results = [value.primal for value in node.results]
    given = [known[node.operands[i]] for i in moved]
    found = rule.execute([*operands, *results, *given])
    pairs = zip(node.results, found, strict=True)
    return [slope for value, slope in pairs if value.is_active]


# ---- parts --------------------------------------------------------------------------


def _is_float(value: Variable) -> bool:
    """Return whether a variable has a float dtype."""
    return dtypes.is_float(value.primal.dtype)


def _zero(value: Variable) -> Array:
    """Return zeros in the shape and dtype of a variable."""
    return full(value.primal.shape, 0.0, value.primal.dtype)
