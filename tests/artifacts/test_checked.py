"""What a manifest says of the code that was run before it was signed."""

import pytest

from aotc.artifacts.checked import checks_of, require_checked
from aotc.errors import Finding


@pytest.fixture
def row():
    return {
        "entry": "predict",
        "target": "a",
        "by": "machine",
        "checked": [{"batch": 1}, {"batch": 8}],
        "unchecked": [],
        "error_below": 1e-6,
    }


def specialised(data):
    """Beside code for any sizes, some for 8, and some for up to 16."""
    data["entry_points"][0]["specializations"] = [
        {"export": "predict__8", "sizes": {"batch": 8}},
        {"export": "predict__16", "sizes": {"batch": 16}, "padded": ["batch"]},
    ]
    return data


def unchecked(data, target="a"):
    (check,) = checks_of(data, target)
    return [code.export for code in check.unchecked]


def test_code_that_was_called_is_checked(manifest_data, row):
    manifest_data["self_check"] = [row]
    assert unchecked(manifest_data) == []
    (check,) = require_checked(manifest_data, ["a"], "")
    assert str(check) == "predict on a: checked by the machine that built it"


@pytest.mark.parametrize("by", ["emulator", "evaluator"])
def test_what_ran_it_is_named(manifest_data, row, by):
    manifest_data["self_check"] = [row | {"by": by}]
    (check,) = require_checked(manifest_data, ["a"], "")
    assert f"checked by an {by}" in str(check)
    assert check.to_json()["by"] == by


def test_bundles_of_before_do_not_say_what_ran_it(manifest_data, row):
    del row["by"]
    manifest_data["self_check"] = [row]
    (check,) = require_checked(manifest_data, ["a"], "")
    assert str(check) == "predict on a: checked by its build"


def test_each_code_must_have_computed_a_call(manifest_data, row):
    manifest_data["self_check"] = [row]
    specialised(manifest_data)
    manifest_data["entry_points"][0]["has_general_code"] = False
    row["checked"] = [{"batch": 8}]
    assert unchecked(manifest_data) == ["predict__16"]
    row["checked"] = [{"batch": 3}, {"batch": 17}]  # one is padded, one has no code
    assert unchecked(manifest_data) == ["predict__8"]
    row["checked"] = [{"batch": 8}, {"batch": 3}]
    assert unchecked(manifest_data) == []


def test_code_for_any_sizes_must_have_computed_a_call(manifest_data, row):
    manifest_data["self_check"] = [row]
    data = specialised(manifest_data)
    data["entry_points"][0]["specializations"].pop()
    row["checked"] = [{"batch": 8}]
    assert unchecked(data) == ["predict"]
    row["checked"] = [{"batch": 8}, {"batch": 3}]
    assert unchecked(data) == []


@pytest.mark.parametrize(
    "change",
    [
        {"checked": []},
        {"target": "b"},
        {"entry": "other"},
        {"checked": [{}]},
        {"checked": [{"other": 8}]},
    ],
)
def test_what_is_not_said_is_not_checked(manifest_data, row, change):
    specialised(manifest_data)
    manifest_data["entry_points"][0]["has_general_code"] = False
    manifest_data["self_check"] = [row | change]
    with pytest.raises(Finding) as caught:
        require_checked(manifest_data, ["a"], "build it again")
    assert caught.value.code == "not-checked"
    assert caught.value.exit_code == 1
    assert "NOT CHECKED" in str(caught.value)


def test_the_reason_of_the_build_is_told(manifest_data, row):
    why = "the reference evaluator would take too long (--self-check=full)"
    row |= {"checked": [], "unchecked": [{"sizes": {"batch": 1}, "why": why}]}
    manifest_data["self_check"] = [row]
    with pytest.raises(Finding, match="take too long"):
        require_checked(manifest_data, ["a"], "")


def test_a_manifest_without_checks_has_none(manifest_data):
    with pytest.raises(Finding, match="says nothing of a check"):
        require_checked(manifest_data, ["a"], "")
