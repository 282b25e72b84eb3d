"""docs/errors.md lists the codes that the sources raise, and no others."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def listing() -> ModuleType:
    path = ROOT / "docs" / "list_errors.py"
    spec = importlib.util.spec_from_file_location("list_errors", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def rows(text: str) -> set[tuple[str, str]]:
    """The codes of a page, each with the exit code of its section."""
    found, exit_code = set(), ""
    for line in text.splitlines():
        if section := re.match(r"### .*exit code (\d+)", line):
            exit_code = section[1]
        if row := re.match(r"\| `([a-z0-9-]+)` \|", line):
            found.add((row[1], exit_code))
    return found


@pytest.fixture(scope="module")
def raised(listing: ModuleType) -> set[tuple[str, str]]:
    return rows(listing.page())


def test_the_page_lists_what_the_sources_raise(
    listing: ModuleType, raised: set[tuple[str, str]]
) -> None:
    written = rows(listing.PAGE.read_text())
    assert written == raised, "run: python docs/list_errors.py --write"


def test_codes_are_found_however_they_are_written(raised: set[tuple[str, str]]) -> None:
    assert {
        ("unknown-format", "2"),  # a literal
        ("traced-value", "2"),  # passed to `fail`
        ("rank-mismatch", "2"),  # passed to a method
        ("unknown-state", "2"),  # put together by the function that raises it
        ("bundle-missing", "2"),  # chosen from a table
        ("no-driver", "5"),  # one of two
        ("not-differentiable", "3"),  # the reason for which an op has no rule
        ("parity", "1"),  # of a class of its own
        ("internal", "70"),
    } <= raised


def test_a_code_that_is_computed_is_an_error_of_the_listing(
    listing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from aotc.errors import InputError\nInputError(str(1), 'no')\n"
    (tmp_path / "odd.py").write_text(source)
    odd = listing.Module.read("odd", tmp_path / "odd.py")
    monkeypatch.setattr(listing, "ROOT", tmp_path)
    monkeypatch.setattr(listing, "modules", lambda: [odd])
    with pytest.raises(SystemExit, match="odd.py:2: the code"):
        listing.Reader().entries()
