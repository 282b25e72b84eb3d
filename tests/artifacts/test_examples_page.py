"""docs/examples-on-devices.md says what the rules and tables of today say."""

from aotc.artifacts import tables
from aotc.target import TARGETS
from benchmarks.compat import examples


def test_the_page_of_the_examples_is_up_to_date():
    page = examples.PAGE.read_text(encoding="utf-8")
    assert page == examples.current_page()
    assert all(f"(`{name}`)" in page for name in tables.devices())


def test_the_examples_were_compiled_for_the_targets_of_today():
    """A target that asks for more than it did has to be compiled for again."""
    rows = examples.facts()
    assert {row["example"] for row in rows} <= set(examples.examples())
    for row in rows:
        built = [variant["target"] for variant in row["manifest"]["variants"]]
        names = {target["name"] for target in built}
        assert names | set(row["refused"]) == set(examples.TARGETS)
        assert all(TARGETS[each["name"]].to_json() == each for each in built)
