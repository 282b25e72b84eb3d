"""docs/architecture.md names all packages of the tree, and none that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
TOP = ("aotc", "dialects", "passes", "artifacts", "cli")


def named():
    """What the page writes as code and is a path from the root of the tree."""
    tables = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    words = (word.rstrip("/") for word in re.findall(r"`([\w./]+)`", tables))
    return {word for word in words if "/" in word or word in TOP}


def drawn():
    """What stands in the drawing and is a path below `aotc/` or `dialects/`."""
    (drawing,) = re.findall(r"^```$(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"(?:aotc|dialects)/[a-z_]+(?:\.py)?", drawing))


def test_what_is_named_or_drawn_exists():
    assert drawn()
    missing = [name for name in named() | drawn() if not (ROOT / name).exists()]
    assert not missing


def test_each_package_and_each_module_of_the_first_floor_is_named():
    packages = {
        file.parent.relative_to(ROOT).as_posix()
        for top in TOP
        for file in (ROOT / top).glob("**/__init__.py")
    }
    modules = {f"aotc/{file.name}" for file in (ROOT / "aotc").glob("*.py")}
    expected = (packages | modules) - {"aotc", "aotc/__init__.py"}
    assert not expected - named()
