"""Functions that fill a global tensor of a module by parts, as text for IREE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.mlir import ir


@dataclass(frozen=True)
class Stack:
    """A global tensor that stacks tensors of one shape along its first axis, as text.

    Args:
        name: of the global.
        kind: of all of them: the first axis numbers them, and is of any size.
    """

    name: str
    kind: ir.RankedTensorType

    @property
    def definition(self) -> str:
        """The line that defines the global."""
        return f'util.global private mutable @"{self.name}" : {self.kind}'

    def begin(self, sizes: int) -> list[str]:
        """Return the text body that gives the global a buffer.

        Args:
            sizes: how many sizes it takes: those of the axes that are not static.
        """
        names = ", ".join(f"%{number}" for number in range(sizes))
        return [*self._replace(names), "return"]

    def write(self, first: int, kinds: Sequence[ir.RankedTensorType]) -> Iterator[str]:
        """Yield lines that store arguments, from `first` on, at indices %0, %1, ….

        Args:
            first: the number of the argument.
            kinds: the types of the arguments that are stored.
        """
        held = f"%{self.name}"
        yield self._load(held)
        for step, kind in enumerate(kinds):
            value = f"%{first + step}"
            new = f"%{self.name}_{step}"
            lines, sizes = _sizes(value, kind, new)
            yield from lines
            offsets, ones = [f"%{step}"] + ["0"] * kind.rank, ["1"] * (kind.rank + 1)
            parts = (offsets, ["1", *sizes], ones)
            place = " ".join(f"[{', '.join(part)}]" for part in parts)
            yield (
                f"{new} = tensor.insert_slice {value} into {held}{place} "
                f": {kind} into {self.kind}"
            )
            held = new
        yield self._store(held)

    def end(self) -> list[str]:
        """Return the text body that returns the stack, and empties the global."""
        dynamic = filter(self.kind.is_dynamic_dim, range(self.kind.rank))
        return [
            self._load("%held"),
            "%none = arith.constant 0 : index",
            *self._replace(", ".join("%none" for _ in dynamic)),
            f"return %held : {self.kind}",
        ]

    def _replace(self, sizes: str) -> list[str]:
        """Return lines that store an empty tensor of these sizes in the global."""
        empty = f"%empty = flow.tensor.empty : {self.kind}{{{sizes}}}"
        return [empty, self._store("%empty")]

    def _load(self, name: str) -> str:
        """Return the line that loads the global as `name`."""
        return f'{name} = util.global.load @"{self.name}" : {self.kind}'

    def _store(self, value: str) -> str:
        """Return the line that stores `value` in the global."""
        return f'util.global.store {value}, @"{self.name}" : {self.kind}'


def _sizes(
    value: str, kind: ir.RankedTensorType, prefix: str
) -> tuple[list[str], list[str]]:
    """Return lines that read a value's dynamic sizes, and the names of all sizes."""
    lines, sizes = [], [str(size) for size in kind.shape]
    for axis in range(kind.rank):
        if kind.is_dynamic_dim(axis):
            sizes[axis] = f"{prefix}_size{axis}"
            lines += [
                f"{prefix}_axis{axis} = arith.constant {axis} : index",
                f"{sizes[axis]} = tensor.dim {value}, {prefix}_axis{axis} : {kind}",
            ]
    return lines, sizes
