"""Plant faults in the product's code, one at a time, and see whether tests catch them.

    python benchmarks/mutations.py [--count 60] [--seed 0] [--write FILE.json]

Draws functions from all packages in turn, and in each an operator, a comparison, a
condition, a number or a truth value, which it changes in a copy of the tree. On that it
runs the tests that are nearest to the module: those of files that import it, then those
of its package, until one fails or `--seconds` are over. A fault that none of them
catches is printed with its place; run the whole suite on it, or judge whether anything
could have: some faults change no behaviour.

DeMillo, Lipton and Sayward, "Hints on test data selection", Computer 11(4), 1978.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("dialects", "passes", "cli", "artifacts")  # packages beside `aotc` in the tree
_NOT_COPIED = (".git", "build", "__pycache__", ".*_cache", "*.egg-info")
_OPPOSITES: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*",
    ast.Mod: "//", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in",
    ast.Is: "is not", ast.IsNot: "is", ast.And: "or", ast.Or: "and",
}  # fmt: skip
_LONGEST = 60  # characters of an expression that is changed
_TOO_LONG = "tests took too long"


@dataclass(frozen=True)
class Mutation:
    """A mutation for mutation testing: a changed expression of a module.

    Args:
        file: of the module, from the root of the repository.
        line: of the expression.
        column: of it, in bytes of UTF-8.
        function: that it is in.
        before: the text of the expression.
        after: what stands in its place.
    """

    file: str
    line: int
    column: int
    function: str
    before: str
    after: str

    def apply(self, source: str) -> str:
        """Return the text of the module with the change."""
        lines = source.encode().splitlines(keepends=True)
        line, before = lines[self.line - 1], self.before.encode()
        head, rest = line[: self.column], line[self.column :]
        if not rest.startswith(before):
            raise ValueError(f"{self.file}:{self.line} has changed")
        lines[self.line - 1] = head + self.after.encode() + rest[len(before) :]
        return b"".join(lines).decode()


def main() -> None:
    """Plant mutations, run tests on each, and print which were caught."""
    options = parse()
    drawn = draw(options.count, random.Random(options.seed))
    outcomes = []
    for number, mutation in enumerate(drawn, 1):
        start = time.monotonic()
        caught = outcome(mutation, options.seconds)
        took = time.monotonic() - start
        print(
            f"{number:3} {caught or 'NOT CAUGHT':40} {took:4.0f} s  {mutation.file}:"
            f"{mutation.line} {mutation.function}: {mutation.before} -> "
            f"{mutation.after}",
            flush=True,
        )
        outcomes.append({**asdict(mutation), "caught_by": caught})
        if options.write:
            options.write.write_text(json.dumps(outcomes, indent=1))
    found = [row["caught_by"] for row in outcomes]
    slow, none = found.count(_TOO_LONG), found.count(None)
    print(f"{len(found)} faults: {none} not caught, {slow} not decided in time")


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=240, help="of tests of a fault")
    parser.add_argument("--write", type=Path, metavar="FILE.json")
    return parser.parse_args()


def draw(count: int, rng: random.Random) -> list[Mutation]:
    """Draw mutations of functions, taking the packages in turn."""
    modules = defaultdict(list)
    for folder in ("aotc", *PARTS):
        for file in sorted((ROOT / folder).rglob("*.py")):
            modules[file.parent].append(file)
    packages = sorted(modules)
    rng.shuffle(packages)
    found: list[Mutation] = []
    for package in cycle(packages):
        if len(found) == count:
            break
        file = rng.choice(modules[package])
        possible, source = [*mutations(file)], file.read_text()
        rng.shuffle(possible)
        found += islice((each for each in possible if _differs(each, source)), 1)
    return found


def mutations(file: Path) -> Iterator[Mutation]:
    """Yield the possible mutations of expressions in a module's functions."""
    source = file.read_text()
    lines = source.encode().splitlines()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            if isinstance(statement, ast.FunctionDef):
                continue  # it has its own turn
            for node in ast.walk(statement):
                if not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
                    continue
                text, after = _text(node, lines), _changed(node, lines)
                if after and len(text) < _LONGEST:
                    place = str(file.relative_to(ROOT)), node.lineno, node.col_offset
                    yield Mutation(*place, function.name, text, after)


def _text(node: ast.expr, lines: Sequence[bytes]) -> str:
    """Return the source of an expression within a line."""
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _changed(node: ast.expr, lines: Sequence[bytes]) -> str | None:
    """Return the source of an expression with a fault; None if none fits."""
    match node:
        case ast.BinOp(left, operator, right) if not _is_text(node):
            pass
        case ast.Compare(left, [operator], [right]):
            pass
        case ast.BoolOp(operator, [left, right]):
            pass
        case ast.UnaryOp(ast.Not(), operand):
            return f"({_text(operand, lines)})"
        case ast.Constant(bool() as value):
            return str(not value)
        case ast.Constant(int() as value):
            return str(value + 1)
        case _:
            return None
    word = _OPPOSITES.get(type(operator))
    changed = f"{_text(left, lines)} {word} {_text(right, lines)}"
    if word is None:
        return None
    return f"({changed})" if isinstance(node, ast.BoolOp) else changed


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operator joins or formats text."""
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def _differs(change: Mutation, source: str) -> bool:
    """Return whether the mutated module parses to another program."""
    try:
        changed = ast.dump(ast.parse(change.apply(source)))
    except SyntaxError:
        return False
    return changed != ast.dump(ast.parse(source))


def outcome(mutation: Mutation, seconds: int) -> str | None:
    """Run the nearest tests on a mutated copy; return the failing test, None if
    none.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "aotc"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        for name in PARTS:  # of the package, as an installation has them
            (copy / "aotc" / name).symlink_to(copy / name)
        file = copy / mutation.file
        file.write_text(mutation.apply(file.read_text()))
        end = time.monotonic() + seconds
        for tests in nearest_tests(mutation.file):
            left = max(1.0, end - time.monotonic())
            failed = _first_failure(tests, copy, left)
            if failed:
                return failed
    return None


def nearest_tests(file: str) -> list[list[str]]:
    """Return the test files that import a module, then those of its package."""
    top, *rest = Path(file).with_suffix("").parts
    module = ".".join(("aotc", *((top,) if top != "aotc" else ()), *rest))
    module = module.removesuffix(".__init__")
    package = module.rpartition(".")[0]
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    imports = {str(test.relative_to(ROOT)): imported(test) for test in files}
    importing = [test for test, names in imports.items() if module in names]
    of_package = [test for test, names in imports.items() if package in names]
    area = (rest[0] if top == "aotc" and len(rest) > 1 else top) if rest else top
    folder = [test for test in imports if test.split("/")[1] == area]
    near = [test for test in [*of_package, *folder] if test not in importing]
    return [tests for tests in (importing, [*dict.fromkeys(near)]) if tests]


def imported(file: Path) -> set[str]:
    """Return the modules and packages that a file imports, or takes names from."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{x.name}" for x in node.names)}
    return found | {name.rpartition(".")[0] for name in found}


def _first_failure(tests: list[str], copy: Path, seconds: float) -> str | None:
    """Run tests on a copy of the tree; return the first that fails, or None."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "--no-header"]
    command += ["-p", "no:cacheprovider", "--tb=no", *tests]
    variables = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=variables,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return _TOO_LONG
    failed = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].removeprefix("FAILED ") if failed else None


if __name__ == "__main__":
    main()
