"""Give the images that entries take and return another layout, nhwc or nchw.

    func @main(%x: tensor<1x3x8x8xf32>)         func @main(%x: tensor<1x8x8x3xf32>)
      %0 = graph.transpose(%x) {0, 2, 3, 1}  →    %1 = graph.transpose(%x) {0, 3, 1, 2}
      %y = graph.conv_general(%0, %w)             %0 = graph.transpose(%1) {0, 2, 3, 1}
                                                  %y = graph.conv_general(%0, %w)

The transposes cancel with those of the network (`simplify`, `sink-transposes`). Images
are inputs and outputs whose axes are those of convolutions or pooling, also of one and
three spatial axes. States and weights keep their layout.

Ensures: the entry says of each image which layout it
has, and which it had in the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.builder import Builder
from aotc.dialects.functions.entries import Entry, Port, write_entry
from aotc.dialects.functions.functions import before, copy_module, functions_of
from aotc.dialects.movement.image_layouts import (
    IMAGE_LAYOUTS,
    layout_of_rank,
    layout_permutation,
)
from aotc.dialects.movement.permutations import permute
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Function, Value, ir
from aotc.passes.autodiff import Autodiff
from aotc.passes.base import Pass, Unit
from aotc.passes.image_axes import ImageAxes
from aotc.passes.inline import Inline
from aotc.passes.properties import IS_GRAPH
from aotc.programs.program import Program

_Layouts = Sequence[str | None]  # of arguments or results, by letters; None as it is


@dataclass(frozen=True)
class SetIoLayout(Pass):
    """Change image inputs and outputs of all entries to nhwc or nchw layout.

    Args:
        layout: `nhwc` or `nchw`.

    Raises:
        InputError: `bad-pass-option`; `no-images`: no entry takes or returns any;
            `unknown-layout`: one may have either layout.
    """

    layout: str

    name = "set-io-layout"
    level = 0
    keeps_graph = True
    requires = (IS_GRAPH,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        if self.layout not in IMAGE_LAYOUTS:
            raise InputError(
                "bad-pass-option",
                f"expected one of {', '.join(IMAGE_LAYOUTS)} for {self.name}'s layout; "
                f"got '{self.layout}'",
            )
        changed = [self._set(unit, *found) for found in _images(unit)]
        if not changed:
            raise InputError(
                "no-images",
                "no input or output of an entry is a batch of images: none has its "
                "axes in common with what a convolution or a pooling reads or gives",
                hint="leave out --io-layout",
            )
        return any(changed)

    def _set(
        self, unit: Unit, entry: Entry, inputs: _Layouts, outputs: _Layouts
    ) -> bool:
        """Change an entry's image arguments and results to the layout; return whether
        any changed.
        """
        function = functions_of(unit.module)[entry.name]
        arguments = self._ports(entry.arguments, inputs)
        results = self._ports(entry.results, outputs)
        self._move_arguments(function, arguments, inputs)
        self._move_results(function, results, outputs)
        types = [
            [value.type for value in side]
            for side in (function.entry_block.arguments, _returned(function))
        ]
        whole = ir.TypeAttr.get(ir.FunctionType.get(*types))
        is_changed: bool = whole != function.attributes["function_type"]
        function.attributes["function_type"] = whole
        changed = replace(entry, arguments=arguments, results=results)
        write_entry(unit.module, changed)
        return is_changed or changed != entry

    def _ports(self, ports: Sequence[Port], layouts: _Layouts) -> tuple[Port, ...]:
        """Return the ports of arguments or results, images with their shape in the new
        layout.
        """
        return tuple(
            port if known is None else self._port(port, known)
            for port, known in zip(ports, layouts, strict=True)
        )

    def _port(self, port: Port, known: str) -> Port:
        """Return an image port with its shape permuted from layout `known` to the new
        one.
        """
        layout = self._letters(known)
        permutation = layout_permutation(known, layout)
        kind = port.type.with_shape(permute(port.type.shape, permutation))
        source = port.source_layout or known
        return replace(port, type=kind, layout=layout, source_layout=source)

    def _letters(self, known: str) -> str:
        """Return the new layout for the rank of layout `known`."""
        return layout_of_rank(self.layout, len(known))

    def _move_arguments(
        self, function: Function, ports: Sequence[Port], layouts: _Layouts
    ) -> None:
        """Change argument types to the new layout; transpose back before their uses."""
        block, build = function.entry_block, Builder()
        rows = zip(block.arguments, ports, layouts, strict=True)
        with before(block.operations[0]):
            for value, port, known in rows:
                if known in (None, port.layout):
                    continue
                assert known is not None
                uses = [(use.owner, use.operand_number) for use in value.uses]
                value.set_type(port.type.to_mlir())
                order = layout_permutation(port.layout, known)
                source = build.transpose(value, permutation=order)
                for reader, number in uses:
                    reader.operands[number] = source

    def _move_results(
        self, function: Function, ports: Sequence[Port], layouts: _Layouts
    ) -> None:
        """Transpose returned images to the new layout."""
        build, end = Builder(), _return_op(function)
        with before(end):
            for number, (port, known) in enumerate(zip(ports, layouts, strict=True)):
                if known in (None, port.layout):
                    continue
                assert known is not None
                order = layout_permutation(known, port.layout)
                end.operands[number] = build.transpose(
                    end.operands[number], permutation=order
                )


def _images(unit: Unit) -> list[tuple[Entry, _Layouts, _Layouts]]:
    """Return the entries that take or return images, with the layouts of inputs and
    outputs.
    """
    flat = copy_module(unit.module)
    for each in (Autodiff(), Inline()):
        each.run(Unit(Program(flat)))
    functions = functions_of(flat)
    found: list[tuple[Entry, _Layouts, _Layouts]] = []
    for entry in unit.program.entries:
        function = functions[entry.name]
        axes = ImageAxes(function)
        inputs = _layouts(axes, function.entry_block.arguments, entry.arguments)
        outputs = _layouts(axes, _returned(function), entry.results)
        if any(inputs) or any(outputs):
            found.append((entry, inputs, outputs))
    return found


def _layouts(
    axes: ImageAxes, values: Sequence[Value], ports: Sequence[Port]
) -> _Layouts:
    """Return the layout of each port that is an image, None for others; raise if
    unclear.
    """
    found: list[str | None] = []
    for value, port in zip(values, ports, strict=True):
        layout = axes.layout(value) if port.kind in ("input", "output") else None
        if port.kind in ("input", "output") and axes.is_ambiguous(value):
            raise _ambiguous_error(port)
        rank = Tensor.of(value).rank
        found.append(None if layout is None else layout_of_rank(layout, rank))
    return found


def _ambiguous_error(port: Port) -> InputError:
    """Return the error for an image whose channel axis cannot be determined."""
    return InputError(
        "unknown-layout",
        f"the {port.kind} '{port.name}' of {port.type} has spatial axes of an image, "
        "and nothing tells which of its axes are the channels, so --io-layout cannot "
        "say whether it stays as it is",
        hint="leave out --io-layout and transpose it outside, or give the model an "
        "output of three axes or fewer in its place",
    )


def _return_op(function: Function) -> ir.OpView:
    """Return the return op of a function."""
    return function.entry_block.operations[len(function.entry_block.operations) - 1]


def _returned(function: Function) -> Sequence[Value]:
    """Return the values that a function returns."""
    return list(_return_op(function).operands)
