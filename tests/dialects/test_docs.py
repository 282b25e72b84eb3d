"""docs/dialect.md says what the code does."""

from pathlib import Path

from aotc.core import dtypes
from aotc.dialects import matrix
from aotc.machine.target import TARGETS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "dialect.md"

KINDS = {
    tuple(dtypes.NAMES): "all",
    tuple(dtypes.NUMBERS): "numbers",
    tuple(dtypes.FLOATS): "floats",
    tuple(dtypes.INTEGERS): "integers",
    ("bool", *dtypes.INTEGERS): "bool, integers",
    dtypes.SIGNED + dtypes.FLOATS: "signed, floats",
}


def table():
    """The table of ops as Markdown."""
    titles = ["family", "op", "formula", "why it is an op", "dtypes", "derivative"]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for row in matrix():
        derivative = row["rules"]["vjp"]
        cells = [
            row["family"],
            f"`{row['op']}`",
            _escaped(row["formula"]),
            _escaped(row["why"]),
            KINDS.get(tuple(row["dtypes"]), ", ".join(row["dtypes"])),
            "yes" if derivative == "yes" else f"no: {derivative}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _escaped(text):
    return text.replace("|", r"\|").replace("*", r"\*").replace("<", r"\<")


def test_the_table_of_ops_is_that_of_the_dialect():
    assert table() in DOCUMENT.read_text(encoding="utf-8")


def test_every_limit_names_an_op_or_a_target_that_exists():
    text = DOCUMENT.read_text(encoding="utf-8")
    limits = text.partition("## Known limits")[2]
    named = {row["op"] for row in matrix()} | set(TARGETS) | {"cpu", "any"}
    for line in limits.splitlines():
        if line.startswith("| `"):
            assert line.split("`")[1] in named
