"""Fleets: what is read, what is refused, and what is of one class."""

import json
import os

import pytest

from aotc.artifacts import keys
from aotc.artifacts.rollout import signatures
from aotc.artifacts.rollout.device_classes import classes
from aotc.artifacts.rollout.fleet import read_fleet
from aotc.artifacts.rollout.profiles import Assumptions
from aotc.artifacts.trust import Trust
from aotc.errors import InputError, VerificationError
from aotc.machine.target import TARGETS
from tests.refusals import refusal

NOTHING = Assumptions()
V3 = TARGETS["x86_64-v3"].cpu_features_required


def profile(**changes):
    return {
        "schema": "aotc.device/1",
        "arch": "x86_64",
        "cpu": {"features": ["sse2", "avx2"]},
        "memory": {"total_bytes": 2**30},
        **changes,
    }


def write(path, document):
    path.write_text(json.dumps(document))
    return path


def refused_fleet(kind, code, path, *arguments):
    """The text of the error that reading a fleet ends in, which names a place."""
    error = refusal(kind, code, read_fleet, [path], *arguments or (NOTHING,))
    assert error.where
    return str(error)


def test_reads_profiles_fleets_and_folders_of_them(tmp_path):
    write(tmp_path / "alone.json", profile())
    rows = [
        {"name": "a", "count": 12, "labels": {"site": "ulm"}, "file": "alone.json"},
        {"name": "b", "profile": profile(arch="aarch64")},
    ]
    write(tmp_path / "fleet.json", {"schema": "aotc.fleet/1", "devices": rows})
    lines = "\n".join(map(json.dumps, rows)) + "\n\n"
    (tmp_path / "lines.jsonl").write_text(lines)
    (tmp_path / "notes.txt").write_text("no profile")
    devices = read_fleet([tmp_path], NOTHING)
    # a profile that a fleet counts is no device more
    counts = [("a", 12), ("b", 1), ("a", 12), ("b", 1)]
    assert [(d.name, d.count) for d in devices] == counts
    assert devices[0].labels == {"site": "ulm"}
    x86, arm = classes(devices)
    assert (x86.count, arm.count) == (24, 2)
    (alone,) = read_fleet([tmp_path / "alone.json"], NOTHING)
    assert (alone.name, alone.count) == ("alone", 1)


def test_a_folder_is_read_with_all_that_is_below(tmp_path):
    for name in ("a.JSON", "below/b.json", ".hidden/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, profile())
    assert [device.name for device in read_fleet([tmp_path], NOTHING)] == ["a", "b"]


def test_a_pipe_or_an_endless_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    refused_fleet(InputError, "bad-file", tmp_path / "a.json")
    rows = tmp_path / "b.jsonl"
    rows.write_text('{"file": "/dev/zero"}')
    refused_fleet(InputError, "bad-file", rows)


def test_facts_that_are_stated_are_not_assumed(tmp_path):
    vulkan = {"api": None, "devices": [{"api": "1.1.0", "features": []}]}
    file = write(tmp_path / "a.json", profile(vulkan=vulkan))
    (device,) = read_fleet([file], Assumptions("3.13.0", vulkan_api="1.3"))
    assert device.profile.host.vulkan_api == "1.1.0"
    assert device.profile.host.vulkan_features == frozenset()
    (device,) = read_fleet([file], NOTHING)
    assert device.profile.host.vulkan_api is None


def test_release_candidates_and_other_names_of_processors_are_read(tmp_path):
    level = {"features": sorted(V3), "level": "x86_64-v3"}
    facts = profile(arch="AMD64", cpu=level)
    stated = {
        "schema": "aotc.doctor/1",
        "packages": {"iree-base-runtime": "3.14.0rc20260801"},
        "device": facts,
    }
    (device,) = read_fleet([write(tmp_path / "a.json", stated)], NOTHING)
    host = device.profile.host
    assert (host.arch, host.runtime_version) == ("x86_64", "3.14.0")
    unknown = write(tmp_path / "b.json", profile(arch=None, cpu=level))
    assert read_fleet([unknown], NOTHING)[0].profile.host.arch == ""


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("a.json", "{", "bad-fleet", "not JSON"),
        ("a.json", "[]", "bad-fleet", "aotc.fleet/1"),
        ("a.json", '{"schema": "aotc.fleet/2"}', "bad-fleet", "aotc.fleet/2"),
        ("a.json", '{"schema": "aotc.fleet/1"}', "bad-fleet", "$.devices"),
        ("a.json", '{"schema": "aotc.fleet/1", "devices": []}', "empty-fleet", ""),
        ("a.jsonl", "\n", "empty-fleet", ""),
        ("a.jsonl", '{"name": "x"}', "bad-fleet", "a.jsonl:1"),
        ("a.jsonl", '{"file": "gone.json"}', "no-such-file", "gone.json"),
        ("a.jsonl", '{"file": "x", "device": "y"}', "bad-fleet", "device and file"),
        ("a.jsonl", '{"device": "y", "count": 0}', "bad-fleet", "$.count"),
        ("a.jsonl", '{"device": "jetson-0rin"}', "unknown-device", "jetson-orin"),
        ("a.jsonl", '{"device": "y", "labels": {"a": 1}}', "bad-fleet", "$.labels.a"),
        ("a.jsonl", '{"device": "y", "name": "a\\ud800"}', "bad-fleet", "$.name"),
        ("a.jsonl", '{"profile": {}}', "bad-profile", "aotc.device/1"),
        ("a.json", json.dumps(profile(arch=3)), "bad-profile", "$.arch"),
        ("a.json", json.dumps(profile(cpu={})), "bad-profile", "$.cpu.features"),
        ("a.json", json.dumps(profile(memory={"total_bytes": 0})), "bad-profile", "0"),
        (
            "a.json",
            json.dumps(profile(cuda={"devices": [{"sm": "89"}]})),
            "bad-profile",
            "$.cuda.devices[0].sm",
        ),
    ],
)  # fmt: skip
def test_refuses_what_is_no_fleet(tmp_path, name, text, code, words):
    file = tmp_path / name
    file.write_text(text)
    assert words in refused_fleet(InputError, code, file)


