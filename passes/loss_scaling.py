"""Scale the cotangents that derivatives in f16 begin with, by a factor in a State.

    %l, %dw = call @loss.vjp(%w, %x, %one)
    →
    %l, %scaled = call @loss.vjp(%w, %x, %one * %scale)
    %dw = %scaled / %scale
    %finite = whether all elements of %dw are finite
    return select(%finite, %new_w, %w), …

f16 has no numbers below 6e-8: most gradients of a deep network would be 0. Where one is
infinite or NaN, the step is left out, all states stay, and the scale is halved; after
2,000 steps in a row that were not left out it is doubled. (Micikevicius et al., "Mixed
precision training", 2018, section 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from aotc.core.pytree import flatten
from aotc.dialects.builder import Builder
from aotc.dialects.calls.callees import calls_in, reachable_functions
from aotc.dialects.calls.custom import CustomVjp, custom_of
from aotc.dialects.functions.entries import Entry, Port, write_entry
from aotc.dialects.functions.function_table import Functions
from aotc.dialects.functions.functions import before, callee_of, functions_of, signature
from aotc.dialects.functions.transform import (
    Vjp,
    derived_of,
    floats,
    transformations_of,
)
from aotc.dialects.graph import where_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.programs.program import Program

STATE = "loss_scale"
INITIAL, LEAST, MOST = 2.0**15, 1.0, 2.0**24
INTERVAL = 2000  # steps after which the scale grows

Op = Callable[[Value, Value], Value]

_SCALE = Tensor((), "f32")
_STEPS = Tensor((), "i32")


def scale_losses(program: Program, cheaper: Collection[str]) -> None:
    """Scale losses of entries that differentiate f16 functions; add a State for the
    scale.

    Args:
        program: at the stage `graph`.
        cheaper: the functions that compute in f16.

    Raises:
        InputError: `loss-not-scaled`.
    """
    known = functions_of(program.module)
    derivatives = {
        name
        for name, function in known.items()
        if isinstance(made := derived_of(function), Vjp)
        and _root(known, made.of) in cheaper
    }
    for entry in program.entries:
        calls = [
            call
            for call in calls_in(known[entry.name])
            if callee_of(call) in derivatives
        ]
        _require_direct(known, entry, calls, derivatives)
        if calls:
            _scale(program, known[entry.name], entry, calls)


def _root(known_functions: Functions, name: str) -> str:
    """Return the source function that chained transformations are derived from."""
    for made in transformations_of(known_functions, name):
        name = made.of
    return name


def _require_direct(
    known_functions: Functions,
    entry: Entry,
    calls: Sequence[func.CallOp],
    derivatives: Collection[str],
) -> None:
    """Raise if an entry computes f16 derivatives where no loss scale can be applied."""
    within = [
        call
        for name in reachable_functions(known_functions, entry.name)
        if name != entry.name
        for call in calls_in(known_functions[name])
        if callee_of(call) in derivatives
    ]
    ruled = [
        name
        for call in calls
        for name in reachable_functions(known_functions, callee_of(call))
        if isinstance(custom_of(known_functions[name]), CustomVjp)
    ]
    if within:
        why = "are computed within a loop, a branch or another derivative"
    elif ruled:
        why = (
            "go through a rule of the model's own (custom_vjp), which sees them scaled "
            "and may not be linear"
        )
    elif calls and not entry.updates:
        why = "are returned, and the entry updates no State to keep a scale in"
    else:
        return
    raise InputError(
        "loss-not-scaled",
        "expected derivatives whose losses can be scaled, as f16 has little range; "
        f"those of entry '{entry.name}' {why}",
        where=where_of((within or calls)[0]),
        hint="mixed:bf16 needs no scale; or scale the loss in the source, by "
        "aotc.mixed_precision and aotc.optim.dynamic_loss_scale",
    )


def _scale(
    program: Program, function: Function, entry: Entry, calls: Sequence[func.CallOp]
) -> None:
    """Apply loss scaling to an entry's derivative calls; add the scale to its
    states.
    """
    name = _unused_name(program, f"{entry.name}_{STATE}")
    leaves, tree = flatten({"finite_steps": np.int32(0), "scale": np.float32(INITIAL)})
    ports = tuple(
        Port(f"{name}.{leaf}", kind, "state")
        for leaf, kind in zip(tree.keys, (_STEPS, _SCALE), strict=True)
    )
    for port, value in zip(ports, leaves, strict=True):
        program.add_parameter(port.name, np.asarray(value), port.type, "state")
    program.add_state(name, [port.name for port in ports], tree)
    block = function.entry_block
    steps, scale = (
        block.add_argument(port.type.to_mlir(), function.location) for port in ports
    )
    is_finite = [each for call in calls for each in _scale_call(call, scale)]
    returned = [*block.operations][-1]
    with before(returned):
        b = Builder()
        whole = reduce(b.bitwise_and, is_finite, b.full(Tensor((), "bool"), True))
        kept = _kept_states(b, entry, returned, block.arguments, whole)
        func.ReturnOp([*kept, *_next_scale(b, whole, steps, scale)])
    returned.operation.erase()
    _restate(program, function, entry, ports, name)


def _unused_name(program: Program, name: str) -> str:
    """Return `name` with underscores appended until no parameter of the program has
    it.
    """
    taken = {parameter.partition(".")[0] for parameter in program.parameters}
    while name in taken:
        name += "_"
    return name


def _scale_call(call: func.CallOp, scale: Value) -> list[Value]:
    """Scale a derivative call's cotangents and unscale its results; return finiteness
    flags.
    """
    b, known = Builder(), functions_of(call.operation.parent.parent.opview)
    made = derived_of(known[callee_of(call)])
    assert isinstance(made, Vjp)
    outputs = signature(known[made.of])[1]
    count = len(floats(outputs))
    with before(call):
        for number in range(len(call.operands) - count, len(call.operands)):
            given = call.operands[number]
            call.operands[number] = _scaled(b, b.multiply, given, scale)
    scaled = [*call.results][len(outputs) :]
    following = ir.InsertionPoint(_next_op(call))
    with following, call.location:
        found = []
        for value in scaled:
            uses = [(use.owner, use.operand_number) for use in value.uses]
            found.append(_scaled(b, b.divide, value, scale))
            for owner, number in uses:
                owner.operands[number] = found[-1]
        return [_is_finite(b, each) for each in found if Tensor.of(each).elements != 0]


def _next_op(op: Operation) -> Operation:
    """Return the op after `op` in its block."""
    ops: list[Operation] = [*op.operation.block.operations]
    return ops[ops.index(op.opview) + 1]


def _scaled(b: Builder, compute: Op, x: Value, scale: Value) -> Value:
    """Emit `compute(x, scale)` in f32 or wider, cast back to the dtype of `x`."""
    kind = Tensor.of(x)
    wide = kind if kind.dtype == "f64" else kind.with_dtype("f32")
    factor = b.cast(scale, dtype="f64") if kind.dtype == "f64" else scale
    if kind.rank:
        factor = b.broadcast(factor, shape=kind.shape, axes=())
    result = compute(x if wide == kind else b.cast(x, dtype="f32"), factor)
    return result if wide == kind else b.cast(result, dtype=kind.dtype)


def _is_finite(b: Builder, x: Value) -> Value:
    """Emit a scalar bool: whether no element is infinite or NaN."""
    largest = b.reduce_max(b.abs(x), axes=tuple(range(Tensor.of(x).rank)))
    return b.compare(largest, b.full_like(largest, np.inf), direction="lt")


def _kept_states(
    b: Builder,
    entry: Entry,
    returned: Operation,
    arguments: Sequence[Value],
    is_finite: Value,
) -> Iterator[Value]:
    """Yield an entry's results, each state selected old or new by `is_finite`."""
    old = {
        port.name: value
        for port, value in zip(entry.arguments, arguments, strict=False)
        if port.kind == "state"
    }
    for port, value in zip(entry.results, returned.operands, strict=True):
        if port.kind != "state":
            yield value
            continue
        shape = port.type.shape
        where = b.broadcast(is_finite, shape=shape, axes=()) if shape else is_finite
        yield b.select(where, value, old[port.name])


