"""Collectives: computations between the devices along a named axis.

All devices run one program; on each of them an operand has its own value. Written for
device d of n, x_e is the operand on device e. Cotangents belong to devices as well: the
cotangent of x_e is that of the sum over all devices of their losses, so the adjoint of
a collective is the collective that sends back what was sent.

On one device a collective is the identity. `across` is its meaning on several, in NumPy
on an array with a leading axis of devices, which is also what the loader computes.
`decompose_stacked` is the same as ordinary ops of the graph: what becomes of a
collective when the very axis that it names is batched over. Compiled code for
processors hands its operand to the loader, which exchanges it with the other devices
(`aotc.parallel`); other targets have none.
"""

import json
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.artifacts.backends import BACKENDS
from aotc.core import dtypes as dt
from aotc.dialects import iree_text
from aotc.dialects.attributes import Int, Ints, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import (
    NOT_DIFFERENTIABLE,
    GraphOp,
    Operand,
    Result,
)
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.reference import devices
from aotc.dialects.rules.batching import NO_OPERANDS, leading, shift_axes
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Size, Tensor
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import Value, ir
from aotc.parallel import definitions

ALONE = {"axis_name": "data", "axis_size": 1}


class OverDevices(GraphOp):
    """Base of ops over the devices along a named axis."""

    axis_name: Str
    axis_size: Int
    is_exact = True  # the loader computes it, as the reference does
    if TYPE_CHECKING:
        y: Value

    @classmethod
    def across(cls, x: np.ndarray, **attributes: object) -> np.ndarray:
        """Return all devices' results in NumPy; `x` stacks all devices' operands.

        It is what the loader computes (`aotc.parallel.definitions`).
        """
        name = cls._op_name
        asked = {"op": name, **attributes}
        return np.stack(definitions.results(asked, list(x), range(len(x))))

    @classmethod
    def limit(cls, op: Self, target: Target) -> str | None:
        """Return why a target other than a CPU cannot run the op; None if it can."""
        if op.axis_size == 1 or BACKENDS[target.backend].on_cpu:
            return None
        return (
            f"it takes {op.axis_size} devices along '{op.axis_name}', and collectives "
            "run on processors only"
        )

    @classmethod
    def exchange(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit the call of the loader that exchanges `x` with the other devices."""
        found, sizes = cls._received_type(low, op)
        body = bodies.exchange(cls._request(op), x.type, found)
        (made,) = iree_text.call("exchange", [x, *sizes], [found], body)
        return made

    @classmethod
    def overlapped_exchange(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit the two calls of the loader that begin and end an exchange of `x`."""
        found, sizes = cls._received_type(low, op)
        begin = bodies.start_exchange(cls._request(op), x.type)
        number = iree_text.call("start", [x], [ir.IntegerType.get_signless(64)], begin)
        end = bodies.finish_exchange(found)
        (made,) = iree_text.call("finish", [*number, *sizes], [found], end)
        return made

    @classmethod
    def _request(cls, op: Self) -> ir.StringAttr:
        """Return the loader's request as JSON: the collective and its attributes."""
        of = Tensor.of(op.operands[0] if op.operands else op.y)
        name = cls._op_name  # which the loader knows the collective by
        asked = {"op": name, "dtype": of.dtype, **cls.attributes_of(op)}
        return ir.StringAttr.get(json.dumps(asked))

    @staticmethod
    def _received_type(low: Lowering, op: "OverDevices") -> tuple[Any, list[Value]]:
        """Return the type of the loader's result and its dynamic sizes, emitted."""
        y = Tensor.of(op.y)
        return ir.RankedTensorType(low.lowered_type(y)), [*low.dynamic_sizes(y.shape)]


class Collective(OverDevices):
    """Base of collectives, with one operand on each device; all must take part."""

    x: Operand[Any]
    y: Result[Any]
    dtypes = dt.NAMES

    @classmethod
    def ref(cls, x: np.ndarray, **attributes: object) -> np.ndarray:
        """Return this device's result, computed with the other simulated devices."""
        return devices.rendezvous(cls, x, attributes)

    jvp = linear

    batch = leading()

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit calls of the loader; return the operand on a single device."""
        return x if op.axis_size == 1 else cls.overlapped_exchange(low, op, x)


def _require_devices(axis_size: int) -> None:
    """Raise InputError for less than one device."""
    if axis_size < 1:
        raise InputError("bad-size", f"expected at least one device; got {axis_size}")


def _require_axis(x: Tensor, axis: int) -> None:
    """Raise InputError for an axis that `x` does not have."""
    if not 0 <= axis < x.rank:
        raise InputError("bad-axis", f"expected an axis of {x}; got {axis}")


def _require_blocks(x: Tensor, axis: int, count: int) -> None:
    """Raise InputError for an axis that cannot be cut into `count` equal blocks."""
    _require_axis(x, axis)
    if x.shape[axis] % count != 0:
        raise InputError(
            "shape-mismatch",
            f"expected axis {axis} of {x} to be cut into {count} equal blocks, one for "
            "each device",
        )


class AllReduce(Collective, name="all_reduce"):
    """y = the sum, max or min (by `kind`) of x_e over all devices e, on each of them.

    The derivative of max and min is shared between devices that tie.
    """

    why = "a collective; its adjoint is all_reduce"

    kind: Str
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, *, axis_name: str, axis_size: int, kind: str) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, AllReduce.dtypes)
        _require_devices(axis_size)
        if kind not in _REDUCTIONS:
            raise InputError("bad-kind", f"expected sum, max or min; got {kind!r}")
        return x

    @staticmethod
    def jvp(b: Builder, op: "AllReduce", dx: Value) -> Value:
        """Return the sum over devices of each one's weight times dx."""
        return _all_sum(b, op, _weigh(b, op, dx))

    @staticmethod
    def vjp(b: Builder, op: "AllReduce", dy: Value) -> list[Value]:
        """Return this device's weight times the sum of dy over devices."""
        return [_weigh(b, op, _all_sum(b, op, dy))]

    @staticmethod
    def decompose_stacked(b: Builder, op: "AllReduce", x: Value) -> Value:
        """Emit a reduction over the leading axis of devices, repeated along it."""
        total = getattr(b, f"reduce_{op.kind}")(x, axes=(0,))
        return b.expand(total, Tensor.of(x), (0,))

    samples = [
        OpSample((f32(2, 3),), {**ALONE, "kind": "sum"}),
        OpSample((f32("n", 2),), {**ALONE, "kind": "max"}),
        OpSample((i32(3),), {**ALONE, "kind": "min"}),
    ]


_REDUCTIONS = ("sum", "max", "min")


def _all_sum(b: Builder, op: AllReduce, x: Value) -> Value:
    """Emit an all_reduce of kind sum over the devices of `op`."""
    return b.all_reduce(x, axis_name=op.axis_name, axis_size=op.axis_size, kind="sum")


def _weigh(b: Builder, op: AllReduce, x: Value) -> Value:
    """Emit `x` times the share that this device's operand has in the result."""
    if op.kind == "sum":
        return x
    chosen = b.compare(op.x, op.y, direction="eq")
    count = _all_sum(b, op, b.cast(chosen, dtype=Tensor.of(x).dtype))
    return b.where_true(chosen, b.divide(x, count))


class AllGather(Collective, name="all_gather"):
    """y = x_0, x_1, … x_{n-1} one after the other along `axis`, on each device."""

    why = "a collective; its adjoint is reduce_scatter"

    axis: Int

    @staticmethod
    def infer(x: Tensor, *, axis_name: str, axis_size: int, axis: int) -> Tensor:
        """Return the type with the size of the axis times the number of devices."""
        _require_devices(axis_size)
        _require_axis(x, axis)
        return _with_size(x, axis, x.shape[axis] * axis_size)

    @staticmethod
    def vjp(b: Builder, op: "AllGather", dy: Value) -> list[Value]:
        """Return this device's block of the sum of all devices' cotangents."""
        return [b.reduce_scatter(dy, **type(op).attributes_of(op))]

    batch = leading(axis=shift_axes)

    @staticmethod
    def decompose_stacked(b: Builder, op: "AllGather", x: Value) -> Value:
        """Emit the leading axis of devices merged into `axis`, for each device."""
        whole = _join_axis(b, x, op.axis)
        like = Tensor.of(whole)
        return b.expand(whole, like.with_shape((op.axis_size, *like.shape)), (0,))

    samples = [
        OpSample((f32(2, 3),), {**ALONE, "axis": 1}),
        OpSample((f32("n", 2),), {**ALONE, "axis": 0}),
    ]


class ReduceScatter(Collective, name="reduce_scatter"):
    """y = block d along `axis`, of n equal ones, of the sum of x_e over all devices."""

    why = "a collective; its adjoint is all_gather"

    axis: Int
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, *, axis_name: str, axis_size: int, axis: int) -> Tensor:
        """Return the type with the size of the axis by the number of devices."""
        require_dtype(x, ReduceScatter.dtypes)
        _require_devices(axis_size)
        _require_blocks(x, axis, axis_size)
        return _with_size(x, axis, x.shape[axis] // axis_size)

    @staticmethod
    def vjp(b: Builder, op: "ReduceScatter", dy: Value) -> list[Value]:
        """Return the gathered cotangents, as every device had a part in every block."""
        return [b.all_gather(dy, **type(op).attributes_of(op))]

    batch = leading(axis=shift_axes)

    @staticmethod
    def decompose_stacked(b: Builder, op: "ReduceScatter", x: Value) -> Value:
        """Emit the sum over the leading axis of devices, split along `axis`."""
        return _split_axis(b, b.reduce_sum(x, axes=(0,)), op.axis, op.axis_size, 0)

    samples = [
        OpSample((f32(2, 3),), {**ALONE, "axis": 1}),
        OpSample((f32("n", 2),), {**ALONE, "axis": 0}),
        OpSample((i32(3),), {**ALONE, "axis": 0}),
    ]


class AllToAll(Collective, name="all_to_all"):
    """y = block d of each x_e, cut along `split_axis`, joined along `concat_axis`."""

    why = "a collective; its adjoint is all_to_all back"

    split_axis: Int
    concat_axis: Int

    @staticmethod
    def infer(
        x: Tensor, *, axis_name: str, axis_size: int, split_axis: int, concat_axis: int
    ) -> Tensor:
        """Return the result type: one axis an n-th as long, the other n times."""
        _require_devices(axis_size)
        _require_blocks(x, split_axis, axis_size)
        _require_axis(x, concat_axis)
        part = _with_size(x, split_axis, x.shape[split_axis] // axis_size)
        return _with_size(part, concat_axis, part.shape[concat_axis] * axis_size)

    @staticmethod
    def vjp(b: Builder, op: "AllToAll", dy: Value) -> list[Value]:
        """Return the cotangents exchanged back: both axes change places."""
        axes = {"split_axis": op.concat_axis, "concat_axis": op.split_axis}
        return [op.rebuild(dy, **axes)]

    batch = leading(split_axis=shift_axes, concat_axis=shift_axes)

    @staticmethod
    def decompose_stacked(b: Builder, op: "AllToAll", x: Value) -> Value:
        """Emit a transpose of the leading axis of devices and the axis of blocks."""
        blocks = _split_axis(b, x, op.split_axis + 1, op.axis_size, 0)
        return _join_axis(b, blocks, op.concat_axis, 1)

    samples = [
        OpSample((f32(2, 3),), {**ALONE, "split_axis": 0, "concat_axis": 1}),
        OpSample((f32("n", 2),), {**ALONE, "split_axis": 1, "concat_axis": 1}),
    ]


class Permute(Collective, name="permute"):
    """y = x_e where e sends to d (`sources[i]` to `targets[i]`), 0 where none does."""

    why = "a collective; its adjoint sends back; send and recv are pairs of it"

    sources: Ints
    targets: Ints

    @staticmethod
    def infer(
        x: Tensor,
        *,
        axis_name: str,
        axis_size: int,
        sources: tuple[int, ...],
        targets: tuple[int, ...],
    ) -> Tensor:
        """Return the result type, that of the operand."""
        _require_devices(axis_size)
        for ends in (sources, targets):
            valid = all(0 <= device < axis_size for device in ends)
            if not valid or len(set(ends)) != len(sources):
                raise InputError(
                    "bad-pairs",
                    "expected pairs of a source and a target, where each of "
                    f"{axis_size} devices sends and receives at most once; got "
                    f"{list(zip(sources, targets, strict=False))}",
                )
        return x

    @staticmethod
    def vjp(b: Builder, op: "Permute", dy: Value) -> list[Value]:
        """Return the cotangents sent back to where the values came from."""
        return [op.rebuild(dy, sources=op.targets, targets=op.sources)]

    @staticmethod
    def decompose_stacked(b: Builder, op: "Permute", x: Value) -> Value:
        """Emit the leading axis of devices permuted."""
        shape = Tensor.of(x).shape
        one, strides = (1, *shape[1:]), (1,) * len(shape)
        sources = dict(zip(op.targets, op.sources, strict=True))

        def slice_of(device: int) -> Value:
            if device not in sources:
                return b.full(Tensor.of(x).with_shape(one), 0.0)
            start = (sources[device], *[0] * (len(shape) - 1))
            return b.slice(x, start=start, sizes=one, strides=strides)

        first, *rest = map(slice_of, range(op.axis_size))
        return reduce(lambda y, z: b.concatenate(y, z, axis=0), rest, first)

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit calls of the loader; alone, return x if sent to itself, else zeros."""
        if op.axis_size > 1:
            return cls.overlapped_exchange(low, op, x)
        return x if op.sources else low.full(Tensor.of(op.x), 0)

    samples = [
        OpSample((f32(2, 3),), {**ALONE, "sources": (0,), "targets": (0,)}),
        OpSample((f32("n", 2),), {**ALONE, "sources": (), "targets": ()}),
    ]


class AxisIndex(OverDevices, name="axis_index"):
    """y = d, the number of this device along the axis, an i32.

    It is not pure: no pass may compute at build time what each device has its own of.
    """

    why = "which device this is"

    y: Result[Any]
    dtypes = ("i32",)

    @staticmethod
    def infer(*, axis_name: str, axis_size: int) -> Tensor:
        """Return the result type: an i32 scalar."""
        _require_devices(axis_size)
        return Tensor((), "i32")

    @classmethod
    def ref(cls, **attributes: object) -> np.ndarray:
        """Return this device's number among simulated devices, 0 if it is alone."""
        return devices.rendezvous(cls, np.zeros((), "i4"), attributes)

    @classmethod
    def across(cls, x: np.ndarray, **_: object) -> np.ndarray:
        """Return the numbers of all devices."""
        return np.arange(len(x), dtype="i4")

    jvp = NOT_DIFFERENTIABLE("integer result")
    vjp = NOT_DIFFERENTIABLE("integer result")
    batch = NO_OPERANDS

    @staticmethod
    def decompose_stacked(b: Builder, op: "AxisIndex") -> Value:
        """Emit the numbers of all devices along the leading axis."""
        return b.iota(shape=(op.axis_size,), axis=0, dtype="i32")

    @classmethod
    def lower(cls, low: Lowering, op: Self) -> Value:
        """Emit a call of the loader; 0 on a single device."""
        zero = low.full(Tensor.of(op.y), 0)
        return zero if op.axis_size == 1 else cls.exchange(low, op, zero)

    samples = [OpSample((), ALONE)]


# ---- blocks -------------------------------------------------------------------------


def _with_size(x: Tensor, axis: int, size: Size) -> Tensor:
    """Return a type with another size of one axis."""
    return x.with_shape([size if i == axis else n for i, n in enumerate(x.shape)])


def _split_axis(b: Builder, x: Value, axis: int, count: int, to: int) -> Value:
    """Emit `axis` split into `count` blocks, whose number becomes axis `to`."""
    shape = Tensor.of(x).shape
    parts = (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :])
    blocks = b.reshape(x, shape=parts)
    return b.move_axis(blocks, axis, to)


def _join_axis(b: Builder, x: Value, axis: int, source: int = 0) -> Value:
    """Emit axis `source`, of blocks, merged in front of the axis `axis` of each."""
    blocks = b.move_axis(x, source, axis + source)
    shape = Tensor.of(blocks).shape
    at = axis + source
    whole = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    return b.reshape(blocks, shape=whole)
