"""Gradient certificates: proof, before a bundle is written, that derivatives are right.

Every derivative that an entry takes is compiled once more, with f64 in the place of all
floats, and run at the point that the entry reaches with its initial states and random
inputs. For random directions v of the arguments and w of the results,

- the dot-product test compares ⟨w, J v⟩, by forward mode, with ⟨Jᵀ w, v⟩, by reverse
  mode: two sets of rules (Claerbout, "Earth Soundings Analysis", 1992);
- the directional test compares ⟨Jᵀ w, v⟩ with a central difference of the function.

When one fails, every op that the function is made of is tested in the same way on the
values it has there, and the first one that fails is named with its line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.artifacts.manifest import Leaf
from aotc.backend import Compiled, compile_targets
from aotc.certificate.blame import wrong_op
from aotc.certificate.check import Arrays, Check, Run
from aotc.certificate.points import (
    Point,
    copied,
    has_both_modes,
    keep_only,
    points_of,
)
from aotc.dialects import context
from aotc.dialects.functions import functions_of
from aotc.dialects.transform import Widened, derive
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import CompileError
from aotc.frontends.program import Program
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.runtime import engine
from aotc.runtime.contract import Contract
from aotc.runtime.function import Function, Module
from aotc.runtime.loader import start
from aotc.target import Target

DOT_PRODUCT = 1e-9  # the largest difference that is rounding
DIFFERENCE = 1e-5

_LOWERING = (
    "inline",
    "simplify",
    "cse",
    "decompose",
    "simplify",
    "lower-to-linalg",
    "cse",
)


@dataclass(frozen=True)
class Certificate:
    """What was measured for one derivative.

    Args:
        entry: that takes the derivative.
        function: the graph function that is differentiated.
        where: the line that asks for it.
        seed: of the random inputs and directions.
        dot_product: relative difference of ⟨w, J v⟩ and ⟨Jᵀ w, v⟩; None where a rule
            of the model's is for reverse mode only.
        difference: of ⟨Jᵀ w, v⟩ and the nearest central difference; None where the
            model stops gradients, so that they are no differences on purpose.
    """

    entry: str
    function: str
    where: str | None
    seed: int
    dot_product: float | None
    difference: float | None

    @property
    def holds(self) -> bool:
        """Whether both are as small as rounding."""
        return (self.dot_product or 0) <= DOT_PRODUCT and (
            self.difference or 0
        ) <= DIFFERENCE

    def __str__(self) -> str:
        return (
            f"gradient in {self.entry} ({self.where}): dot product "
            f"{_shown(self.dot_product)}, finite differences {_shown(self.difference)}"
        )

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return asdict(self)


def certify(program: Program, seed: int = 0) -> list[Certificate]:
    """Check every derivative that the entries of a program take by reverse mode.

    Args:
        program: as a frontend made it; no pass has run.
        seed: of the random inputs and directions.

    Raises:
        CompileError: `wrong-derivative`, with the op whose rule is wrong, if one fails.
    """
    with context(), ir.Location.unknown():
        rng = np.random.default_rng(seed)
        points = [
            p for entry in program.entries for p in points_of(program, entry, rng)
        ]
        if not points:
            return []
        module = copied(program.module)
        checks = [_declared(module, *each) for each in enumerate(points)]
        keep_only(module, [check.name for check in checks])
        run_passes(module, ("autodiff",))
        graph = copied(module)
        run_passes(module, _LOWERING)
        program = Program(module, [check.entry() for check in checks])
        (variant,) = compile_targets(program, [Target.parse("cpu")])
        code = _started(variant)
        return [
            _certified(graph, code, check, point, seed)
            for check, point in zip(checks, points, strict=True)
        ]


def _declared(module: Any, number: int, point: Point) -> Check:
    primal = functions_of(module)[point.function]
    with ir.InsertionPoint(primal.entry_block), primal.location:
        name = derive(Widened(point.function))
    check = f"certificate_{number}"
    both = has_both_modes(module, point.function)
    return Check.declare(module, check, name, point.wrt, both)


def _certified(
    graph: Any, code: Module, check: Check, point: Point, seed: int
) -> Certificate:
    """The certificate of one derivative, by the compiled code."""
    x = [_wide(array) for array in point.arrays]
    rng = np.random.default_rng(seed)
    dot_product, difference = check.measure(_compiled(code, check, x), x, rng)
    stops = any(
        _stops(op) for op in functions_of(graph)[check.of].entry_block.operations
    )
    found = Certificate(
        point.entry,
        point.function,
        point.where,
        seed,
        dot_product,
        None if stops else difference,
    )
    if not found.holds:
        raise _refusal(graph, check, found, x, rng)
    return found


def _stops(op: Any) -> bool:
    """Whether an op takes what it reads as constant to differentiation."""
    return bool(getattr(op, "is_constant", False) and op.operands)


def _refusal(
    graph: Any, check: Check, found: Certificate, x: Arrays, rng: Any
) -> CompileError:
    guilty = wrong_op(graph, check, x, rng)
    name, where = guilty or (f"'{found.function}' as a whole", found.where)
    return CompileError(
        "wrong-derivative",
        f"the derivative of {name} is wrong: in entry '{found.entry}', forward and "
        f"reverse mode differ by {_shown(found.dot_product)} (at most "
        f"{DOT_PRODUCT:.0e}), and from finite differences by "
        f"{_shown(found.difference)} (at most {DIFFERENCE:.0e})",
        where=where,
        hint="if it is a rule of yours (custom_vjp, custom_jvp), correct it; else "
        "please report it",
    )


def _shown(figure: float | None) -> str:
    return "left out" if figure is None else f"{figure:.1e}"


# ---- the compiled checks ------------------------------------------------------------


def _started(variant: Compiled) -> Module:
    backend = variant.target.backend
    return start(variant.vmfb, backend, engine.device(backend, None))


def _compiled(code: Module, check: Check, x: Arrays) -> Run:
    """The compiled function, for arguments of these shapes."""
    sizes = check.symbols(x)
    taken, returned = (
        [_leaf(f"x{i}", kind, sizes) for i, kind in enumerate(kinds)]
        for kinds in (check.taken, check.returned)
    )
    contract = Contract(check.name, taken, {})
    return Function(code, check.name, check.name, contract, returned, True)


def _leaf(name: str, kind: Tensor, sizes: list[int]) -> Leaf:
    return Leaf(name, kind.dtype, tuple(evaluate_size(n, sizes) for n in kind.shape))


def _wide(array: Any) -> Any:
    array = np.asarray(array)
    is_float = dtypes.is_float(dtypes.canonical(array.dtype))
    return array.astype(np.float64) if is_float else array
