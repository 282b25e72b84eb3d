"""One word, one thing: a class has its name for itself, and so has a file its job."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = ("aotc", "artifacts", "cli", "dialects", "passes")

# name → why several classes have it
HOMONYMS: dict[str, str] = {}

# Files that are called alike in many packages, each of which has its own: the same job
# for another source, kernel or family. `guards` was five jobs.
FORBIDDEN_FILES = {"guards", "helpers", "misc", "common", "tools", "utils"}


def _classes():
    """Map the name of each class, wherever it is nested, to the places of its kind."""
    found = defaultdict(list)
    for package in PRODUCT:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    place = f"{file.relative_to(ROOT)}:{node.lineno}"
                    found[node.name].append(place)
    return found


@pytest.fixture(scope="module")
def classes():
    return _classes()


def test_no_two_classes_have_one_name(classes):
    several = {name: places for name, places in classes.items() if len(places) > 1}
    found = [
        f"{name}: {', '.join(places)}"
        for name, places in sorted(several.items())
        if name not in HOMONYMS
    ]
    assert len(classes) > 1000
    assert found == []


def test_the_exceptions_are_still_homonyms(classes):
    assert [name for name in HOMONYMS if len(classes[name]) < 2] == []


def test_files_are_named_by_what_they_hold():
    found = [
        str(file.relative_to(ROOT))
        for package in PRODUCT
        for file in sorted((ROOT / package).rglob("*.py"))
        if file.stem in FORBIDDEN_FILES
    ]
    assert found == []
