"""Faults that are planted at random: where they are, what they change, who tests it."""

import ast
import random
from pathlib import Path

from benchmarks.mutations import ROOT, Mutation, draw, mutations, nearest_tests

SOURCE = '''
def first(xs, n):
    """Return some elements."""
    is_short = not xs or n > 3
    return [x + 1 for x in xs[:n]] if is_short else "é" + str(n)
'''


def test_faults_are_in_functions_of_all_kinds_of_packages_and_the_same_for_a_seed():
    drawn = draw(12, random.Random(3))
    assert drawn == draw(12, random.Random(3))
    assert len({Path(each.file).parent for each in drawn}) == 12
    for each in drawn:
        source = (ROOT / each.file).read_text()
        changed = each.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        assert len(changed) - len(source) == len(each.after) - len(each.before)


def test_operators_conditions_and_numbers_are_changed_and_text_is_not(
    monkeypatch, tmp_path
):
    monkeypatch.setattr("benchmarks.mutations.ROOT", tmp_path)
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    found = {(each.before, each.after) for each in mutations(file)}
    assert found == {
        ("not xs or n > 3", "(not xs and n > 3)"),
        ("not xs", "(xs)"),
        ("n > 3", "n >= 3"),
        ("3", "4"),
        ("x + 1", "x - 1"),
        ("1", "2"),
    }


def test_the_nearest_tests_import_the_module():
    (first, *_) = nearest_tests("aotc/runtime/module.py")
    assert "tests/e2e/test_workspaces.py" in first
    mutation = Mutation("m.py", 1, 4, "f", "a", "b + c")
    assert mutation.apply("x = a\ny = a\n") == "x = b + c\ny = a\n"
