"""Stacks: buffers that the steps of a loop fill, element by element.

Note [loop buffers]: IREE 3.13 clones a tensor that a loop carries whenever a step
writes a part of it: 16 MB for each of 1,000 steps are 6 s. A stack is a mutable global
of the module instead, which is written in place (0.03 s). The functions around it must
stay calls: inlined, the load after a loop is moved above the stores in it, and gives
the elements of the call before. The buffer is new for every loop and given away at its
end, so earlier results keep theirs; but one module serves one call at a time.
"""

from collections.abc import Sequence

from aotc.dialects import iree_text
from aotc.dialects.functions.functions import current_module
from aotc.dialects.iree_text import stacks
from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Tensor, lowered_type
from aotc.mlir import Type, Value, ir, tensor


class StackedElements:
    """Buffers that steps of a loop fill, one for each tensor type in `wholes`.

    There is room for all of them from here on.
    """

    def __init__(self, low: Lowering, wholes: Sequence[Tensor]) -> None:
        """Emit the allocation of a buffer for each type."""
        self._all = [_Stack(low, whole) for whole in wholes]

    def write(self, places: Sequence[Value], steps: Sequence[Sequence[Value]]) -> None:
        """Emit a call that stores elements: for each step, one in each buffer.

        All in one call, which the device is given at once.
        """
        operands = list(places)
        body: list[str] = []
        for stack, elements in zip(self._all, zip(*steps, strict=True), strict=True):
            if not stack.is_empty:
                first = len(operands)
                operands += elements
                body += stack.text.write(first, [each.type for each in elements])
        if body:
            iree_text.call("write", operands, [], [*body, "return"], inlined=False)

    def end(self) -> list[Value]:
        """Emit the release of the buffers; return their contents as tensors."""
        return [stack.end() for stack in self._all]


class _Stack:
    """A buffer in a global of the module, used through calls."""

    def __init__(self, low: Lowering, whole: Tensor) -> None:
        """Emit a call that allocates the buffer, unless the type has no elements."""
        self.is_empty = 0 in whole.shape
        self._low = low
        self._whole = whole
        self._rest = whole.with_shape(whole.shape[1:])
        inner = lowered_type(self._rest)
        shape = [ir.ShapedType.get_dynamic_size(), *inner.shape]
        kind = ir.RankedTensorType.get(shape, inner.element_type)
        name = iree_text.unique_global(current_module(), "stack")
        self.text = stacks.Stack(name, kind)
        if not self.is_empty:
            sizes = [low.size(whole.shape[0]), *low.dynamic_sizes(self._rest.shape)]
            held = self.text.definition
            self._call("begin", sizes, [], self.text.begin(len(sizes)), held)

    def end(self) -> Value:
        """Emit a call that releases the buffer and returns its tensor."""
        if self.is_empty:
            return self._low.empty(self._whole)
        kind, exact = self.text.kind, lowered_type(self._whole)
        (found,) = self._call("end", [], [kind], self.text.end())
        return found if exact == kind else tensor.cast(exact, found)

    def _call(
        self,
        verb: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        body: Sequence[str],
        held: str = "",
    ) -> list[Value]:
        """Emit a call of a function with a text body that uses the global."""
        name = f"{self.text.name}.{verb}"
        return iree_text.call(name, operands, results, body, held=held, inlined=False)
