"""Every block of Python in README.md and docs/ runs as the reader would run it.

What a block takes for granted stands before it in a comment that pages do not show:
`<!-- setup`, lines of Python, `-->`. Blocks with an entry are traced, others are run,
in a folder with the digits bundle. `tests/importers/test_docs.py` has the page for
model authors, whose blocks show messages too.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.importers import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- setup\n(.*?)-->\n+)?```python\n(.*?)```", re.DOTALL)
BLOCKS = {
    f"{page.name}-{number}": block
    for page in PAGES
    if page.name != "writing-a-model.md"
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, release, keys):
    """Where the reader is: the examples, the release's bundle and its public key."""
    folder = tmp_path_factory.mktemp("reader")
    for name, file in {
        "examples": ROOT / "examples",
        release.name: release,
        "release.pub": keys / "release.pub",
    }.items():
        (folder / name).symlink_to(file)
    return folder


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_the_pages_runs(folder, monkeypatch, name):
    setup, source = BLOCKS[name]
    for framework in ("torch", "jax", "onnx"):
        if re.search(rf"^import .*\b{framework}\b", setup + source, re.MULTILINE):
            pytest.importorskip(framework)
    file = folder / "model.py"
    file.write_text(f"{setup}\n{source}", encoding="utf-8")
    has_import = "aotc.from_" in source and "breaks=" not in source
    if "@aotc.entry" in source or has_import:
        monkeypatch.chdir(folder)
        assert load(file).entries
    else:
        ran = subprocess.run([sys.executable, file], cwd=folder, timeout=300)
        assert ran.returncode == 0
