"""The host code that IREE's stream phase leaves, with the last use of every value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iree.compiler import ir


class HostOp(NamedTuple):
    """An op with its values numbered, and the values that are dead after it."""

    kind: str
    op: ir.Operation
    operands: list[int]
    results: list[int]
    targets: list[int]  # the blocks that it may jump to
    dead: list[int]  # what is not used after it


class HostBlock(NamedTuple):
    """A basic block as a sequence of ops, with the values dead on entry."""

    arguments: list[int]
    steps: list[HostOp]
    dead: list[int]  # what other ways to here left, and arguments without a use


class HostCode:
    """The host code of a module in the stream phase; functions are analysed on
    demand.
    """

    def __init__(self, module: ir.Module) -> None:
        self.initializers: list[HostFunction] = []
        self.numbers: dict[str, int] = {}  # with which globals begin
        self._functions: dict[str, HostFunction] = {}
        self._ops: dict[str, ir.Operation] = {}
        for op in module.body.operations:
            kind = op.operation.name
            if kind == "util.func":
                self._ops[op.attributes["sym_name"].value] = op
            elif kind == "util.initializer":
                self.initializers.append(HostFunction(op))
            elif kind == "util.global" and "initial_value" in op.attributes:
                value = getattr(op.attributes["initial_value"], "value", None)
                if isinstance(value, int):
                    self.numbers[op.attributes["sym_name"].value] = value

    def is_external(self, name: str) -> bool:
        """Return whether a function is only declared."""
        return not list(self._ops[name].regions[0].blocks)

    def function(self, name: str) -> HostFunction:
        """Return the liveness-annotated body of a function; cached."""
        if name not in self._functions:
            self._functions[name] = HostFunction(self._ops[name])
        return self._functions[name]


class HostFunction:
    """The body of a function, with the last use of every value."""

    def __init__(self, function: ir.Operation) -> None:
        self._names: dict[ir.Value, int] = {}
        self._blocks = list(function.regions[0].blocks)
        self._after = self._live_after()
        self.blocks = [self._read(block) for block in self._blocks]

    def _name(self, value: ir.Value) -> int:
        """Return the number of a value; assign the next one at first sight."""
        return self._names.setdefault(value, len(self._names))

    def _live_before(self, block: ir.Block, live: set[int]) -> set[int]:
        """Return the values live before a block, given those live after it."""
        for op in reversed(list(block.operations)):
            live = live - {self._name(value) for value in op.results}
            live |= {self._name(value) for value in op.operands}
        return live - {self._name(value) for value in block.arguments}

    def _live_after(self) -> list[set[int]]:
        """Return the values live after each block: the least fixed point of the
        liveness equations.
        """
        after: list[set[int]] = [set() for _ in self._blocks]
        changed = True
        while changed:
            changed = False
            before = [
                self._live_before(block, live)
                for block, live in zip(self._blocks, after, strict=True)
            ]
            for block, live in zip(self._blocks, after, strict=True):
                for target in self._targets(list(block.operations)[-1]):
                    changed |= not before[target] <= live
                    live |= before[target]
        return after

    def _targets(self, op: ir.Operation) -> list[int]:
        """Return the numbers of a terminator's successor blocks."""
        return [self._blocks.index(block) for block in op.operation.successors]

    def _read(self, block: ir.Block) -> HostBlock:
        """Return a block with its values numbered and their last uses."""
        live, steps = set(self._after[self._blocks.index(block)]), []
        for op in reversed(list(block.operations)):
            operands = [self._name(value) for value in op.operands]
            results = [self._name(value) for value in op.results]
            dead = list({*operands, *results} - live)
            live = live - {*results} | {*operands}
            inner, targets = op.operation, self._targets(op)
            steps.append(HostOp(inner.name, inner, operands, results, targets, dead))
        arguments = [self._name(value) for value in block.arguments]
        dead = [name for name in self._names.values() if name not in live]
        return HostBlock(arguments, steps[::-1], dead)
