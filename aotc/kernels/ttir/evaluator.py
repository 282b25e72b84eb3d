"""Runs kernels program by program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from aotc.core.pytree import PyTree
from aotc.errors import CompileError
from aotc.kernels.ttir.memory import Buffer, Pointers
from aotc.kernels.ttir.reading import TritonBlock, TritonFunction, TritonOp, read_kernel
from aotc.kernels.ttir.rules import Array, evaluate_elementwise

# what `inputPrecision` of a product says of f32, by number
_ROUNDED_TO_TF32 = 0
_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def evaluate(
    text: str,
    arguments: Sequence[Buffer | int],
    grid: tuple[int, int, int],
    programs: Iterable[int] | None = None,
) -> int:
    """Run a Triton kernel on buffers, which it writes; return the number of steps.

    Args:
        text: of the module that holds it, in the generic form of MLIR.
        arguments: of it, in order; integers for sizes.
        grid: how many programs there are along each axis.
        programs: the numbers of those that are run, the first axis fastest; all if
            None. Of what others write nothing is known then.

    Raises:
        CompileError: `bad-kernel`: it reads or writes what it must not, or has an op
            that kernels of this project do not have.
    """
    kernel = read_kernel(text)
    given = _arguments(kernel, arguments)
    chosen = range(prod(grid)) if programs is None else sorted({*programs})
    steps = 0
    with np.errstate(all="ignore"):
        for number in chosen:
            place = np.unravel_index(number, grid, order="F")
            program = _Program(number, tuple(map(int, place)), grid)
            program.run(kernel.body, given)
            steps += program.steps
    return steps


def _arguments(
    kernel: TritonFunction, arguments: Sequence[Buffer | int]
) -> list[object]:
    """Check a kernel's arguments against its types; return them as values of the IR."""
    if len(arguments) != len(kernel.kinds):
        expected = len(kernel.kinds)
        _refuse(f"'{kernel.name}' takes {expected} arguments; got {len(arguments)}")
    found: list[Any] = []
    for kind, argument in zip(kernel.kinds, arguments, strict=True):
        if isinstance(argument, Buffer):
            if not kind.is_pointer or kind.dtype != argument.elements.dtype:
                have = argument.elements.dtype
                _refuse(f"{argument.name} is of {have}; the kernel takes {kind.dtype}")
            found.append(Pointers(argument, np.asarray(0)))
        elif kind.is_pointer:
            _refuse(f"'{kernel.name}' takes a pointer; got {argument}")
        else:
            found.append(np.asarray(argument, kind.dtype))
    return found


