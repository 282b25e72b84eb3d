"""Stacks: what the steps of a loop write, element by element, into one buffer.

Note [loop buffers]: IREE 3.13 clones a tensor that a loop carries whenever a step
writes a part of it: 16 MB for each of 1,000 steps are 6 s. A stack is a mutable global
of the module instead, which is written in place (0.05 s). The functions around it must
stay calls: inlined, the load after a loop is moved above the stores in it, and gives
the elements of the call before. The buffer is new for every loop and given away at its
end, so earlier results keep theirs; but one module serves one call at a time.
"""

from typing import Any

from aotc.dialects.functions import current_module
from aotc.dialects.lowering import foreign
from aotc.dialects.types import Tensor, lowered_type
from aotc.mlir import ir, tensor


class Stack:
    """The lowered elements along the leading axis of a tensor of type `whole`.

    There is room for all of them from here on.
    """

    def __init__(self, low: Any, whole: Tensor) -> None:
        self._low = low
        self._whole = whole
        self._rest = whole.with_shape(whole.shape[1:])
        dynamic = ir.ShapedType.get_dynamic_size()
        inner = lowered_type(self._rest)
        self._type = ir.RankedTensorType.get(
            [dynamic, *inner.shape], inner.element_type
        )
        self._is_empty = 0 in whole.shape
        self._name = foreign.unique_global(current_module(), "stack")
        if not self._is_empty:
            self._begin()

    def _begin(self) -> None:
        sizes = [self._low.size(self._whole.shape[0])]
        sizes += self._low.dynamic_sizes(self._rest.shape)
        names = ", ".join(f"%{number}" for number in range(len(sizes)))
        body = [*self._emptied(names), "return"]
        held = f'util.global private mutable @"{self._name}" : {self._type}'
        self._call("begin", sizes, [], body, held)

    def write(self, element: Any, index: Any) -> None:
        """Store the lowered `element` at `index`."""
        if self._is_empty:
            return
        lines, _ = foreign.sizes("%0", element.type)
        given = element.type
        lengths = [
            f"%size{axis}"
            if given.is_dynamic_dim(axis)
            else str(given.get_dim_size(axis))
            for axis in range(given.rank)
        ]
        offsets, steps = ["%1"] + ["0"] * given.rank, ["1"] * (given.rank + 1)
        place = " ".join(f"[{', '.join(p)}]" for p in (offsets, ["1", *lengths], steps))
        body = [
            *lines,
            self._load(),
            f"%new = tensor.insert_slice %0 into %held{place} "
            f": {given} into {self._type}",
            self._store("%new"),
            "return",
        ]
        self._call("write", [element, index], [], body)

    def end(self) -> Any:
        """All elements; the stack lets go of them."""
        if self._is_empty:
            return self._low.empty(self._whole)
        axes = range(self._rest.rank)
        dynamic = [a for a in axes if self._type.is_dynamic_dim(a + 1)]
        none = ", ".join(["%none"] * (1 + len(dynamic)))
        zero = "%none = arith.constant 0 : index"
        body = [
            self._load(),
            zero,
            *self._emptied(none),
            f"return %held : {self._type}",
        ]
        (found,) = self._call("end", [], [self._type], body)
        exact = lowered_type(self._whole)
        return found if exact == self._type else tensor.cast(exact, found)

    def _call(
        self, verb: str, operands: Any, results: Any, body: Any, held: str = ""
    ) -> list[Any]:
        name = f"{self._name}.{verb}"
        return foreign.call(name, operands, results, body, held=held, inlined=False)

    def _emptied(self, sizes: str) -> list[str]:
        empty = f"%empty = flow.tensor.empty : {self._type}{{{sizes}}}"
        return [empty, self._store("%empty")]

    def _load(self) -> str:
        return f'%held = util.global.load @"{self._name}" : {self._type}'

    def _store(self, value: str) -> str:
        return f'util.global.store {value}, @"{self._name}" : {self._type}'
