"""Where a fleet is read from, how often a device counts, and what it is called."""

import json
import os

import pytest

from aotc.artifacts.rollout import fleet, profiles
from aotc.artifacts.rollout.device_classes import FleetDevice, classes
from aotc.artifacts.rollout.fleet import read_fleet
from aotc.artifacts.rollout.profiles import Assumptions, DeviceProfile, read_profile
from aotc.errors import AotcError, InputError, SetupError
from tests.refusals import refused

NOTHING = Assumptions()


def facts(arch="x86_64", **more):
    return {
        "schema": "aotc.device/1",
        "arch": arch,
        "cpu": {"features": ["sse2"]},
        **more,
    }


def stated(device, **more):
    return {"schema": "aotc.doctor/1", "device": device, **more}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def names(*paths):
    return [device.name for device in read_fleet(paths, NOTHING)]


def refused_files(kind, code, *paths):
    """The text of the error that reading these files ends in."""
    return refused(kind, code, read_fleet, paths, NOTHING)


def test_a_row_without_a_name_is_called_by_its_line(tmp_path):
    rows = [{"profile": facts()}, facts("aarch64"), {"device": "raspberry-pi-5"}]
    found = names(write(tmp_path / "all.jsonl", *rows))
    assert found == ["all.jsonl:1", "all.jsonl:2", "raspberry-pi-5"]


def test_classes_of_one_name_are_told_apart(tmp_path):
    rows = [{"name": "press", "profile": facts(arch)} for arch in ("x86_64", "riscv64")]
    first = write(tmp_path / "a" / "press.json", facts("aarch64"))
    second = write(tmp_path / "all.jsonl", *rows, rows[0])
    found = classes(read_fleet([first, second], NOTHING))
    assert [each.name for each in found] == [
        f"press ({first})",
        f"press ({second}:1)",
        f"press ({second}:2)",
    ]
    assert [each.count for each in found] == [1, 2, 1]


def test_no_name_makes_two_classes_alike():
    machines = [DeviceProfile(read_profile(facts(a), NOTHING, "x").host) for a in "abc"]
    wheres = ["--device", "--device", ""]
    devices = [
        FleetDevice(name, machine, where=where)
        for name, machine, where in zip(
            ["x", "x", "x (--device)"], machines, wheres, strict=True
        )
    ]
    found = [each.name for each in classes(devices)]
    assert len(set(found)) == 3


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    press = write(tmp_path / "profiles" / "press.json", facts())
    listed = write(
        tmp_path / "fleet.jsonl", {"file": "profiles/press.json", "count": 7}
    )
    (tmp_path / "link.json").symlink_to(press)
    for paths in (
        [listed, listed],
        [press, listed],
        [listed, tmp_path],
        [tmp_path / "link.json", listed],
    ):
        assert [each.count for each in read_fleet(paths, NOTHING)] == [7]
    assert names(press, tmp_path / "profiles", tmp_path / "link.json") == ["press"]


def test_linked_folders_are_read_and_circles_end(tmp_path):
    write(tmp_path / "sites" / "ulm" / "a.json", facts())
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "ulm").symlink_to(tmp_path / "sites" / "ulm")
    (folder / "again").symlink_to(folder)
    (folder / "folder.json").mkdir()
    assert names(folder) == ["a"]


def test_a_circle_of_links_is_no_file(tmp_path):
    (tmp_path / "a.json").symlink_to(tmp_path / "b.json")
    (tmp_path / "b.json").symlink_to(tmp_path / "a.json")
    listed = write(tmp_path / "fleet.jsonl", {"file": "a.json"})
    refused_files(InputError, "bad-file", listed)
    refused_files(InputError, "bad-file", tmp_path)


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path, monkeypatch
):
    write(tmp_path / "a.json", facts())
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert "closed" in refused_files(SetupError, "file-access", tmp_path)


