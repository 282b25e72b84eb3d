"""Artifacts × devices: verdicts, memory, coverage, advice, the cure of a fleet."""

import json
from fractions import Fraction

import pytest

from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.rollout.device_classes import FleetDevice, classes
from aotc.artifacts.rollout.matrix import Artifact, matrix
from aotc.artifacts.rollout.policy import Policy, coverage_by_label
from aotc.artifacts.rollout.profiles import (
    Assumptions,
    DeviceProfile,
    named_profile,
    read_profile,
)
from aotc.artifacts.rollout.report import report
from aotc.cli.compat_forms.wording import lines_of
from aotc.errors import InputError
from aotc.machine.target import TARGETS

CPU = frozenset({"local-sync", "local-task"})
GIB = 2**30


def features(level):
    return frozenset(TARGETS[level].cpu_features_required)


def cpu(level, **more):
    return DeviceProfile(
        Host("x86_64", features(level), "3.13.0", CPU), 2 * GIB, **more
    )


def gpu(sm="sm_89", driver=12040, level="x86_64-v3"):
    drivers = CPU | {"cuda"}
    host = Host("x86_64", features(level), "3.13.0", drivers, sm, driver)
    return DeviceProfile(host, 2 * GIB, GIB)


def device(**drivers):
    """The document of a probe, with what it says of drivers."""
    cpu = {"features": sorted(features("x86_64-v3"))}
    return {"schema": "aotc.device/1", "arch": "x86_64", "cpu": cpu} | drivers


ARM = DeviceProfile(Host("aarch64", features("aarch64"), "3.13.0", CPU), GIB)


@pytest.fixture
def bundle(manifest_data):
    """A function: the artifact with a variant for each target."""

    def of(*names, memory=None):
        example = manifest_data["variants"][0]
        variants = [
            example
            | {
                "id": TARGETS[name].id,
                "backend": TARGETS[name].backend,
                "target": TARGETS[name].to_json(),
                "memory": memory or {},
            }
            for name in names
        ]
        return Artifact("small.aotc", Manifest(manifest_data | {"variants": variants}))

    return of


def judge(artifact, *devices, policy=None, cure=False):
    rows = [d if isinstance(d, FleetDevice) else FleetDevice("d", d) for d in devices]
    return report(matrix([artifact], classes(rows)), policy or Policy(), cure=cure)


def test_says_which_variant_runs_and_why_others_do_not(bundle):
    found = judge(bundle("x86_64-v3", "cuda:sm_89"), gpu(), cpu("x86_64-v3"), ARM)
    on_gpu, on_cpu, on_arm = found["cells"]
    assert (on_gpu["variant"], on_gpu["fallback"]) == ("cuda-sm_89", False)
    assert (on_cpu["variant"], on_cpu["fallback"]) == ("x86_64-v3", True)
    assert [r["code"] for r in on_cpu["reasons"]] == ["no-driver"]
    assert (on_arm["variant"], on_arm["verdict"]) == (None, "unsupported")
    assert on_arm["advice"][0] == "add `--target aarch64`"
    assert not found["passed"]


def test_an_old_driver_is_cured_by_a_newer_one_or_older_code(bundle):
    (cell,) = judge(bundle("cuda:sm_89"), gpu(driver=11060))["cells"]
    assert cell["verdict"] == "unsupported"
    assert cell["advice"][0] == "add `--target cuda:sm_86`"
    assert any("12.4" in line for line in cell["advice"])


@pytest.mark.parametrize(
    ("targets", "where", "missing", "first"),
    [
        # a card in a computer that nobody knows: with its driver, and without
        (["x86_64-v3"], ("rtx-4090", 12040), "cuda:sm_89", "add `--target cuda:sm_89`"),
        (
            ["x86_64-v3"],
            ("rtx-4090", None),
            "cuda:sm_89",
            "add `--target cuda:sm_89`, if it has: NVIDIA GPU sm_89 or newer, driver "
            "with CUDA 12.4 or newer",
        ),
        (["cuda:sm_120"], ("rtx-4090", 12040), None, "add `--target cuda:sm_89`"),
        # where code for the processor is what lacks
        (["x86_64-v3"], ("jetson-orin", None), None, "add `--target aarch64-v8.2`"),
    ],
)
def test_code_that_lacks_for_an_accelerator_is_told_before_an_unknown_processor(
    bundle, targets, where, missing, first
):
    name, driver = where
    profile = named_profile(name, Assumptions("3.13.0", driver), None)
    policy = Policy("optimal", fallback=False)
    (cell,) = judge(bundle(*targets), profile, policy=policy)["cells"]
    assert cell["missing_target"] == missing
    assert cell["advice"][0] == first
    said = list(lines_of(cell))
    assert ("no code for its accelerator" in said[0]) == (missing is not None)
    assert len(said) > 1 or missing is None


