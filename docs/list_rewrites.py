"""Write docs/rewrites.md: what `simplify` and `recover-ops` replace, with examples.

    python docs/list_rewrites.py --write

Each line is a row of the sources, and its example is what the row makes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aotc.dialects import OPS, context
from aotc.dialects.patterns.examples import module_of, root_of, text_of
from aotc.dialects.patterns.rows import Row
from aotc.dialects.patterns.structure import replacement
from aotc.mlir import Value, ir

PAGE = Path(__file__).parent / "rewrites.md"
Replacement = Callable[[Sequence[Row], ir.OpView], Value | None]

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


def page() -> str:
    """The page, as it should be."""
    lines = [_HEAD, "| op | what | from | to |", "|---|---|---|---|"]
    for rows in dict.fromkeys(op.simplify for op in OPS.values()):
        ops = [f"`{name}`" for name, op in OPS.items() if op.simplify is rows]
        lines += [_line(", ".join(ops), row, replacement) for row in rows]
    return "\n".join(lines) + "\n"


def _line(of: str, row: Row, replaced: Replacement) -> str:
    """A row of the table: whose it is, what it says, its example before and after."""
    with context(), ir.Location.unknown():
        module = module_of(row.given, row.example)
        root = root_of(module)
        before, found = text_of(root.results[0]), replaced([row], root)
        assert found is not None, row.says
        cells = (of, row.says, f"`{before}`", f"`{text_of(found)}`")
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def main() -> None:
    """Print the page, or write it where it is kept."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
