"""Guards of torch.export on sizes: conditions that every call must meet.

A branch of a module on its sizes is decided by the example that it is traced with, and
`torch._check` promises something of them. torch.export keeps both as guards, Python
code over `L['x'].size()[0]`, and as assertions of the graph.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from traceback import FrameSummary

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ShapeGuardPythonPrinter
from torch.utils import _pytree
from torch.utils._sympy.printers import PythonPrinter

from aotc.artifacts.conditions import Condition
from aotc.complexes import Complex
from aotc.dialects.types import Shape, Size
from aotc.importers.common.size_conditions import require_sizes
from aotc.importers.torch.exporting import is_library
from aotc.importers.torch.nodes import line_of
from aotc.importers.torch.unbacked import asserted_test
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import Place, at_location, user_place

_LAYOUT = re.compile(r"contiguous|strid|memory_format|non_overlapping|view_helper")
_BY_LAYOUT = re.compile(r"\.stride\(\)|\.storage_offset\(\)")
_WHY = "PyTorch traced the model for such sizes only"


@dataclass(frozen=True)
class ExportSizeGuard:
    """A condition on input sizes that a compiled torch module requires.

    Args:
        condition: over names for sizes.
        sizes: for each name the number of an input among the leaves, and the axis.
        place: the line of the model, where torch tells.
        node: the assertion in the graph that it stands for, if it is one.
    """

    condition: Condition
    sizes: Mapping[str, tuple[int, int]]
    place: Place | None = None
    node: Node | None = None

    def multiple(self) -> tuple[tuple[int, int], int] | None:
        """Return ((input, axis), divisor) of a guard `size % divisor == 0`; None for
        others.
        """
        found = re.fullmatch(r"(\w+) % (\d+) == 0", self.condition.text)
        return (self.sizes[found[1]], int(found[2])) if found else None

    def require(self, leaves: Sequence[object]) -> None:
        """Require the condition of these inputs: now, or as a guard; see
        `require_sizes`.
        """
        sizes: dict[str, Size] = {
            name: _shape(leaves[number])[axis]
            for name, (number, axis) in self.sizes.items()
        }
        with at_location(self.place or user_place()):
            require_sizes(self.condition, sizes, _WHY)


def _shape(leaf: object) -> Shape:
    """Return the shape of an input, which may be a complex pair."""
    part = leaf.real if isinstance(leaf, Complex) else leaf
    return lift(part).shape


@dataclass(frozen=True)
class Unkept:
    """A guard of torch.export that cannot be expressed as a condition on sizes."""

    text: str
    place: Place | None


Guard = ExportSizeGuard | Unkept


def size_guards(
    program: ExportedProgram, arguments: Sequence[tuple[str, _pytree.TreeSpec]]
) -> list[Guard]:
    """Return the guards of an exported program, including its graph's assertions.

    Conditions on how tensors lie in memory are left out: aotc's have one layout.

    Args:
        program: what torch.export made.
        arguments: the name and the form of each argument of `forward`.
    """
    paths = list(_paths(arguments))
    places = _guard_frames(program)
    found: list[Guard] = [
        _guard_of_code(code, paths, places.get(code))
        for code in program._guards_code
        if not _BY_LAYOUT.search(code) and not _is_about_layout(places.get(code))
    ]
    return [*found, *_assertion_guards(program, paths)]


def _paths(arguments: Sequence[tuple[str, _pytree.TreeSpec]]) -> Iterator[str]:
    """Yield torch.export's name, such as `['x'][0]`, of each leaf of some TreeSpecs."""
    for name, form in arguments:
        tree = form.unflatten(range(form.num_leaves))
        for path, _ in _pytree.tree_flatten_with_path(tree)[0]:
            yield f"['{name}']{_pytree.keystr(path)}"


def _record_size(
    sizes: dict[str, tuple[int, int]], path: str, number: int, axis: int
) -> str:
    """Record an input size under a new name such as `x_0` in `sizes`; return the name.

    Args:
        sizes: the number of the input and the axis, by name.
        path: of the input, such as `['x'][0]`.
        number: of the input.
        axis: of the size.
    """
    name = f"{re.sub(r'[^0-9A-Za-z]+', '_', path).strip('_')}_{axis}"
    # The first of the inputs `x` and an input `x_0` are spelled alike.
    if sizes.setdefault(name, (number, axis)) != (number, axis):
        name = f"{name}_of_{number}"
        sizes[name] = number, axis
    return name


def _variadic_path(path: str) -> str:
    """Return `['more'][0]` for `['more_0']`: how guards name an element of `*more`."""
    return re.sub(r"^\['(\w+)_(\d+)'\]", r"['\1'][\2]", path)


# ---- guards as code -----------------------------------------------------------------


