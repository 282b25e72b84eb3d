"""Which of the variants that run is chosen, and what is said of the others."""

import itertools
from dataclasses import replace

import pytest

from aotc.artifacts import selection
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.rollout.candidates import accelerator_target, candidate_targets
from aotc.machine.target import TARGETS

CPU = {"local-sync", "local-task"}
V3 = frozenset(TARGETS["x86_64-v3"].cpu_features_required)
V4 = frozenset(TARGETS["x86_64-v4"].cpu_features_required)


def host(features=V3, drivers=(), **more):
    return Host("x86_64", features, "3.13.0", frozenset(CPU | set(drivers)), **more)


def gpu(sm, **more):
    return host(drivers={"cuda"}, sm=sm, cuda_driver_api=13000, **more)


VULKAN = host(
    drivers={"vulkan"},
    vulkan_api="1.3.0",
    vulkan_features=frozenset(
        {"scalarBlockLayout", "synchronization2", "timelineSemaphore"}
    ),
)


SOFTWARE = replace(VULKAN, vulkan_is_software=True)


def bundle(data, names):
    """A manifest with a variant for each target, in this order."""
    example = data["variants"][0]
    variants = [
        example
        | {
            "id": TARGETS[name].id,
            "backend": TARGETS[name].backend,
            "target": TARGETS[name].to_json(),
        }
        for name in names
    ]
    return Manifest(data | {"variants": variants})


@pytest.mark.parametrize(
    ("targets", "where", "best"),
    [
        (("x86_64-v2", "x86_64-v3", "x86_64-v4"), host(V4), "x86_64-v4"),
        (("x86_64-v2", "x86_64-v3", "x86_64-v4"), host(V3), "x86_64-v3"),
        (("vmvx", "x86_64-v2"), host(V3), "x86_64-v2"),
        (("cuda:sm_80", "cuda:sm_86", "cuda:sm_89"), gpu("sm_90"), "cuda-sm_89"),
        (("cuda:sm_80", "cuda:sm_86", "cuda:sm_89"), gpu("sm_87"), "cuda-sm_86"),
        (("x86_64-v4", "vulkan", "cuda:sm_80"), gpu("sm_89"), "cuda-sm_80"),
        (
            ("x86_64-v4", "vulkan"),
            VULKAN,
            "vulkan",
        ),
        (("x86_64-v3", "vulkan"), SOFTWARE, "x86_64-v3"),
    ],
)
def test_the_order_of_targets_does_not_decide(manifest_data, targets, where, best):
    for order in itertools.permutations(targets):
        assert selection.select(bundle(manifest_data, order), where).variant.id == best


def test_code_for_vulkan_alone_runs_on_the_processor_and_says_so(manifest_data):
    found = selection.select(bundle(manifest_data, ["vulkan"]), SOFTWARE)
    assert (found.variant.id, found.verdict) == ("vulkan", "supported_prefer_recompile")
    assert "[software-device]" in found.reasons[0]


@pytest.mark.parametrize("name", ["llvmpipe (LLVM 15.0.6, 256 bits)", "SwiftShader"])
def test_a_gpu_goes_before_vulkan_on_the_processor(name):
    software = {"name": name, "api": "1.3.9", "features": ["a", "b"]}
    card = {"name": "Intel(R) UHD Graphics", "api": "1.3.2", "features": ["a"]}
    for devices, expected in (([software], True), ([software, card], False)):
        facts = {"arch": "x86_64", "vulkan": {"api": "1.3.9", "devices": devices}}
        found = Host.from_device(facts, "3.13.0", ["vulkan"])
        assert found.vulkan_is_software is expected


def test_vulkan_on_the_processor_is_no_target_to_build_for():
    assert "vulkan" in candidate_targets(VULKAN)
    assert "vulkan" not in candidate_targets(SOFTWARE)
    assert accelerator_target(SOFTWARE) is None


def test_a_better_verdict_wins_over_faster_code(manifest_data):
    manifest = bundle(manifest_data, ("x86_64-v3", "x86_64-v4"))
    found = selection.select(manifest, host(V3))
    assert (found.variant.id, found.verdict, found.reasons) == (
        "x86_64-v3",
        "optimal",
        (),
    )
    (passed,) = found.passed_over
    assert str(passed).startswith("x86_64-v4: expected CPU features")
    assert not found.fallback


@pytest.mark.parametrize(
    ("targets", "where", "target", "fallback"),
    [
        (("x86_64-v3", "cuda:sm_89"), host(), None, True),
        (("x86_64-v3", "cuda:sm_89"), gpu("sm_86"), None, True),
        (("x86_64-v3", "cuda:sm_89"), gpu("sm_89"), None, False),
        (("x86_64-v3", "cuda:sm_89"), host(), "x86_64-v3", False),
        (("vmvx", "x86_64-v4"), host(), None, False),
        (
            ("vulkan", "cuda:sm_89"),
            VULKAN,
            None,
            False,
        ),
    ],
)
def test_tells_a_processor_in_place_of_an_accelerator(
    manifest_data, targets, where, target, fallback
):
    found = selection.select(bundle(manifest_data, targets), where, target)
    assert found.fallback is fallback


def test_says_for_each_variant_why_none_runs(manifest_data):
    arm = Host("aarch64", frozenset(), "3.13.0", frozenset(CPU))
    found = selection.select(Manifest(manifest_data), arm)
    assert (found.variant, found.verdict) == (None, "unsupported")
    assert "a: expected an x86_64 processor, got aarch64" in found.reasons[0]
    assert len(found.reasons) == 2