class _Program:
    """An interpreter of one program instance of a grid.

    Args:
        number: of it.
        place: the same along each axis.
        grid: how many there are along each.
    """

    def __init__(
        self, number: int, place: tuple[int, ...], grid: tuple[int, ...]
    ) -> None:
        self._number, self._place, self._grid = number, place, grid
        self._values: dict[int, Any] = {}
        self.steps = 0

    def run(self, block: TritonBlock, arguments: Sequence[Any]) -> list[Any]:
        """Run the ops of a block on arguments; return its terminator's operands."""
        self._values.update(zip(block.arguments, arguments, strict=True))
        *steps, end = block.steps
        self.steps += len(steps)
        for step in steps:
            operands = [self._values[number] for number in step.operands]
            results = self._results(step, operands)
            self._values.update(zip(step.results, results, strict=True))
        return [self._values[number] for number in end.operands]

    def _results(self, step: TritonOp, operands: list[Any]) -> Sequence[Any]:
        """Evaluate one op by its rule; return its results."""
        rule = getattr(self, "_" + step.name.replace(".", "_"), None)
        if rule is not None:
            found: Sequence[Any] = rule(step, *operands)
            return found
        plain = evaluate_elementwise(step, operands)
        if plain is None:
            _refuse(f"no kernel has the op {step.name}")
        (kind,) = step.kinds
        is_alike = plain.shape == kind.shape or not kind.shape  # see `_tt_reduce`
        if not is_alike or plain.dtype != kind.dtype:
            _refuse(f"{step.name} gives {plain.dtype}{plain.shape}; expected {kind}")
        return [plain]

    # ---- numbers and shapes ---------------------------------------------------------

    def _arith_constant(self, step: TritonOp) -> list[Array]:
        """Evaluate `arith.constant`: a number, or a tensor of equal numbers."""
        (kind,) = step.kinds
        return [np.full(kind.shape, step.attributes["value"]).astype(kind.dtype)]

    def _tt_get_program_id(self, step: TritonOp) -> list[Array]:
        """Evaluate `tt.get_program_id`: the program's position along an axis."""
        return [np.asarray(self._place[step.attributes["axis"]], np.int32)]

    def _tt_make_range(self, step: TritonOp) -> list[Array]:
        """Evaluate `tt.make_range`: consecutive i32 numbers."""
        bounds = step.attributes["start"], step.attributes["end"]
        return [np.arange(*bounds, dtype=np.int32)]

    def _tt_splat(self, step: TritonOp, x: object) -> list[object]:
        """Evaluate `tt.splat` and `tt.broadcast`."""
        shape = step.kinds[0].shape
        return [_apply_to_elements(x, lambda each: np.broadcast_to(each, shape))]

    _tt_broadcast = _tt_splat

    def _tt_expand_dims(self, step: TritonOp, x: object) -> list[object]:
        """Evaluate `tt.expand_dims`: insert an axis of size 1."""
        axis = step.attributes["axis"]
        return [_apply_to_elements(x, lambda each: np.expand_dims(each, axis))]

    def _tt_reshape(self, step: TritonOp, x: object) -> list[object]:
        """Evaluate `tt.reshape`."""
        shape = step.kinds[0].shape
        return [_apply_to_elements(x, lambda each: each.reshape(shape))]

    def _tt_trans(self, step: TritonOp, x: object) -> list[object]:
        """Evaluate `tt.trans`: permute axes."""
        order = step.attributes["order"]
        return [_apply_to_elements(x, lambda each: each.transpose(order))]

    # ---- memory ---------------------------------------------------------------------

    def _tt_addptr(
        self, step: TritonOp, pointers: Pointers, offset: Array
    ) -> list[object]:
        """Evaluate `tt.addptr`: advance pointers by offsets in elements."""
        return [Pointers(pointers.buffer, pointers.at + offset.astype(np.int64))]

    def _tt_load(self, step: TritonOp, pointers: Pointers, *rest: Array) -> list[Array]:
        """Evaluate `tt.load`, with the default value where a mask is false."""
        if len(rest) == 1:
            _refuse("a load with a mask does not say what is elsewhere")
        mask = np.broadcast_to(rest[0] if rest else True, pointers.at.shape)
        found = pointers.buffer.load(pointers.at, mask, self._number)
        return [np.where(mask, found, rest[1]) if rest else found]

    def _tt_store(
        self, step: TritonOp, pointers: Pointers, values: Array, *rest: Array
    ) -> list[Any]:
        """Evaluate `tt.store`: write a buffer's elements where a mask is true."""
        mask = np.broadcast_to(rest[0] if rest else True, pointers.at.shape)
        pointers.buffer.store(pointers.at, values, mask, self._number)
        return []

    # ---- products and reductions ----------------------------------------------------

    def _tt_dot(self, step: TritonOp, x: Array, y: Array, total: Array) -> list[Array]:
        """Evaluate `tt.dot`: a product of matrices, added to `total`."""
        precision = step.attributes.get("inputPrecision", 0)
        if x.dtype == np.float32 and precision == _ROUNDED_TO_TF32:
            x, y = _tf32(x), _tf32(y)
        elif x.dtype == np.float32 and _PRECISIONS[precision] not in ("ieee", "tf32x3"):
            _refuse(f"no kernel multiplies by {_PRECISIONS[precision]}")
        wide = [each.astype(total.dtype, copy=False) for each in (x, y)]
        return [total + np.matmul(*wide)]

    def _tt_reduce(self, step: TritonOp, *operands: Array) -> list[Array]:
        """Evaluate `tt.reduce`, combining halves of an axis pairwise as lanes are.

        The block of the op is run on whole arrays.
        """
        axis, (block,) = step.attributes["axis"], step.blocks
        found = [np.moveaxis(x, axis, 0) for x in operands]
        while len(found[0]) > 1:
            half = len(found[0]) // 2
            pairs = [x[:half] for x in found] + [x[half:] for x in found]
            found = self.run(block, pairs)
        return [x[0] for x in found]

    # ---- control --------------------------------------------------------------------

    def _scf_for(
        self, step: TritonOp, first: Array, end: Array, by: Array, *carried: PyTree
    ) -> list[object]:
        """Evaluate `scf.for`: run its block for each index, carrying values."""
        (block,), held = step.blocks, [*carried]
        for index in range(int(first), int(end), int(by)):
            held = self.run(block, [np.asarray(index, first.dtype), *held])
        return held

    def _scf_if(self, step: TritonOp, condition: Array) -> list[object]:
        """Evaluate `scf.if`: run the block that a condition chooses."""
        if bool(condition):
            return self.run(step.blocks[0], [])
        return self.run(step.blocks[1], []) if len(step.blocks) > 1 else []


def _apply_to_elements(x: Any, function: Any) -> Any:
    """Apply a NumPy reshaping function to an array, or to the offsets of pointers."""
    if isinstance(x, Pointers):
        return Pointers(x.buffer, function(x.at))
    return function(x)


def _tf32(x: Array) -> Array:
    """Round f32 to the ten bits of fraction that tf32 has, ties to even."""
    bits = x.view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded.view(np.float32), x)


def _refuse(why: str) -> NoReturn:
    """Raise a `bad-kernel` error with a reason."""
    raise CompileError("bad-kernel", why)
