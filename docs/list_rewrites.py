"""Write docs/rewrites.md: what `simplify` and `recover-ops` replace, with examples.

    python docs/list_rewrites.py --write

Each line is a row of the sources, and its example is what the row makes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from aotc.dialects import OPS, context
from aotc.dialects.graph import GraphOp
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.structure import replacement
from aotc.dialects.rewrite_examples import module_of, root_of, text_of
from aotc.mlir import Value, ir
from aotc.passes import recover_ops
from aotc.passes.recovery.labels import SplatValues
from aotc.passes.recovery.table import ROWS

PAGE = Path(__file__).parent / "rewrites.md"
Replacement = Callable[[RewriteRow, GraphOp], Value | None]

_HEAD = """\
# Rewrites

What ops are replaced by, as rows of patterns (`aotc.dialects.patterns`): each with what
it says, an example of it, and what it makes of that. A test evaluates both, and sees
that the row leaves a near miss alone. Made by `python docs/list_rewrites.py --write`.

## `simplify`

An op takes the place of another that costs more, in any graph. The rows stand in the
class of the op that is replaced; the first that fits is taken. Small ops on constants
are evaluated besides.
"""

_RECOVERED = """
## `recover-ops`

What exporters write in parts becomes one op of the dialect. The rows match whatever the
order and association of sums and products, other ways to write a part of them, and
repeated axes; the example is one way of many. Where something else reads what is in
between, nothing changes.
"""


def page() -> str:
    """The page, as it should be."""
    lines = [_HEAD, "| op | what | from | to |", "|---|---|---|---|"]
    for rows in dict.fromkeys(op.simplify for op in OPS.values()):
        ops = [f"`{name}`" for name, op in OPS.items() if op.simplify is rows]
        lines += [_line(row, _simplified, ", ".join(ops)) for row in rows]
    lines += [_RECOVERED, "| what | from | to |", "|---|---|---|"]
    lines += [_line(row, _recovered) for row in ROWS]
    return "\n".join(lines) + "\n"


def _simplified(row: RewriteRow, op: GraphOp) -> Value | None:
    return replacement([row], op)


def _recovered(row: RewriteRow, op: GraphOp) -> Value | None:
    found = recover_ops.replacement(row, op, SplatValues({}))
    return None if found is None else found.value


def _line(row: RewriteRow, replaced: Replacement, *first: str) -> str:
    """A line of a table: what a row says, its example before and after."""
    with context(), ir.Location.unknown():
        module = module_of(row.given, row.example)
        root = root_of(module)
        before, found = text_of(root.results[0]), replaced(row, root)
        assert found is not None, row.says
        cells = (*first, row.says, f"`{before}`", f"`{text_of(found)}`")
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def main() -> None:
    """Print the page, or write it where it is kept."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
