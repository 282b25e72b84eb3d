"""benchmarks.iree_faults: each workaround is a row, and each row has a witness."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from benchmarks.iree_faults import runs
from benchmarks.iree_faults.looking import Verdict, look_at, named
from benchmarks.iree_faults.places import ROOT, exists, mentions
from benchmarks.iree_faults.table import FAULTS
from benchmarks.iree_faults.witnesses import (
    FOLDER,
    Differs,
    Refused,
    Source,
    Wrong,
)

PLACES = {place for fault in FAULTS for place in fault.where}
# one of each kind of witness, and of those that are looked at in a second or two
SAMPLE = (
    "strided-reads",
    "sums-of-products",
    "marked-sum-of-squares",
    "numbers-of-a-dispatch",
    "sum-over-nothing",
    "unregistered-ops",
    "view-of-mapped-memory",
)


def sources():
    """The files of the package, from the root of the project."""
    for folder in ("aotc", "dialects", "passes", "artifacts", "cli"):
        for file in sorted((ROOT / folder).glob("**/*.py")):
            yield file.relative_to(ROOT).as_posix()


def test_what_is_said_of_a_release_of_iree_belongs_to_a_row():
    said = {place for path in sources() for place in mentions(path)}
    hint = "a row of benchmarks/iree_faults/table names each of these in `where`"
    assert said - PLACES == set(), hint


def test_the_places_of_rows_are_there():
    assert [place for place in sorted(PLACES) if not exists(place)] == []


def test_names_of_rows_are_unique():
    counts = Counter(fault.name for fault in FAULTS)
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_module_is_the_witness_of_a_row():
    text = "".join(
        file.read_text(encoding="utf-8") for file in FOLDER.parent.glob("**/*.py")
    )
    assert [
        file.stem for file in FOLDER.iterdir() if f'"{file.stem}"' not in text
    ] == []


@pytest.mark.parametrize("name", SAMPLE)
def test_the_installed_iree_still_has_the_fault(name):
    found = look_at(named(name))
    assert found.verdict is Verdict.THERE, str(found)


def test_a_witness_of_right_code_says_that_the_fault_is_gone():
    x = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
    source = Source("sums-of-rows")
    assert Wrong(source, (x,), lambda x: x.sum(1)).look() is None
    assert Refused(source, "expected").look() is None
    assert Wrong(source, (x,), lambda x: x.sum(1) + 1).look() is not None


def test_a_witness_that_is_refused_for_another_reason_differs():
    source = Source("sums-of-products")
    with pytest.raises(Differs, match="invalid accumulator"):
        Refused(source, "does not dominate").look()
    with pytest.raises(Differs, match="invalid accumulator"):
        Wrong(source, (), runs.view_of_mapped_memory).look()


def test_the_page_is_that_of_the_table():
    command = [sys.executable, ROOT / "docs/list_iree_faults.py"]
    assert subprocess.run(command, check=False).returncode == 0, (
        "run python docs/list_iree_faults.py --write"
    )
