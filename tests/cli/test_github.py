"""`--format github`: errors and warnings at the user's lines."""

from aotc.cli import github
from aotc.cli.main import main

CLASH = """\
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((2, 3), "f32"), y=aotc.Spec((4, 5), "f32"))
def product(x, y):
    return x @ y
"""
UNUSED = """\
import aotc


@aotc.entry(x=aotc.Spec((2,), "f32"), y=aotc.Spec((2,), "f32"))
def first(x, y):
    return x
"""


def annotated(capsys, *arguments):
    capsys.readouterr()
    code = main(["build", *map(str, arguments), "--format", "github", "-q"])
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if line.startswith("::")]


def test_an_error_is_shown_at_the_line_of_the_model(tmp_path, capsys):
    folder = tmp_path / "a, b"
    folder.mkdir()
    file = folder / "model.py"
    file.write_text(CLASH)
    code, (line,) = annotated(capsys, file)
    assert code == 2
    escaped = str(file).replace(",", "%2C")
    assert line.startswith(f"::error file={escaped},line=7,title=")


def test_what_only_looks_like_a_line_is_no_place():
    for text in ("the sizes are in the ratio 3:4", "see https://x.org:80"):
        assert github.of_warning(text, ["build"]).startswith("::warning title=aotc::")


def test_an_error_without_a_line_is_shown_with_its_hint_on_one_line(tmp_path, capsys):
    code, (line,) = annotated(capsys, tmp_path / "model.py", "--target", "x86")
    assert code == 2
    assert line.startswith("::error title=")
    assert "%0Ahint: " in line


def test_a_warning_is_shown_at_its_line(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text(UNUSED)
    code, (line,) = annotated(capsys, file, "--stop-after", "graph")
    assert code == 0
    assert line.startswith(f"::warning file={file},line=")
