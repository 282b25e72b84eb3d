"""Stacks: what the steps of a loop write, element by element, into buffers.

Note [loop buffers]: IREE 3.13 clones a tensor that a loop carries whenever a step
writes a part of it: 16 MB for each of 1,000 steps are 6 s. A stack is a mutable global
of the module instead, which is written in place (0.03 s). The functions around it must
stay calls: inlined, the load after a loop is moved above the stores in it, and gives
the elements of the call before. The buffer is new for every loop and given away at its
end, so earlier results keep theirs; but one module serves one call at a time.
"""

from collections.abc import Iterator, Sequence

from aotc.dialects.functions import current_module
from aotc.dialects.lowering import Lowering, foreign
from aotc.dialects.types import Tensor, lowered_type
from aotc.mlir import Type, Value, ir, tensor


class Stacks:
    """The lowered elements along the leading axis of tensors of types `wholes`.

    There is room for all of them from here on.
    """

    def __init__(self, low: Lowering, wholes: Sequence[Tensor]) -> None:
        self._all = [_Stack(low, whole) for whole in wholes]

    def write(self, places: Sequence[Value], steps: Sequence[Sequence[Value]]) -> None:
        """Store lowered elements, for each step one of every stack, at its place.

        All in one call, which the device is given at once.
        """
        operands = list(places)
        body: list[str] = []
        for stack, elements in zip(self._all, zip(*steps, strict=True), strict=True):
            if not stack.is_empty:
                first = len(operands)
                operands += elements
                body += stack.store_lines(first, operands[first:])
        if body:
            foreign.call("write", operands, [], [*body, "return"], inlined=False)

    def end(self) -> list[Value]:
        """All elements; the stacks let go of them."""
        return [stack.end() for stack in self._all]


class _Stack:
    """One of them: a global, and the text of functions that use it."""

    def __init__(self, low: Lowering, whole: Tensor) -> None:
        self.is_empty = 0 in whole.shape
        self._low = low
        self._whole = whole
        self._rest = whole.with_shape(whole.shape[1:])
        dynamic = ir.ShapedType.get_dynamic_size()
        inner = lowered_type(self._rest)
        self._type = ir.RankedTensorType.get(
            [dynamic, *inner.shape], inner.element_type
        )
        self._name = foreign.unique_global(current_module(), "stack")
        if not self.is_empty:
            self._begin()

    def _begin(self) -> None:
        sizes = [self._low.size(self._whole.shape[0])]
        sizes += self._low.dynamic_sizes(self._rest.shape)
        names = ", ".join(f"%{number}" for number in range(len(sizes)))
        body = [*self._empty_lines(names), "return"]
        held = f'util.global private mutable @"{self._name}" : {self._type}'
        self._call("begin", sizes, [], body, held)

    def store_lines(self, first: int, elements: Sequence[Value]) -> Iterator[str]:
        """Lines that store the arguments from `first` on at the places %0, %1, …."""
        held = f"%{self._name}"
        yield self._load(held)
        for step, element in enumerate(elements):
            value, kind = f"%{first + step}", element.type
            new = f"%{self._name}_{step}"
            lines, sizes = _sizes(value, kind, new)
            yield from lines
            offsets, ones = [f"%{step}"] + ["0"] * kind.rank, ["1"] * (kind.rank + 1)
            parts = (offsets, ["1", *sizes], ones)
            place = " ".join(f"[{', '.join(part)}]" for part in parts)
            yield (
                f"{new} = tensor.insert_slice {value} into {held}{place} "
                f": {kind} into {self._type}"
            )
            held = new
        yield self._store(held)

    def end(self) -> Value:
        """All elements."""
        if self.is_empty:
            return self._low.empty(self._whole)
        axes = range(self._rest.rank)
        dynamic = [a for a in axes if self._type.is_dynamic_dim(a + 1)]
        none = ", ".join(["%none"] * (1 + len(dynamic)))
        zero = "%none = arith.constant 0 : index"
        body = [
            self._load("%held"),
            zero,
            *self._empty_lines(none),
            f"return %held : {self._type}",
        ]
        (found,) = self._call("end", [], [self._type], body)
        exact = lowered_type(self._whole)
        return found if exact == self._type else tensor.cast(exact, found)

    def _call(
        self,
        verb: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        body: Sequence[str],
        held: str = "",
    ) -> list[Value]:
        name = f"{self._name}.{verb}"
        return foreign.call(name, operands, results, body, held=held, inlined=False)

    def _empty_lines(self, sizes: str) -> list[str]:
        empty = f"%empty = flow.tensor.empty : {self._type}{{{sizes}}}"
        return [empty, self._store("%empty")]

    def _load(self, name: str) -> str:
        return f'{name} = util.global.load @"{self._name}" : {self._type}'

    def _store(self, value: str) -> str:
        return f'util.global.store {value}, @"{self._name}" : {self._type}'


def _sizes(
    value: str, kind: ir.RankedTensorType, prefix: str
) -> tuple[list[str], list[str]]:
    """Lines that read the dynamic sizes of `value`, and all sizes as text."""
    lines, sizes = [], [str(size) for size in kind.shape]
    for axis in range(kind.rank):
        if kind.is_dynamic_dim(axis):
            sizes[axis] = f"{prefix}_size{axis}"
            lines += [
                f"{prefix}_axis{axis} = arith.constant {axis} : index",
                f"{sizes[axis]} = tensor.dim {value}, {prefix}_axis{axis} : {kind}",
            ]
    return lines, sizes
