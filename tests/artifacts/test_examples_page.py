"""docs/examples-on-devices.md says what the rules and tables of today say."""

from aotc.artifacts import tables
from aotc.machine.target import TARGETS
from benchmarks.compat import examples


def test_the_page_of_the_examples_is_up_to_date():
    page = examples.PAGE.read_text(encoding="utf-8")
    assert page == examples.current_page()
    assert all(f"(`{name}`)" in page for name in tables.devices())


def row_of(*targets, refused=(), size=1):
    files = [{"path": f"{target}.vmfb", "size": size} for target in targets]
    variants = [{"target": {"name": t}, "file": f"{t}.vmfb"} for t in targets]
    return {
        "example": "small",
        "refused": dict.fromkeys(refused, f"why {size}"),
        "manifest": {"variants": variants, "files": files},
    }


def test_what_is_compiled_later_joins_what_was_and_takes_its_place():
    first, second, third, *_ = examples.TARGETS
    old = row_of(first, "gone", refused=[second, third])
    new = row_of(second, refused=[first], size=2)
    found = examples.joined(old, new)
    assert found["refused"] == {first: "why 2", third: "why 1"}
    variants, files = (found["manifest"][part] for part in ("variants", "files"))
    assert [variant["target"]["name"] for variant in variants] == [second]
    assert files == [{"path": f"{second}.vmfb", "size": 2}]


def test_the_examples_were_compiled_for_the_targets_of_today():
    """A target that asks for more than it did has to be compiled for again."""
    rows = examples.facts()
    assert {row["example"] for row in rows} <= set(examples.examples())
    for row in rows:
        built = [variant["target"] for variant in row["manifest"]["variants"]]
        names = {target["name"] for target in built}
        assert names | set(row["refused"]) == set(examples.TARGETS)
        assert all(TARGETS[each["name"]].to_json() == each for each in built)
