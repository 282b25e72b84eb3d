"""The table of common devices gives profiles that compatibility can be judged by."""

import re

import pytest

from aotc.artifacts import tables
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.host import Host
from aotc.artifacts.tables import reading
from aotc.errors import InputError
from aotc.machine import device, processor
from aotc.machine.target import TARGETS

DEVICES = tables.devices()
KINDS = {"edge", "phone", "desktop", "cloud-cpu", "gpu"}
DRIVERS = {driver for backend in BACKENDS.values() for driver in backend.drivers}


def test_a_name_means_one_device():
    names = [n for each in DEVICES.values() for n in (each.id, *each.aliases)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("each", DEVICES.values(), ids=DEVICES)
def test_a_profile_is_like_that_of_doctor(each):
    profile = each.profile
    here = device.probe(cpu_only=True)
    assert profile["schema"] == here["schema"]
    assert profile.keys() == {*here, "cuda", "vulkan", "rocm"}
    assert profile["cpu"].keys() == here["cpu"].keys()
    assert each.kind in KINDS
    assert set(each.drivers) <= DRIVERS
    assert all(each.sources)


@pytest.mark.parametrize("each", DEVICES.values(), ids=DEVICES)
def test_features_are_those_that_a_device_is_asked_for(each):
    cpu, arch = each.profile["cpu"], each.profile["arch"]
    if arch is None:
        assert each.kind == "gpu"
        assert cpu["features"] == []
        assert cpu["level"] is None
        return
    assert set(cpu["features"]) <= processor.KNOWN_FEATURES[arch]
    assert set(processor.BASELINE.get(arch, ())) <= set(cpu["features"])
    assert cpu["features"] == sorted(set(cpu["features"]))
    assert TARGETS[cpu["level"]].arch == arch


@pytest.mark.parametrize("each", DEVICES.values(), ids=DEVICES)
def test_a_driver_goes_with_its_gpu(each):
    host = Host.from_device(each.profile, "3.13.0", each.drivers)
    assert ("cuda" in each.drivers) == (host.sm is not None)
    assert not ("hip" in each.drivers and host.gfx is None)
    assert ("local-sync" in each.drivers) == bool(host.arch)
    assert host.sm is None or re.fullmatch(r"sm_\d{2,3}", host.sm)
    assert host.gfx is None or re.fullmatch(r"gfx\d{2,3}[0-9a-c]", host.gfx)


def test_versions_of_drivers_are_never_assumed():
    for each in DEVICES.values():
        assert not each.profile["cuda"] or each.profile["cuda"]["driver_api"] is None
        assert not each.profile["vulkan"] or each.profile["vulkan"]["api"] is None


@pytest.mark.parametrize(
    ("name", "level", "has", "lacks"),
    [
        ("intel-alder-lake", "x86_64-v3-dot", "avxvnni", "avx512f"),
        ("intel-jasper-lake", "x86_64-v2", "sse4.2", "avx"),
        ("epyc-genoa", "x86_64-v4-dot", "avx512bf16", "amx-tile"),
        ("xeon-sapphire-rapids", "x86_64-v4-dot", "amx-bf16", "fma4"),
        ("steam-deck", "x86_64-v3", "sse4a", "avx512f"),
        ("raspberry-pi-4", "aarch64", "crc", "aes"),
        ("raspberry-pi-5", "aarch64-v8.2", "dotprod", "i8mm"),
        ("graviton3", "aarch64-v8.6", "sve", "sve2"),
        ("graviton4", "aarch64-v8.6", "sve2", "sme"),
        ("snapdragon-8-gen-2", "aarch64-v8.6", "i8mm", "sve2"),
        ("visionfive-2", "riscv64", "d", "v"),
        ("milk-v-jupiter", "riscv64-v", "v", "h"),
    ],
)
def test_knows_what_processors_have(name, level, has, lacks):
    cpu = tables.find_device(name).profile["cpu"]
    assert cpu["level"] == level
    assert has in cpu["features"]
    assert lacks not in cpu["features"]


def test_finds_a_device_by_alias_and_case_and_says_what_is_alike():
    assert tables.find_device("Jetson Orin").id == "jetson-agx-orin"
    assert tables.find_device("RTX_4090").profile["cuda"]["devices"][0]["sm"] == "sm_89"
    with pytest.raises(InputError) as caught:
        tables.find_device("rasberry-pi-5")
    assert caught.value.code == "unknown-device"
    assert "raspberry-pi-5" in caught.value.hint


def test_a_name_of_several_generations_is_none_of_them():
    """A Ryzen 7000 in a laptop can be a Zen 3, which has no AVX-512."""
    with pytest.raises(InputError) as caught:
        tables.find_device("ryzen-7000")
    assert "ryzen-7000-desktop" in caught.value.hint


def test_every_source_that_is_named_is_one_of_a_row():
    cited = {source for each in DEVICES.values() for source in each.sources}
    assert cited == set(reading.document("devices.json")["sources"].values())
