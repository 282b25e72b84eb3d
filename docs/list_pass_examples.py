"""Write docs/pass-examples.md: what each pass makes of a few lines of IR.

    python docs/list_pass_examples.py --write

`docs/pass_examples/` has a file of MLIR for each pass: examples, with `// -----`
between them. A comment at the beginning of each says what it shows, and `// options: …`
has the options of the pass. What is changed for one target alone states it as
`graph.target`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from aotc.core import dtypes
from aotc.dialects import context, iree_text
from aotc.dialects.calls.callees import declaration_of, reachable_functions
from aotc.dialects.functions.function_table import erase
from aotc.dialects.functions.functions import (
    copy_module,
    functions_of,
    is_root,
    lowered_op,
)
from aotc.dialects.functions.parameters import parameters_of
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.plain import plain_of
from aotc.dialects.printer import format_module
from aotc.dialects.types import Tensor
from aotc.machine.target import Target
from aotc.mlir import Function, Module, func, ir
from aotc.passes import PASSES, run_passes
from aotc.passes.base import Unit
from aotc.programs.files import parse_module
from aotc.programs.program import Program

PAGE = Path(__file__).parent / "pass-examples.md"
FOLDER = Path(__file__).parent / "pass_examples"

_HEAD = """\
# What each pass does

For each pass a few lines of IR before it and after it. [passes.md](passes.md) has the
order in which a build runs them.

Graphs are shown in the form for people (`aotc opt --readable`), with further attributes
in comments behind a function; lowered IR as it is, but for the bodies of kernels and of
functions that only IREE can read. What is not used any more, which `simplify`, `cse`
and `prune` drop, is left out.

