"""The inner loops of kernels, as assembly: do registers hold what they work on?

    python -m benchmarks.inner_loops [MODEL] [--targets T …]

Compiles a model for each target and lists the innermost loops of its kernels with at
least four multiply-adds of vectors that load or store vectors on the stack, where the
compiler puts what registers do not hold. Exits with 1 if there is a loop of sums of
products among them (two of five instructions are multiply-adds), for which schedules
leave registers. Loops of exponentials and the like hold many constants.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aotc.backend import compile_units
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import all_passes

MODEL = Path(__file__).parents[1] / "tests/kernels/contractions.py"
TARGETS = ("x86_64-v3", "x86_64-v4", "aarch64", "riscv64-v")

_FEW = 4  # multiply-adds of a loop that is not looked at
_FUNCTION = re.compile(r'^"?([A-Za-z_][\w.$]*)"?:')
_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^(?:b\.?\w*|cb\w+|tb\w+|j\w*)\s.*?(\.L\w+)$")
_MULTIPLY_ADD = re.compile(
    r"^(?:fml[as]|vfn?m(?:add|sub)\d+ps|vfn?m(?:acc|sac|add|sub)\.v[fv]"
    r"|vdpbf16ps|vpdpwssd|vpmaddwd|bfdot|u?[su]dot|u?[su]mmla|smlal2?|[su]adalp"
    r"|vwmacc\w*\.v[vx])\s"
)
_VECTOR = re.compile(r"%[xyz]mm|\b[qdsv]\d|^v[ls]\w+\.v\s")
# A slot has no index: what has one is memory that the kernel asked for. On RISC-V only
# spills are loads and stores of whole registers.
_STACK = {
    "sp": re.compile(r"\[sp(?:, #-?\w+)?\]|[^,(]*\(%rsp\)|^vs\d+r\.|^vl\d+r"),
    "frame": re.compile(r"\[x29(?:, #-?\w+)?\]|[^,(]*\(%rbp\)"),
}
_SETS_FRAME = re.compile(r"^(?:movq\s+%rsp, %rbp|(?:mov|add)\s+x29, sp)")


@dataclass(frozen=True)
class Loop:
    """The instruction counts of an innermost loop in assembly.

    Args:
        function: that it is in.
        instructions: in a round.
        multiply_adds: of them, of vectors.
        spills: of them, loads and stores of vectors on the stack.
    """

    function: str
    instructions: int
    multiply_adds: int
    spills: int

    @property
    def is_of_products(self) -> bool:
        """Return whether the loop mostly does multiply-adds."""
        return 5 * self.multiply_adds >= 2 * self.instructions


def assembly(model: Path, target: Target) -> str:
    """Compile a model and return its assembly for a CPU."""
    unit = Unit(load(model)).fork(target)
    run_passes(unit, all_passes())
    with tempfile.TemporaryDirectory() as folder:
        dump = f"--iree-hal-dump-executable-intermediates-to={folder}"
        dumping = replace(target, flags=(*target.flags, dump))
        compile_units([replace(unit, target=dumping)])
        return "".join(
            file.read_text(encoding="utf-8") for file in Path(folder).glob("*.s")
        )


def inner_loops(text: str) -> Iterator[Loop]:
    """Yield the innermost loops of assembly that have multiply-adds."""
    for name, lines in _functions(text):
        stack = [_STACK["sp"]]
        if any(map(_SETS_FRAME.match, lines)):
            stack.append(_STACK["frame"])
        for first, last in _innermost(lines):
            body = [x for x in lines[first : last + 1] if not _LABEL.match(x)]
            multiply_adds = sum(bool(_MULTIPLY_ADD.match(line)) for line in body)
            if multiply_adds >= _FEW:
                of_vectors = [line for line in body if _VECTOR.search(line)]
                spills = sum(any(x.search(line) for x in stack) for line in of_vectors)
                yield Loop(name, len(body), multiply_adds, spills)


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and lines of each function in assembly."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        code = re.split(r"//|\s#\s|##", line)[0].strip()
        found = _FUNCTION.match(line)
        if found:
            if name:
                yield name, lines
            name, lines = found[1], []
        elif code and (_LABEL.match(code) or not code.startswith((".", "#"))):
            lines.append(code)
    if name:
        yield name, lines


def _innermost(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return first and last line of each loop that contains no other loop."""
    places = {
        found[1]: number
        for number, line in enumerate(lines)
        if (found := _LABEL.match(line))
    }
    spans = [
        (places[found[1]], number)
        for number, line in enumerate(lines)
        if (found := _JUMP.match(line)) and places.get(found[1], number) < number
    ]
    return [
        (first, last)
        for first, last in spans
        if not any(
            first <= x and y <= last and (x, y) != (first, last) for x, y in spans
        )
    ]


def main() -> int:
    """Print a line for each loop with spills, and how many loops there are."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.inner_loops", description=__doc__
    )
    parser.add_argument("model", nargs="?", type=Path, default=MODEL)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    asked, wrong = parser.parse_args(), 0
    warnings.simplefilter("ignore")
    for name in asked.targets:
        loops = list(inner_loops(assembly(asked.model, Target.parse(name))))
        products = [loop for loop in loops if loop.is_of_products]
        spilled = [loop for loop in loops if loop.spills]
        wrong += sum(loop.is_of_products for loop in spilled)
        for loop in spilled:
            kind = "SUMS OF PRODUCTS" if loop.is_of_products else "others"
            print(
                f"{name:12} {loop.function:28} {loop.instructions:4} instructions "
                f"{loop.multiply_adds:4} multiply-adds {loop.spills:3} spills  {kind}"
            )
        print(
            f"{name:12} {len(loops)} loops, {len(products)} of them sums of products; "
            f"{len(spilled)} with spills",
            flush=True,
        )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
