"""Gradient certificates: proof, before a bundle is written, that derivatives are right.

Every derivative that an entry takes, itself or in what it calls and runs, is compiled
once more, with f64 in the place of all floats, and run at the point that the entry
first reaches with its initial states and random inputs. For random directions v of the
arguments and w of the results,

- the dot-product test compares ⟨w, J v⟩, by forward mode, with ⟨Jᵀ w, v⟩, by reverse
  mode: two sets of rules (Claerbout, "Earth Soundings Analysis", 1992);
- the directional test compares ⟨Jᵀ w, v⟩ with a central difference of the function;
- where the function has checkpoints, Jᵀ w is compared with what it is without them.

When one fails, every op that the function is made of is tested in the same way on the
values it has there, and the first one that fails is named with its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

from aotc.backend import compile_units
from aotc.checks.certificate.blame import wrong_op
from aotc.checks.certificate.check import DIFFERENCE, Arrays, DerivativeCheck, Run
from aotc.checks.certificate.modules import (
    Modes,
    has_checkpoints,
)
from aotc.checks.certificate.points import Point, points_of
from aotc.checks.compiled import Export
from aotc.checks.process import DIED, CompiledProcess, code_of, export_at
from aotc.core import dtypes
from aotc.core.json_values import JsonObject
from aotc.dialects import context
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.functions import copy_module, functions_of, keep_only
from aotc.dialects.functions.transform import Widened, derive
from aotc.errors import AotcError, CompileError, InputError
from aotc.machine.target import Target
from aotc.mlir import Module, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import passes_between
from aotc.programs.program import Program

DOT_PRODUCT = 1e-9  # the largest difference that is rounding


@dataclass(frozen=True)
class Certificate:
    """The measured errors of one derivative that an entry takes.

    Args:
        entry: that takes the derivative.
        function: the graph function that is differentiated.
        where: the line that asks for it.
        seed: of the random inputs and directions.
        reached: whether the entry gets there, and the function is finite; nothing is
            measured if not, as what is infinite or NaN has no derivative.
        dot_product: relative difference of ⟨w, J v⟩ and ⟨Jᵀ w, v⟩; None where the model
            has rules for one mode only.
        difference: of the slope and the nearest central difference; None where the
            model stops gradients, so that they are no differences on purpose.
        remat: of the gradients with and without checkpoints; None where there are none.
        missed: the branches of the function that are not taken, so not measured.
    """

    entry: str
    function: str
    where: str | None
    seed: int
    reached: bool = False
    dot_product: float | None = None
    difference: float | None = None
    remat: float | None = None
    missed: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether all measured errors are as small as rounding."""
        return (
            (self.dot_product or 0) <= DOT_PRODUCT
            and (self.difference or 0) <= DIFFERENCE
            and (self.remat or 0) <= DOT_PRODUCT
        )

    @property
    def figures(self) -> str:
        """The measured errors in words."""
        found = [
            f"dot product {_figure_text(self.dot_product)}",
            f"finite differences {_figure_text(self.difference)}",
        ]
        if self.remat is not None:
            found.append(f"with and without checkpoints {_figure_text(self.remat)}")
        return ", ".join(found)

    def __str__(self) -> str:
        title = f"gradient in {self.entry} ({self.where}): "
        if not self.reached:
            return title + (
                "NOT CHECKED, the random inputs do not lead there, or to no numbers"
            )
        missed = f"; not taken: {', '.join(self.missed)}" if self.missed else ""
        return title + self.figures + missed

    def to_json(self) -> JsonObject:
        """Return the certificate as the manifest holds it."""
        return {**asdict(self), "missed": list(self.missed)}


def certify(program: Program, seed: int = 0) -> list[Certificate]:
    """Check every derivative that a program's entries take; return a certificate for
    each.

    Args:
        program: as a frontend made it; no pass has run.
        seed: of the random inputs and directions.

    Raises:
        CompileError: `wrong-derivative`, with the op whose rule is wrong, if one fails;
            `check-failed`, if IREE cannot run one.
        InputError: `needs-devices`: several devices compute one.
    """
    with context(), ir.Location.unknown(), _on_one_device():
        rng = np.random.default_rng(seed)
        points = [
            p for entry in program.entries for p in points_of(program, entry, rng)
        ]
        measured = _certificates(
            program, [p for p in points if p.arrays is not None], seed
        )
        return [
            Certificate(point.entry, point.function, point.where, seed)
            if point.arrays is None
            else next(measured)
            for point in points
        ]


@contextmanager
def _on_one_device() -> Iterator[None]:
    """Raise within the context if a derivative would exchange data between devices."""
    try:
        yield
    except InputError as error:
        if error.code != "needs-devices":
            raise
        raise InputError(
            error.code,
            f"expected gradients that one device computes, to certify them: "
            f"{error.message}",
            where=error.where,
            hint="leave out --certify-gradients, or name entries without collectives "
            "in what they differentiate (--entry); gradients that are averaged "
            "afterwards are checked",
        ) from error