def _guard_of_code(
    code: str, paths: Sequence[str], frame: FrameSummary | None
) -> Guard:
    """Return the guard that a line of torch.export's Python code expresses."""
    sizes: dict[str, tuple[int, int]] = {}
    text = code
    for number, path in enumerate(paths):

        def name(found: re.Match[str], number: int = number, path: str = path) -> str:
            return _record_size(sizes, path, number, int(found[1]))

        # with strict=True, torch.export names the leaves by their numbers
        for spelling in (path, _variadic_path(path), f"['flat_args'][{number}]"):
            size = re.escape(f"L{spelling}.size()") + r"\[(\d+)\]"
            text = re.sub(size, name, text)
    place = None if frame is None else (frame.filename, frame.lineno or 0)
    own = place if place and not is_library(place[0]) else None
    return _guard(code, text, sizes, own)


def _guard(
    code: str,
    text: str,
    sizes: Mapping[str, tuple[int, int]],
    place: Place | None,
    node: Node | None = None,
) -> Guard:
    """Return the guard for a condition as text; `Unkept` if it is not on sizes
    alone.
    """
    try:
        condition = Condition.parse(_as_condition_text(text))
    except (ValueError, SyntaxError):
        return Unkept(code, place)
    if not condition.symbols <= sizes.keys():
        return Unkept(code, place)
    used = {name: sizes[name] for name in condition.symbols}
    return ExportSizeGuard(condition, used, place, node)


class _ConditionSyntax(ast.NodeTransformer):
    """Rewrites torch.export's Python expressions to the syntax of `Condition`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Return `floor` for `math.floor`, `float` for `torch.sym_float`, and so on."""
        return ast.Name(_CONDITION_NAMES.get(node.attr, node.attr))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Return powers by positive integers as products: `x * x` for `x ** 2`."""
        self.generic_visit(node)
        power = node.right.value if isinstance(node.right, ast.Constant) else None
        if not isinstance(node.op, ast.Pow) or not isinstance(power, int) or power < 1:
            return node
        product: ast.expr = node.left
        for _ in range(power - 1):
            product = ast.BinOp(product, ast.Mult(), node.left)
        return product


_CONDITION_NAMES = {
    "sym_float": "float",
    "sym_int": "trunc",
    "sym_max": "max",
    "sym_min": "min",
}


def _as_condition_text(text: str) -> str:
    """Return a Python expression in the syntax of `Condition`."""
    return ast.unparse(_ConditionSyntax().visit(ast.parse(text, mode="eval")))


def _guard_frames(program: ExportedProgram) -> dict[str, FrameSummary]:
    """Map each guard's code to the frame that made it, the model's or PyTorch's own.

    {} for a program from a file.
    """
    env = _shape_env(program)
    if env is None:
        return {}
    printer = ShapeGuardPythonPrinter(
        env.var_to_sources, lambda source: source.name, env.var_to_sources
    )
    return {
        printer.doprint(guard.expr): guard.sloc.framework_loc
        for guard in env.guards
        if guard.expr.free_symbols <= env.var_to_sources.keys()
    }


def _shape_env(program: ExportedProgram) -> ShapeEnv | None:
    """Return torch's ShapeEnv of a program; None if no size is symbolic."""
    for node in program.graph.nodes:
        made = node.meta.get("val")
        if isinstance(made, torch.Tensor):
            for size in made.shape:
                if isinstance(size, torch.SymInt):
                    return size.node.shape_env
    return None


def _is_about_layout(frame: FrameSummary | None) -> bool:
    """Return whether a guard stems from torch's choice of memory layouts."""
    if frame is None or not is_library(frame.filename):
        return False
    return _LAYOUT.search(frame.name) is not None


# ---- assertions of the graph --------------------------------------------------------


def _assertion_guards(
    program: ExportedProgram, paths: Sequence[str]
) -> Iterator[Guard]:
    """Yield the graph's assertions on input sizes alone, as guards."""
    terms, sizes = _terms(program, paths)
    for node in program.graph.nodes:
        test = asserted_test(node)
        if test is not None and test.free_symbols <= terms.keys():
            text = PythonPrinter().doprint(test.xreplace(terms))
            guard = _guard(text, text, sizes, line_of(node), node)
            if isinstance(guard, ExportSizeGuard):  # else the graph asserts it
                yield guard


def _terms(
    program: ExportedProgram, paths: Sequence[str]
) -> tuple[dict[sympy.Symbol, sympy.Symbol], dict[str, tuple[int, int]]]:
    """Map torch's symbols to named sizes, and these names to (input, axis)."""
    terms: dict[sympy.Symbol, sympy.Symbol] = {}
    sizes: dict[str, tuple[int, int]] = {}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    given = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    for number, (name, path) in enumerate(zip(given, paths, strict=True)):
        made = nodes[name].meta.get("val") if name in nodes else None
        for axis, size in enumerate(getattr(made, "shape", ())):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                title = _record_size(sizes, path, number, axis)
                terms.setdefault(size.node.expr, sympy.Symbol(title, integer=True))
    return terms, sizes
