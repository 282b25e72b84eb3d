"""Paragraphs of README.md, CONTRIBUTING.md and docs/ are short enough to be read."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
LONGEST = 600  # characters

_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"\s*([-*+]|\d+\.) ")


def paragraphs(text: str) -> Iterator[str]:
    """Each paragraph, item of a list and cell of a table; code is left out."""
    lines: list[str] = []
    for line in [*_FENCED.sub("", text).splitlines(), ""]:
        begins = not line.strip() or line[0] in "|#" or _ITEM.match(line)
        if begins and lines:
            yield " ".join(lines)
            lines = []
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)
            yield from (x for x in map(str.strip, cells) if not _is_code(x))
        elif line.strip() and not line.startswith("#"):
            lines.append(line.strip())


def _is_code(cell: str) -> bool:
    return cell.count("`") == 2 and cell.startswith("`") and cell.endswith("`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paragraphs_of_a_page_are_short(page):
    text = page.read_text(encoding="utf-8")
    long = [x for x in paragraphs(text) if len(x) > LONGEST]
    assert not long, f"{page.name} has paragraphs of {[*map(len, long)]} characters"


def test_items_and_cells_count_each_for_itself():
    text = "One\ntwo.\n\n- a\n  b\n- c\n\n| d | e |\n|---|---|\n\n```\nf\n```\n# g\nh\n"
    found = [*paragraphs(text)]
    assert [x for x in found if x.strip("-")] == [
        "One two.",
        "- a b",
        "- c",
        "d",
        "e",
        "h",
    ]