def _certificates(
    program: Program, points: Sequence[Point], seed: int
) -> Iterator[Certificate]:
    """Compile the checks of all reached derivatives together; yield a certificate for
    each.
    """
    if not points:
        return
    module = copy_module(program.module)
    pairs = [_declare_checks(module, *each) for each in enumerate(points)]
    checks = [check for pair in pairs for check in pair if check is not None]
    keep_only(module, [check.name for check in checks])
    program = Program.of_functions(module, [check.entry() for check in checks])
    target = Target.parse("cpu")
    program.target = str(target)
    unit = Unit(program, target)
    run_passes(unit, ("autodiff",))
    graph = copy_module(module)
    run_passes(unit, passes_between("autodiff", None, program.level, program.without))
    (variant,) = compile_units([unit])
    code = code_of(variant, [_export(check) for check in checks])
    with CompiledProcess(code) as process:
        for (check, plain), point in zip(pairs, points, strict=True):
            yield _certificate(graph, process, check, plain, point, seed)


def _declare_checks(
    module: Module, number: int, point: Point
) -> tuple[DerivativeCheck, DerivativeCheck | None]:
    """Declare a check of a derivative, and one of the derivative without checkpoints;
    None if there are none.
    """
    name = f"certificate_{number}"
    check = _declare_check(module, name, Widened(point.function), point)
    if not point.modes.reverse or not has_checkpoints(module, point.function):
        return check, None
    point = replace(point, modes=Modes(reverse=True, forward=False))
    plain = Widened(point.function, checkpoints=False)
    return check, _declare_check(module, f"{name}_plain", plain, point)


def _declare_check(
    module: Module, name: str, widened: Widened, point: Point
) -> DerivativeCheck:
    """Add a function that checks a widened function's derivative to the module; return
    its check.
    """
    primal = functions_of(module)[point.function]
    with ir.InsertionPoint(primal.entry_block), primal.location:
        of = derive(widened)
    return DerivativeCheck.declare(
        module, name, of, point.wrt, point.modes, point.symbols
    )


def _certificate(
    graph: Module,
    process: CompiledProcess,
    check: DerivativeCheck,
    plain: DerivativeCheck | None,
    point: Point,
    seed: int,
) -> Certificate:
    """Run the compiled check of one derivative; return the certificate, or raise."""
    x = [_wide(array) for array in point.arrays or ()]
    rng = np.random.default_rng(seed)
    run = _compiled_function(process, check, point)
    first = check.evaluate(run, x, rng)
    if not first.is_finite and not check.is_defined_at(graph, x):
        return Certificate(point.entry, point.function, point.where, seed)
    dot_product, difference = check.measure(run, first, rng)
    found = Certificate(
        point.entry,
        point.function,
        point.where,
        seed,
        True,
        dot_product,
        None if _has_stopped_gradient(graph, check.of) else difference,
        check.compare(run, plain, _compiled_function(process, plain, point), x, rng)
        if plain
        else None,
        point.missed,
    )
    if not found.holds:
        raise _refusal(graph, check, found, x, rng)
    return found


def _has_stopped_gradient(graph: Module, name: str) -> bool:
    """Return whether a function treats an intermediate value as constant."""
    known = functions_of(graph)
    bodies = [
        known[each]
        for each in reachable_functions(known, name)
        if not known[each].is_external
    ]
    return any(
        getattr(op, "is_constant", False) and op.operands
        for function in bodies
        for op in function.entry_block.operations
    )


def _refusal(
    graph: Module,
    check: DerivativeCheck,
    found: Certificate,
    x: Arrays,
    rng: np.random.Generator,
) -> CompileError:
    """Return the error for a wrong derivative, with the op whose rule is at fault."""
    guilty = wrong_op(graph, check, x, rng)
    name, where = guilty or (f"'{found.function}' as a whole", found.where)
    return CompileError(
        "wrong-derivative",
        f"the derivative of {name} is wrong: in entry '{found.entry}', {found.figures} "
        f"(at most {DOT_PRODUCT:.0e}, {DIFFERENCE:.0e}, {DOT_PRODUCT:.0e})",
        where=where,
        hint="if it is a rule of yours (custom_vjp, custom_jvp), correct it; else "
        "please report it",
    )


def _figure_text(figure: float | None) -> str:
    """Return a measured error as text; "left out" for None."""
    return "left out" if figure is None else f"{figure:.1e}"


# ---- the compiled checks ------------------------------------------------------------


def _export(check: DerivativeCheck) -> Export:
    """Return the check's function as an `Export`, with its fixed sizes."""
    return export_at(
        check.name, check.argument_types, check.result_types, check.symbols
    )


def _compiled_function(
    process: CompiledProcess, check: DerivativeCheck, point: Point
) -> Run:
    """Return a function that calls the compiled check in the process."""

    def run(x: Arrays) -> Arrays:
        try:
            return process.call(check.name, x)[0]
        except AotcError as error:
            raise CompileError(
                error.code if error.code == DIED else "check-failed",
                f"the check of a gradient in entry '{point.entry}' was compiled, but "
                f"does not run: {error.message}",
                where=point.where,
                hint="leave out --certify-gradients, and please report it",
            ) from error

    return run


def _wide(array: np.ndarray) -> np.ndarray:
    """Convert an array of floats to f64."""
    array = np.asarray(array)
    is_float = dtypes.is_float(dtypes.canonical_dtype(array.dtype))
    return array.astype(np.float64) if is_float else array
