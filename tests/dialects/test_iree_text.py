"""What only IREE can read is written in one place."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("aotc", "dialects", "passes", "cli", "artifacts")
# its own package; the passes over IREE's IR; a flag that describes a device
WRITERS = ("dialects/iree_text/", "aotc/worker/", "aotc/machine/target.py")
TEXT = re.compile(
    r"(?<![\w.])(flow|stream|hal|util|vm|iree_linalg_ext|iree_tensor_ext)\.[a-z]{2}"
)


def texts(file):
    """The strings of a module, but for docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def test_text_in_the_dialects_of_iree_is_written_in_one_package():
    found, written = set(), False
    for file in (f for name in PACKAGES for f in (ROOT / name).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if file.stat().st_size and any(map(TEXT.search, texts(file))):
            is_writer = path.startswith(WRITERS)
            written = written or is_writer
            found |= set() if is_writer else {path}
    assert written
    assert found == set()