def test_names_of_files_that_no_text_holds_are_mended(tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\n.json"
    with open(odd, "w") as file:
        json.dump(facts(), file)
    (device,) = read_fleet([tmp_path], NOTHING)
    assert device.name == "\ufffd\ufffd"
    assert (device.name + device.where).encode()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"device": "a100", "cuont": 12}, "$.cuont: there is no such field"),
        ({"device": "a100", "labels": {"site=ulm": "x"}}, "without `=`"),
        ({"profile": [facts()]}, "$.profile"),
        ({"profile": facts(), "count": 1.0}, "$.count"),
        ({"profile": facts(), "count": -1}, "$.count"),
        ({"profile": facts(), "count": True}, "$.count"),
    ],
)
def test_rows_say_nothing_that_is_not_understood(tmp_path, row, words):
    file = write(tmp_path / "a.jsonl", row)
    assert words in refused_files(InputError, "bad-fleet", file)


@pytest.mark.parametrize(
    "text",
    [
        b'\xff\xfe{"schema"',
        b'\xef\xbb\xbf{"schema": "aotc.fleet/1", "devices": []}',
        b'{"device": "a100", "device": "h100"}',
        b'{"device": "a100", "count": NaN}',
        b'{"device": "a100", "count": 1e400}',
        b'{"device": "a100", "count": 99999999999999999999}',
        b'{"profile": ' + b"[" * 100_000,
        b'{"profile": ' + b'{"a":' * 80 + b"0" + b"}" * 81,
        b'{"file": "\\u0000"}',
    ],
    ids=["utf16", "mark", "twice", "nan", "float", "big", "open", "deep", "nul"],
)
def test_doubtful_json_is_refused_at_its_line(tmp_path, text):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"device": "a100"}\n' + text)
    assert "a.jsonl:2" in refused_files(InputError, "bad-fleet", file)


DOCUMENTS = [
    facts(),
    facts("aarch64"),
    facts(device=stated(facts("aarch64"))),
    facts(device=3, drivers=7, packages=5),
    facts(drivers=["cuda"]),
    facts(memory=None),
    facts(memory={"total_bytes": 5}),
    facts(cpu={"features": ["sse2", "avx"]}),
    facts(cpu=None),
    facts(cuda={"devices": [{"sm": "sm_89"}]}),
    facts(cuda={"devices": [{"sm": "sm_89"}], "driver_api": 12040}),
    stated(facts()),
    stated(facts(), drivers=["cuda"]),
    stated(facts(), drivers=[]),
    stated(facts(), packages={"iree-base-runtime": "3.13.0"}),
    stated(facts(), packages=None),
    stated(3),
    {"schema": "aotc.doctor/1"},
    {"schema": "aotc.device/2"},
    {},
    [],
    5,
]


def outcome(document):
    try:
        return read_profile(document, Assumptions("3.13.0", 12040), "x")
    except AotcError as error:
        return str(error)


def test_documents_of_one_key_are_one_profile():
    """Read once for all rows with its key: what differs must have another."""
    keys = [profiles.profile_key(document) for document in DOCUMENTS]
    for key, document in zip(keys, DOCUMENTS, strict=True):
        alike = [d for k, d in zip(keys, DOCUMENTS, strict=True) if k == key]
        assert {repr(outcome(d)) for d in alike} == {repr(outcome(document))}
    ours = stated(facts(), development_key="ours")
    assert profiles.profile_key(ours) == profiles.profile_key(stated(facts()))


def test_a_device_of_the_table_is_looked_up_once(tmp_path, monkeypatch):
    asked = []

    def look_up(name, *rest):
        asked.append(name)
        return profiles.named_profile(name, *rest)

    monkeypatch.setattr(fleet, "named_profile", look_up)
    rows = [{"device": name} for name in ("a100", "h100", "a100", "a100")]
    assert len(names(write(tmp_path / "a.jsonl", *rows))) == 4
    assert asked == ["a100", "h100"]


def test_a_profile_of_the_probe_has_no_device_within(tmp_path):
    file = write(tmp_path / "a.json", facts(device=stated(facts("aarch64"))))
    (device,) = read_fleet([file], NOTHING)
    assert device.profile.host.arch == "x86_64"
    file = write(tmp_path / "b.json", facts(device=3, drivers=7, packages=5))
    assert read_fleet([file], NOTHING)