def _next_scale(
    b: Builder, is_finite: Value, steps: Value, scale: Value
) -> tuple[Value, Value]:
    """Emit the next count of finite steps in a row, and the next scale; return both."""
    none, factor = b.full(_STEPS, 0), b.full(_SCALE, 2)
    more = b.add(steps, b.full(_STEPS, 1))
    grows = b.compare(more, b.full(_STEPS, INTERVAL), direction="ge")
    larger = b.minimum(b.multiply(scale, factor), b.full(_SCALE, MOST))
    smaller = b.maximum(b.divide(scale, factor), b.full(_SCALE, LEAST))
    return (
        b.select(is_finite, b.select(grows, none, more), none),
        b.select(is_finite, b.select(grows, larger, scale), smaller),
    )


def _restate(
    program: Program,
    function: Function,
    entry: Entry,
    ports: tuple[Port, ...],
    name: str,
) -> None:
    """Update an entry's signature and record for an additional State `name`."""
    returned = [*function.entry_block.operations][-1]
    sides = function.entry_block.arguments, returned.operands
    kind = ir.FunctionType.get(*([value.type for value in side] for side in sides))
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    stated = replace(
        entry,
        arguments=(*entry.arguments, *ports),
        results=(*entry.results, *ports),
        reads=(*entry.reads, name),
        updates=(*entry.updates, name),
    )
    write_entry(program.module, stated)