The IR before is that of the files in `docs/pass_examples/`; `aotc opt
docs/pass_examples/cse.mlir --passes cse` runs such a file, unless the pass is for one
target. Tests run each example, and evaluate it before and after. `python
docs/list_pass_examples.py --write` makes this page, also after a change of a pass that
is meant.
"""


@dataclass(frozen=True)
class Example:
    """A few lines of IR that a pass changes.

    Args:
        name: of the pass.
        says: what the example shows, in a sentence.
        options: of the pass.
        text: the IR before it.
    """

    name: str
    says: str
    options: str
    text: str

    @property
    def spelled(self) -> str:
        """The pass with its options, as `aotc opt` reads it."""
        return f"{self.name}{{{self.options}}}" if self.options else self.name

    def unit(self) -> Unit:
        """Return the program before the pass; weights are random."""
        with context(), ir.Location.unknown():
            module = parse_module(self.text)
            rows = parameters_of(module)
            arrays = {row.name: draw(row.type) for row in rows}
            program = Program(module, arrays)
        target = program.target
        return Unit(program, Target.parse(target) if target else None)

    def run(self, unit: Unit) -> bool:
        """Run the pass on a unit; return whether it changed anything."""
        (record,) = run_passes(unit, [self.spelled], silently=True)
        return record.changed


def draw(kind: Tensor, seed: int = 0, size: int = 3) -> np.ndarray:
    """Return a random array of a type.

    Args:
        kind: type, any symbolic size of which becomes `size`.
        seed: of the random numbers.
        size: of symbolic axes.
    """
    rng = np.random.default_rng(seed)
    shape = [each if isinstance(each, int) else size for each in kind.shape]
    dtype = dtypes.to_numpy(kind.dtype)
    if kind.dtype in ("i8", "u8"):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.integers(least, most, shape, endpoint=True).astype(dtype)
    if kind.dtype == "bool" or kind.dtype[0] in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.uniform(0.2, 2.0, shape).astype(dtype)


def examples_of(name: str) -> list[Example]:
    """The examples of a pass, in order; none without a file."""
    file = FOLDER / f"{name}.mlir"
    if not file.exists():
        return []
    parts = file.read_text(encoding="utf-8").split("// -----\n")
    return [_read(name, part.strip()) for part in parts]


def _read(name: str, text: str) -> Example:
    head, says, options = True, [], ""
    for line in text.splitlines():
        head = head and line.startswith("// ")
        if head and line.startswith("// options: "):
            options = line.removeprefix("// options: ")
        elif head:
            says.append(line.removeprefix("// "))
    return Example(name, " ".join(says), options, text)


# ---- as text ------------------------------------------------------------------------

# what the head of a function shows, and what reports are made of
_LEFT_OUT = {"sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs"}
_LEFT_OUT |= {"graph.symbols", "graph.entry", "graph.shared_work"}
_LEFT_OUT |= {"graph.without_kernel"}


def shown(unit: Unit) -> str:
    """Return the IR of a unit as the page shows it: what nothing uses is left out."""
    module = copy_module(unit.module)
    with module.context, ir.Location.unknown():
        _erase_unused(module)
        if lowered_op(module) is not None:
            return _lowered_text(module)
        text = format_module(module, _note)
    return re.sub(r"   # \S+:\d+$", "", text, flags=re.MULTILINE).strip()


def _erase_unused(module: Module) -> None:
    """Erase ops that nothing reads, and private functions that nothing names."""
    functions = functions_of(module)
    roots = [name for name, each in functions.items() if is_root(each)]
    named = {x for root in roots for x in (root, *reachable_functions(functions, root))}
    for name, function in functions.items():
        if name not in named:
            erase(function)
            continue
        blocks = [] if function.is_external else function.regions[0].blocks
        for op in reversed([op for block in blocks for op in block.operations]):
            is_pure = isinstance(op.opview, GraphOp) and not has_effect(op.opview)
            if is_pure and not any(True for x in op.results for _ in x.uses):
                op.operation.erase()


def _note(function: Function) -> str:
    """Return a line for each attribute that the head of a function does not show."""
    lines = []
    for named in () if _is_declaration(function) else function.attributes:
        name = named if isinstance(named, str) else named.name
        if name not in _LEFT_OUT:
            lines.append(f"{name} = {function.attributes[name]}")
    for side in ("arg_attrs", "res_attrs"):
        if side in function.attributes:
            lines += _ports(ir.ArrayAttr(function.attributes[side]))
    return "\n".join(sorted({*lines}))


def _is_declaration(function: Function) -> bool:
    """Return whether a function stands for control flow or an unwritten derivative."""
    return function.is_external and declaration_of(function) is not None


def _ports(rows: ir.ArrayAttr) -> Iterator[str]:
    """Yield what there is to say of arguments, or results, besides their names."""
    for row in map(ir.DictAttr, rows):
        facts = {each.name: plain_of(each.attr) for each in row if each.name in _FACTS}
        layouts = [f"{_FACTS[name]}{facts[name]}" for name in facts if _FACTS[name]]
        if facts.get("graph.kind") in ("weight", "state") or layouts:
            told = [str(facts["graph.kind"]), *layouts]
            yield f"{facts['graph.name']}: {', '.join(told)}"


_FACTS = {
    "graph.kind": "",
    "graph.name": "",
    "graph.layout": "layout ",
    "graph.source_layout": "source layout ",
}


def _lowered_text(module: Module) -> str:
    """Return lowered IR without the bodies that only IREE can read, and kernels'."""
    attributes = module.operation.attributes
    for name in [x if isinstance(x, str) else x.name for x in attributes]:
        if name != "sym_name":
            del attributes[name]
    for op in module.body.operations:
        if isinstance(op, func.FuncOp):
            for name in ("graph.entry", "graph.symbols", "arg_attrs", "res_attrs"):
                if name in op.attributes:
                    del op.attributes[name]
            if iree_text.BODY in op.attributes:
                op.attributes[iree_text.BODY] = ir.StringAttr.get("...")
        elif op.operation.name == "builtin.module":  # a kernel
            del op.attributes["graph.kernel"]
            for each in op.regions[0].blocks[0].operations:
                each.operation.erase()
    return str(module.operation.get_asm(enable_debug_info=False)).strip()


# ---- the page -----------------------------------------------------------------------


def section(name: str) -> str:
    """Return what the page has of a pass."""
    module, _, _ = PASSES[name].partition(":")
    (first, *_) = str(import_module(module).__doc__).split("\n\n")
    lines = [f"## {name}", "", " ".join(first.split())]
    for example in examples_of(name):
        unit = example.unit()
        before = shown(unit)
        example.run(unit)
        options = f" `{example.spelled}`" if example.options else ""
        lines += ["", f"{example.says}{options}", ""]
        lines += ["```", "// before", before, "", "// after", shown(unit), "```"]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, as it should be."""
    return "\n".join([_HEAD, *map(section, PASSES)])


def main() -> None:
    """Print the page, or write it where it is kept."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