def test_refuses_a_profile_whose_level_its_features_contradict(tmp_path):
    liar = profile(cpu={"features": ["sse2"], "level": "x86_64-v4"})
    message = refused_fleet(InputError, "bad-profile", write(tmp_path / "a.json", liar))
    assert "avx512f" in message


def test_a_missing_fleet_is_no_empty_one(tmp_path):
    refused_fleet(InputError, "no-such-file", tmp_path / "gone.json")
    refused_fleet(InputError, "empty-fleet", tmp_path)


def test_assumptions_fill_gaps_alone_and_are_remembered(tmp_path):
    cuda = {"devices": [{"sm": "sm_86"}]}
    file = write(tmp_path / "a.json", profile(cuda=cuda))
    (device,) = read_fleet([file], Assumptions("3.13.0", 12040))
    host = device.profile.host
    assert (host.runtime_version, host.cuda_driver_api) == ("3.13.0", 12040)
    assert device.profile.assumed == ("IREE runtime 3.13.0", "driver of CUDA 12.4")
    stated = {
        "schema": "aotc.doctor/1",
        "packages": {"iree-base-runtime": "3.12.0"},
        "device": profile(cuda={**cuda, "driver_api": 11080}),
    }
    (device,) = read_fleet([write(file, stated)], Assumptions("3.13.0", 12040))
    host = device.profile.host
    assert (host.runtime_version, host.cuda_driver_api) == ("3.12.0", 11080)
    assert device.profile.assumed == ()


def test_a_trusted_signature_can_be_asked_for(tmp_path):
    signer, stranger = keys.generate(), keys.generate()
    trust = Trust.of(signer.public_pem)
    file = write(tmp_path / "a.json", profile())
    signature = tmp_path / "a.json.sig"
    refused_fleet(VerificationError, "profile-unsigned", file, NOTHING, trust)
    signature.write_bytes(signatures.signature_of(file.read_bytes(), stranger))
    refused_fleet(VerificationError, "untrusted-key", file, NOTHING, trust)
    signature.write_bytes(signatures.signature_of(file.read_bytes(), signer))
    assert read_fleet([file], NOTHING, trust)
    write(file, profile(arch="aarch64"))
    refused_fleet(VerificationError, "profile-changed", file, NOTHING, trust)
    signature.unlink()
    os.mkfifo(signature)  # which nobody writes to
    refused_fleet(VerificationError, "profile-unsigned", file, NOTHING, trust)
