"""First lines of docstrings say in plain words what something does, returns or is."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Such a word at the start stands in the place of the effect: "What a call gave." for
# "The results of a call.", "Of the leaves." for "Names of the leaves."
RELATIVE = {
    *("that", "what", "whatever", "when", "whenever", "where", "wherever", "whether"),
    *("which", "whichever", "while", "who", "whoever", "whom", "whose", "how", "why"),
}
PREPOSITIONS = {
    *("about", "after", "against", "among", "as", "at", "before", "beside", "between"),
    *("beyond", "by", "during", "for", "from", "if", "in", "inside", "into", "of"),
    *("off", "on", "onto", "out", "outside", "over", "past", "per", "since", "so"),
    *("through", "to", "toward", "towards", "under", "until", "up", "upon", "with"),
    *("within", "without"),
}
PRONOUNS = {
    *("he", "her", "here", "his", "it", "its", "she", "their", "them", "there"),
    *("these", "they", "this", "those"),
}
FORBIDDEN = RELATIVE | PREPOSITIONS | PRONOUNS

# A whole sentence that speaks of something which only its neighbours name.
RIDDLES = re.compile(
    r"(All|Both|Each|None|One|Some)( of (them|it|these))?\.?|The same\b.*"
    r"|\w+( all of)? (it|them|these|those)\.|(Return|Write) the same[,.].*"
)


def _opening(docstring):
    """The first word in lower case; nothing for code, a formula or an option."""
    found = re.match(r"[A-Za-z]+(?![\w'(\[=])", docstring)
    return found[0].lower() if found else ""


def _documented(package):
    """Yield the place and the docstring of all modules, classes and functions."""
    for file in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if text:
                name = getattr(node, "name", "")
                line = getattr(node, "lineno", 1)
                yield f"{file.relative_to(ROOT)}:{line} {name}", text


@pytest.mark.parametrize(
    "package", ["aotc", "artifacts", "benchmarks", "cli", "dialects", "passes"]
)
def test_docstrings_begin_with_a_verb_or_a_noun(package):
    found = [
        f"{place}: {text.splitlines()[0]}"
        for place, text in _documented(package)
        if _opening(text) in FORBIDDEN or RIDDLES.fullmatch(text.splitlines()[0])
    ]
    assert not found, "say what it does, returns or is:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("Of the leaves.", False),
        ("What a call gave.", False),
        ("Whether all elements are right.", False),
        ("Return whether all elements are right.", True),
        ("Names of the leaves.", True),
        ("`While`: a function repeated.", True),
        ("in_proj(x) + b", True),
    ],
)
def test_openings_are_told_apart(text, is_plain):
    assert (_opening(text) not in FORBIDDEN) == is_plain
