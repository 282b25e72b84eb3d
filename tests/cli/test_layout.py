"""Text for terminals of any width: nothing is lost, and no word is broken."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from aotc.cli import layout

words = st.text("abcxyz-/._0123", min_size=1, max_size=30)
texts = st.lists(words, max_size=12).map(" ".join)
lines = st.tuples(st.sampled_from(["", "  ", "name      "]), texts).map("".join)
widths = st.integers(20, 120)


@given(st.lists(lines, min_size=1, max_size=5).map("\n".join), widths)
def test_wrapped_text_has_the_same_words_and_no_line_that_could_be_shorter(text, width):
    wrapped = layout.wrap(text, width)
    assert wrapped.split() == text.split()
    for line in wrapped.split("\n"):
        assert len(line) <= width or len(line.split()) <= 2  # a name and a long word


@given(st.lists(st.lists(texts, min_size=3, max_size=3), max_size=4), widths)
def test_a_table_fits_the_terminal_and_keeps_its_words(rows, width):
    header = ("NAME", "WHAT IT IS", "SIZE")
    text = layout.table(header, rows, width)
    assert sorted(word for row in rows for cell in row for word in cell.split()) == (
        sorted(word for word in text.split() if word not in " ".join(header).split())
    )
    long = [line for line in text.split("\n") if len(line) > width]
    assert all(len(line.split()) <= 3 for line in long)  # a name and a long word


def test_a_table_that_fits_is_the_same_on_every_terminal():
    rows = [("cpu", "any"), ("cuda:sm_89", "one GPU")]
    plain = layout.table(("TARGET", "RUNS ON"), rows)
    assert plain == "TARGET      RUNS ON\ncpu         any\ncuda:sm_89  one GPU"
    assert layout.table(("TARGET", "RUNS ON"), rows, 60) == plain


def test_cells_of_a_table_that_is_too_wide_are_wrapped_between_words():
    rows = [("vulkan", "any GPU with Vulkan 1.3, newer phones included")]
    assert layout.table(("TARGET", "FOR"), rows, 30) == (
        "TARGET  FOR\n"
        "vulkan  any GPU with Vulkan\n"
        "        1.3, newer phones\n"
        "        included"
    )


def test_rows_of_a_table_with_too_many_columns_are_lists():
    row = ("raspberry-pi-5", "aarch64-v8.2", "", "raspberry-pi-5-16gb")
    assert layout.table(("DEVICE", "CODE", "ALSO", "LIKE"), [row], 32) == (
        "DEVICE  raspberry-pi-5\nCODE    aarch64-v8.2\nLIKE    raspberry-pi-5-16gb"
    )


def test_what_is_no_terminal_gets_lines_of_any_length():
    assert layout.width_of(io.StringIO()) is None
    assert layout.wrap("word " * 100, None) == "word " * 100
