"""The reference site: it is built without a warning, and has every public name."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "api"
PUBLISHED = re.compile(r"^(guard\(globals\(\), __all__\)|publish\(globals\(\)\))", re.M)
MODULE = re.compile(r"\.\. public-module:: (\S+)")


def documented_modules():
    """The modules that have a page."""
    pages = (page.read_text(encoding="utf-8") for page in PAGES.glob("*.rst"))
    return {module for page in pages for module in MODULE.findall(page)}


def test_every_module_that_models_call_has_a_page():
    public = {"aotc", "aotc.runtime", "aotc.training", "aotc.errors"}
    public |= {
        "aotc.nn.initializers",
        "aotc.streaming",
        "aotc.counting",
        "aotc.parallel",
    }
    for file in (ROOT / "aotc").glob("**/*.py"):
        if PUBLISHED.search(file.read_text(encoding="utf-8")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            is_of_package = parts[-1] in ("__init__", "namespace", "flow")
            public.add(".".join(parts[:-1] if is_of_package else parts))
    assert documented_modules() == public


@pytest.fixture(scope="module")
def inventory():
    """The objects of the site, as other sites would link to them."""
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    from sphinx.util.inventory import InventoryFile

    # after a build of the same tree this reads what is there
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-nWq", "--keep-going", "docs", "build/docs"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    file = ROOT / "build" / "docs" / "objects.inv"
    found = InventoryFile.loads(file.read_bytes(), uri="")
    return {name for kind in found.data if "py:" in kind for name in found.data[kind]}


@pytest.mark.parametrize("module", sorted(documented_modules()))
def test_the_site_has_every_public_name(inventory, module):
    found = vars(importlib.import_module(module))
    own = [n for n, x in found.items() if getattr(x, "__module__", None) == module]
    names = found.get("__all__") or [n for n in own if not n.startswith("_")]
    assert {f"{module}.{name}" for name in names} - inventory == set()


def test_the_site_has_every_verb(inventory):
    from aotc.cli.main import VERBS

    page = (ROOT / "build" / "docs" / "cli.html").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f'id="aotc-{verb}"' in page