def test_no_target_is_advised_that_would_change_nothing(bundle):
    """Another runtime is what lacks; or a processor that stands in for a GPU."""
    host = Host("x86_64", features("x86_64-v4"), "2.9.0", CPU)
    (old,) = judge(bundle("x86_64-v3"), DeviceProfile(host, GIB))["cells"]
    assert old["verdict"] == "unsupported"
    assert old["missing_target"] is None
    assert old["advice"]
    (beside,) = judge(bundle("x86_64-v3", "cuda:sm_89"), cpu("x86_64-v4"))["cells"]
    assert beside["fallback"]
    for cell in (old, beside):
        assert not [each for each in cell["advice"] if "--target" in each]


def test_reasons_against_the_fastest_variant_come_first(bundle):
    profile = named_profile("rtx-4090", Assumptions("3.13.0"), None)
    (cell,) = judge(bundle("x86_64-v3", "vulkan", "cuda:sm_89"), profile)["cells"]
    variants = [reason["variant"] for reason in cell["reasons"]]
    assert list(dict.fromkeys(variants)) == ["cuda-sm_89", "vulkan", "x86_64-v3"]


def test_entries_that_do_not_fit_are_named_and_count(bundle):
    plan = {"sizes": {}, "resident_bytes": GIB // 4}
    memory = {"predict": plan | {"peak_bytes": 3 * GIB // 2}}
    on_big, on_small = judge(
        bundle("x86_64-v2", "cuda:sm_80", memory=memory), cpu("x86_64-v2"), gpu()
    )["cells"]
    assert (on_big["memory"]["fit"], on_big["accepted"]) == (["predict"], True)
    assert on_small["memory"]["exceed"] == ["predict"]
    assert (on_small["verdict"], on_small["accepted"]) == ("optimal", False)
    unknown = judge(bundle("x86_64-v2"), cpu("x86_64-v2"))["cells"][0]
    assert (unknown["memory"]["unknown"], unknown["accepted"]) == (["predict"], True)


def test_coverage_counts_devices_by_label(bundle):
    fleet = [
        FleetDevice("a", cpu("x86_64-v3"), 97, {"site": "ulm"}),
        FleetDevice("b", cpu("x86_64-v2"), 2, {"site": "ulm"}),
        FleetDevice("c", cpu("x86_64-v2"), 1, {"site": "bonn"}),
    ]
    found = matrix([bundle("x86_64-v3")], classes(fleet))
    policy = Policy(min_coverage=Fraction(97, 100), per_label=("site",))
    assert [
        (c.label, c.covered, c.total, c.holds) for c in coverage_by_label(found, policy)
    ] == [
        (None, 97, 100, True),
        ("site=bonn", 0, 1, False),
        ("site=ulm", 97, 99, True),
    ]


def test_a_label_that_no_device_has_is_refused_and_one_named_twice_counts_once(bundle):
    devices = classes([FleetDevice("a", cpu("x86_64-v3"), 9, {"site": "ulm"})])
    found = matrix([bundle("x86_64-v3")], devices)
    with pytest.raises(InputError) as caught:
        coverage_by_label(found, Policy(per_label=("siet",)))
    assert (caught.value.code, caught.value.hint) == ("unknown-label", "labels: site")
    twice = coverage_by_label(found, Policy(per_label=("site", "site")))
    assert [coverage.total for coverage in twice] == [9, 9]


def test_another_runtime_is_no_fault_of_the_targets(bundle):
    old = DeviceProfile(Host("x86_64", features("x86_64-v3"), "2.9.0", CPU))
    (cure,) = judge(bundle("x86_64-v3"), old, cpu("x86_64-v3"), cure=True)["cure"]
    assert (cure["targets"], cure["uncovered_classes"]) == (["x86_64-v3"], [])
    assert cure["other_runtime_classes"] == [0]


def test_a_card_in_an_unknown_computer_is_not_known_to_refuse_code_for_processors(
    bundle,
):
    card = named_profile("rtx-4090", Assumptions("3.13.0"), None)
    (cell,) = judge(bundle("x86_64-v3"), card)["cells"]
    assert (cell["verdict"], cell["reasons"][0]["code"]) == ("not_applicable", "arch")


def test_memory_is_assumed_where_it_is_not_said():
    assumed = Assumptions("3.13.0", memory_bytes=8 * 10**9)
    card = named_profile("rtx-4090", assumed, None)
    assert card.memory_bytes == 8 * 10**9
    assert "8,000,000,000 bytes of memory" in card.assumed
    board = named_profile("raspberry-pi-5", assumed, None)
    assert board == named_profile("raspberry-pi-5", Assumptions("3.13.0"), None)


def test_each_artifact_must_cover_unless_any_is_enough(bundle):
    devices = classes([FleetDevice("a", cpu("x86_64-v2")), FleetDevice("b", ARM)])
    found = matrix([bundle("x86_64-v2"), bundle("aarch64")], devices)
    assert [c.covered for c in coverage_by_label(found, Policy())] == [1, 1]
    assert [c.covered for c in coverage_by_label(found, Policy(any_artifact=True))] == [
        2
    ]


def test_a_fall_to_the_processor_covers_unless_it_is_refused(bundle):
    artifact = bundle("x86_64-v3", "cuda:sm_89")
    assert judge(artifact, gpu("sm_86"))["passed"]
    assert not judge(artifact, gpu("sm_86"), policy=Policy(fallback=False))["passed"]


def test_the_cure_is_the_smallest_set_of_targets(bundle):
    devices = [cpu("x86_64-v2"), cpu("x86_64-v4"), ARM, gpu("sm_120", 13000)]
    (cure,) = judge(bundle("cuda:sm_89"), *devices, cure=True)["cure"]
    assert cure["targets"] == ["aarch64", "x86_64-v2"]
    assert cure["add"] == ["aarch64", "x86_64-v2"]
    (cure,) = judge(
        bundle("aarch64"), *devices, cure=True, policy=Policy(fallback=False)
    )["cure"]
    assert len(cure["targets"]) == 3
    assert any(target.startswith("cuda") for target in cure["add"])


@pytest.mark.parametrize(
    ("level", "advised", "other"),
    [
        ("x86_64-v4-dot", "x86_64-v4", "aarch64"),
        ("aarch64-v8.6", "aarch64-v8.2", "x86_64-v3"),
    ],
)
def test_nobody_is_advised_code_that_narrow_types_alone_gain_by(
    bundle, level, advised, other
):
    arch = TARGETS[level].arch
    newest = DeviceProfile(Host(arch, features(level), "3.13.0", CPU), GIB)
    found = judge(bundle(other), newest, cure=True)
    assert found["cure"][0]["targets"] == found["cure"][0]["add"] == [advised]
    assert level not in json.dumps(found["cells"])
    (cure,) = judge(bundle(level), newest, cure=True)["cure"]
    assert cure["add"] == []


def test_the_cure_reaches_the_coverage_that_is_asked_for_and_no_more(bundle):
    fleet = [
        FleetDevice("a", cpu("x86_64-v2"), 96, {"site": "ulm"}),
        FleetDevice("b", ARM, 3, {"site": "ulm"}),
        FleetDevice("c", ARM, 1, {"site": "bonn"}),
    ]

    portable = bundle("vmvx")

    def cure(policy, artifact=portable):
        (found,) = judge(artifact, *fleet, policy=policy, cure=True)["cure"]
        return found

    partial = cure(Policy(min_coverage=Fraction("0.96")))
    assert partial["targets"] == partial["add"] == ["x86_64-v2"]
    assert (partial["left_out_classes"], partial["uncovered_classes"]) == ([1], [])
    assert partial["reaches_coverage"]
    whole = cure(Policy(min_coverage=Fraction("0.961")))
    assert whole["targets"] == ["aarch64", "x86_64-v2"]
    by_site = cure(Policy(min_coverage=Fraction("0.96"), per_label=("site",)))
    assert by_site["targets"] == ["aarch64", "x86_64-v2"]
    half = Policy(min_coverage=Fraction("0.5"), per_label=("site",))
    assert cure(half, bundle("aarch64"))["add"] == ["x86_64-v2"]
    assert cure(Policy(min_coverage=Fraction(0)))["targets"] == []


def test_where_the_coverage_is_out_of_reach_the_cure_covers_what_it_can(bundle):
    fleet = [
        FleetDevice("a", DeviceProfile(Host("", frozenset(), "", CPU)), 5),
        FleetDevice("b", ARM),
    ]
    policy = Policy(min_coverage=Fraction("0.5"))
    (cure,) = judge(bundle("x86_64-v2"), *fleet, policy=policy, cure=True)["cure"]
    assert not cure["reaches_coverage"]
    assert (cure["targets"], cure["uncovered_classes"]) == (["aarch64"], [0])


def test_what_nothing_covers_is_said(bundle):
    unknown = DeviceProfile(Host("", frozenset(), "", CPU))
    found = judge(bundle("x86_64-v2"), unknown, cure=True)
    assert found["cells"][0]["verdict"] == "not_applicable"
    assert found["cure"][0]["uncovered_classes"] == [0]


@pytest.mark.parametrize(
    ("drivers", "target", "verdict", "code"),
    [
        ({"rocm": {"hip": True}}, "rocm:gfx942", "optimal", None),
        ({"rocm": {"hip": False}}, "rocm:gfx942", "unsupported", "no-driver"),
        ({"rocm": {}}, "rocm:gfx942", "not_applicable", "driver"),
        ({"vulkan": {"devices": []}}, "vulkan", "unsupported", "no-driver"),
        ({"vulkan": {}}, "vulkan", "not_applicable", "vulkan-features"),
    ],
)
def test_what_a_probe_does_not_say_of_a_driver_is_unknown(
    bundle, drivers, target, verdict, code
):
    for name, facts in drivers.items():
        stated = {"devices": [{"gfx": "gfx942"}]} if name == "rocm" else {"api": "1.3"}
        drivers = {name: stated | facts}
    profile = read_profile(device(**drivers), Assumptions("3.13.0"), "probe")
    found = judge(bundle(target), profile)
    assert found["cells"][0]["verdict"] == verdict
    reasons = [reason["code"] for reason in found["cells"][0]["reasons"]]
    assert reasons == ([code] if code else [])


def test_an_entry_has_to_fit_the_memory_of_a_vulkan_device(bundle):
    needed = {"predict": {"sizes": {}, "resident_bytes": 0, "peak_bytes": 3 * GIB}}
    wanted = ["scalarBlockLayout", "synchronization2", "timelineSemaphore"]
    gpu = {"api": "1.3.0", "features": wanted}
    for there, said in ((2 * GIB, "exceed"), (4 * GIB, "fit"), (None, "unknown")):
        weak = {"api": "1.3.0", "features": [], "memory_bytes": 64 * GIB}
        devices = [weak, gpu | {"memory_bytes": there}]
        document = device(vulkan={"api": "1.3.0", "devices": devices})
        profile = read_profile(document, Assumptions("3.13.0"), "probe")
        found = judge(bundle("vulkan", memory=needed), profile)
        assert found["cells"][0]["memory"][said] == ["predict"]


@pytest.mark.parametrize(
    "name", ["jetson-nano", "jetson-tx2", "raspberry-pi-4", "intel-haswell"]
)
def test_no_driver_is_assumed_that_there_is_none_of(bundle, name):
    """The newest driver for these has Vulkan 1.2, or lacks a feature IREE wants."""
    assumed = Assumptions("3.13.0", vulkan_api="1.3.0")
    cell = judge(bundle("vulkan"), named_profile(name, assumed, None))["cells"][0]
    assert (cell["variant"], cell["reasons"][0]["code"]) == (None, "no-driver")
