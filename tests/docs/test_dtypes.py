"""The table of dtypes says which code computes what, for all families of kernels."""

import runpy
from pathlib import Path

import pytest

from aotc.kernels.families import FAMILIES

pytest.importorskip("ml_dtypes")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def listing():
    return runpy.run_path(str(DOCS / "list_dtypes.py"))


@pytest.fixture(scope="module")
def lowered(listing):
    return [*listing["lower"]()]


def test_the_table_is_current(listing, lowered):
    text = (DOCS / "processors.md").read_text(encoding="utf-8")
    assert listing["page"](lowered) == text, "run python docs/list_dtypes.py --write"


def test_each_family_has_a_line(lowered):
    seen = {kernel.name for each in lowered for kernel in each.regions.values()}
    # updates are of states, which the operations of the page have none of
    apt = (x for x in FAMILIES.items() if not x[1].is_formed_apart)
    expected = {name for name, x in apt if not x.is_never_alone}
    assert seen == expected
