"""Types are part of the words: parameters of rules and passes say what they take."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST = 0.10  # of the annotated parameters


def _trees(folder):
    for file in sorted((ROOT / folder).rglob("*.py")):
        yield file, ast.parse(file.read_text(encoding="utf-8"))


def _names(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _aliases(trees):
    """Names that a module gives to `Any`, which say as little."""
    return {
        target.id
        for _, tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and "Any" in _names(node.value)
        if isinstance(node.value, ast.Name)
        for target in node.targets
    }


def _parameters(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            single = [each for each in (given.vararg, given.kwarg) if each]
            for each in [*given.posonlyargs, *given.args, *given.kwonlyargs, *single]:
                if each.annotation is not None:
                    yield each


@pytest.mark.parametrize("folder", ["dialects", "passes"])
def test_few_parameters_are_of_any_type(folder):
    trees = list(_trees(folder))
    nothing = {"Any"} | _aliases(trees)
    found = [(file, each) for file, tree in trees for each in _parameters(tree)]
    unsaid = [
        f"{file.relative_to(ROOT)}:{each.lineno} {each.arg}"
        for file, each in found
        if _names(each.annotation) & nothing
    ]
    share = len(unsaid) / len(found)
    assert share <= MOST, f"{share:.1%} of the parameters are Any:\n" + "\n".join(
        unsaid
    )
