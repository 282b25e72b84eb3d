"""Fleets: what is read, what is refused, and what is of one class."""

import json

import pytest

from aotc.artifacts import keys
from aotc.artifacts.rollout import signatures
from aotc.artifacts.rollout.fleet import classes, read_fleet
from aotc.artifacts.rollout.profiles import Assumptions
from aotc.artifacts.trust import Trust
from aotc.errors import InputError, VerificationError

NOTHING = Assumptions()


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


def refused(error, code, path, *arguments):
    with pytest.raises(error) as caught:
        read_fleet(path, *arguments or (NOTHING,))
    assert caught.value.code == code
    assert caught.value.where
    return str(caught.value)


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
    devices = read_fleet(tmp_path, NOTHING)
    assert [(d.name, d.count) for d in devices] == [
        ("alone", 1), ("a", 12), ("b", 1), ("a", 12), ("b", 1),
    ]  # fmt: skip
    assert devices[1].labels == {"site": "ulm"}
    x86, arm = classes(devices)
    assert (x86.count, arm.count) == (25, 2)
    assert x86.name == "alone +1"


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
    assert words in refused(InputError, code, file)


def test_refuses_a_profile_whose_level_its_features_contradict(tmp_path):
    liar = profile(cpu={"features": ["sse2"], "level": "x86_64-v4"})
    message = refused(InputError, "bad-profile", write(tmp_path / "a.json", liar))
    assert "avx512f" in message


def test_a_missing_fleet_is_no_empty_one(tmp_path):
    refused(InputError, "no-such-file", tmp_path / "gone.json")
    refused(InputError, "empty-fleet", tmp_path)


def test_assumptions_fill_gaps_alone_and_are_remembered(tmp_path):
    cuda = {"devices": [{"sm": "sm_86"}]}
    file = write(tmp_path / "a.json", profile(cuda=cuda))
    (device,) = read_fleet(file, Assumptions("3.13.0", 12040))
    host = device.profile.host
    assert (host.runtime_version, host.cuda_driver_api) == ("3.13.0", 12040)
    assert device.profile.assumed == ("IREE runtime 3.13.0", "driver of CUDA 12.4")
    stated = {
        "schema": "aotc.doctor/1",
        "packages": {"iree-base-runtime": "3.12.0"},
        "device": profile(cuda={**cuda, "driver_api": 11080}),
    }
    (device,) = read_fleet(write(file, stated), Assumptions("3.13.0", 12040))
    host = device.profile.host
    assert (host.runtime_version, host.cuda_driver_api) == ("3.12.0", 11080)
    assert device.profile.assumed == ()


def test_a_trusted_signature_can_be_asked_for(tmp_path):
    signer, stranger = keys.generate(), keys.generate()
    trust = Trust.of(signer.public_pem)
    file = write(tmp_path / "a.json", profile())
    signature = tmp_path / "a.json.sig"
    refused(VerificationError, "profile-unsigned", file, NOTHING, trust)
    signature.write_bytes(signatures.signature_of(file.read_bytes(), stranger))
    refused(VerificationError, "untrusted-key", file, NOTHING, trust)
    signature.write_bytes(signatures.signature_of(file.read_bytes(), signer))
    assert read_fleet(file, NOTHING, trust)
    write(file, profile(arch="aarch64"))
    refused(VerificationError, "profile-changed", file, NOTHING, trust)
