"""Which variant runs on which machine."""

import re
from pathlib import Path

import pytest

from aotc.artifacts import compat
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.tables import iree_runtime, ptx_driver_api
from aotc.artifacts.verdicts import verdict_of
from aotc.machine.target import TARGETS

HOST = Host(
    "x86_64",
    frozenset({"avx", "avx2"}),
    "3.13.0",
    frozenset({"local-sync", "local-task"}),
)
CUDA = {"driver_api": 12040, "devices": [{"name": "gpu", "sm": "sm_89"}]}


def host(**changes):
    return Host(**(vars(HOST) | changes))


def cuda_host(sm="sm_89", driver_api=12040):
    return host(drivers=frozenset({"cuda"}), sm=sm, cuda_driver_api=driver_api)


VULKAN_FEATURES = ("scalarBlockLayout", "synchronization2", "timelineSemaphore")


def vulkan_host(api, features=VULKAN_FEATURES):
    offered = None if features is None else frozenset(features)
    drivers = frozenset({"vulkan"})
    return host(drivers=drivers, vulkan_api=api, vulkan_features=offered)


def rocm_host(gfx):
    return host(drivers=frozenset({"hip"}), gfx=gfx)


def judge(data, where, change=None):
    variant = data["variants"][0]
    if change:
        change(variant)
    manifest = Manifest(data)
    found = compat.check(manifest, manifest.variants["a"], where)
    return verdict_of(found), {mismatch.code for mismatch in found}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (HOST, ("optimal", set())),
        (host(arch="aarch64"), ("unsupported", {"arch"})),
        (host(arch=""), ("not_applicable", {"arch"})),
        (host(drivers=frozenset()), ("unsupported", {"no-driver"})),
        (host(runtime_version="3.13.2"), ("optimal", set())),
        (host(runtime_version="9.9.0"), ("not_applicable", {"runtime"})),
        (host(runtime_version=""), ("not_applicable", {"runtime"})),
    ],
)
def test_judges_a_cpu_variant(manifest_data, where, expected):
    assert judge(manifest_data, where) == expected


def test_missing_cpu_features_are_named(manifest_data):
    manifest_data["variants"][0]["target"]["cpu_features_required"] = ["avx2", "fma"]
    manifest = Manifest(manifest_data)
    (found,) = compat.check(manifest, manifest.variants["a"], HOST)
    assert found.verdict == "unsupported"
    assert str(found).endswith("not here: fma [cpu-features]")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda abi: abi.update(iree_vm_bytecode=[16, 0]), ("unsupported", "bytecode")),
        (lambda abi: abi.update(iree_vm_bytecode=[17, 1]), ("unsupported", "bytecode")),
        (lambda abi: abi.update(module_deps={"hal": 8}), ("unsupported", "module")),
        (lambda abi: abi.update(module_deps={"x": 0}), ("not_applicable", "module")),
        (lambda abi: abi.pop("iree_vm_bytecode"), ("not_applicable", "runtime")),
        (lambda abi: abi.pop("vm_feature_bits"), ("not_applicable", "runtime")),
        (lambda abi: abi.update(vm_feature_bits=16), ("unsupported", "vm-features")),
    ],
)
def test_judges_the_runtime_interface(manifest_data, change, expected):
    verdict, codes = judge(
        manifest_data, HOST, lambda variant: change(variant["runtime_abi"])
    )
    assert (verdict, codes) == (expected[0], {expected[1]})


def test_another_iree_release_must_have_been_tested(manifest_data):
    manifest_data["toolchain"]["iree_compiler"]["version"] = "3.12.0"
    prefer = ("supported_prefer_recompile", {"runtime-version"})
    assert judge(manifest_data, HOST) == prefer
    abi = manifest_data["variants"][0]["runtime_abi"]
    abi["runtime_tested"] = []
    assert judge(manifest_data, HOST) == ("unsupported", {"runtime-version"})


def test_a_release_under_which_tests_failed_is_refused_whatever_its_versions(
    manifest_data,
):
    abi = manifest_data["variants"][0]["runtime_abi"]
    abi["runtime_tested"] = ["3.12.0"]
    manifest = Manifest(manifest_data)
    where = host(runtime_version="3.12.0")
    (found,) = compat.check(manifest, manifest.variants["a"], where)
    assert found.verdict == "unsupported"
    assert "tests of such modules failed [runtime-version]" in str(found)


def test_a_release_under_which_tests_ran_right_is_supported(manifest_data, monkeypatch):
    def outcome(compiled_by, release, backend):
        return {("3.13.0", "3.12.0", "llvm-cpu"): "right"}.get(
            (compiled_by, release, backend)
        )

    monkeypatch.setattr(compat, "run_outcome", outcome)
    where = host(runtime_version="3.12.0")
    prefer = ("supported_prefer_recompile", {"runtime-version"})
    assert judge(manifest_data, where) == prefer
    assert judge(manifest_data, host(runtime_version="3.11.0"))[0] == "unsupported"


@pytest.mark.parametrize(
    ("target", "where", "expected"),
    [
        ("cuda:sm_89", cuda_host(), set()),
        ("cuda:sm_80", cuda_host(), set()),
        ("cuda:sm_89", cuda_host(sm="sm_120"), set()),
        ("cuda:sm_120", cuda_host(driver_api=12080), {"compute-capability"}),
        ("cuda:sm_89", cuda_host(driver_api=12030), {"cuda-driver"}),
        ("cuda:sm_89", cuda_host(sm=None), {"compute-capability"}),
        ("cuda:sm_89", cuda_host(driver_api=None), {"cuda-driver"}),
        ("vulkan", vulkan_host("1.3.2"), set()),
        ("vulkan", vulkan_host("1.2.255"), {"vulkan-api"}),
        ("vulkan", vulkan_host(None), {"vulkan-api"}),
        ("vulkan", vulkan_host("1.3.2", ["synchronization2"]), {"vulkan-features"}),
        ("vulkan", vulkan_host("1.3.2", None), {"vulkan-features"}),
        (
            "vulkan",
            host(drivers=frozenset({"vulkan"}), runtime_version="3.99.0"),
            {"runtime", "vulkan-api"},
        ),
        ("vmvx", HOST, set()),
        ("metal", HOST, {"no-driver"}),
        ("rocm:gfx942", HOST, {"no-driver"}),
        ("rocm:gfx942", rocm_host("gfx942:sramecc+:xnack-"), set()),
        ("rocm:gfx942", rocm_host("gfx90a"), {"gfx"}),
        ("rocm:gfx942", rocm_host(None), {"gfx"}),
    ],
)
def test_judges_other_devices(manifest_data, target, where, expected):
    row = TARGETS[target]
    change = {"backend": row.backend, "target": row.to_json()}
    assert judge(manifest_data, where, lambda v: v.update(change))[1] == expected


@pytest.mark.parametrize("used", [[], ["shaderFloat16"]])
def test_vulkan_devices_offer_what_the_code_uses(manifest_data, used):
    target = TARGETS["vulkan"].to_json() | {"vulkan_features": used}
    for offered in (VULKAN_FEATURES, [*VULKAN_FEATURES, "shaderFloat16"]):
        found = judge(
            manifest_data,
            vulkan_host("1.3.2", offered),
            lambda v: v.update(backend="vulkan-spirv", target=target),
        )[1]
        assert found == ({"vulkan-features"} if not {*used} <= {*offered} else set())


@pytest.mark.parametrize(
    ("gpu", "there_is_one"),
    [
        ({"sm": "sm_75"}, True),
        ({"gfx": "gfx1100"}, True),
        ({"gfx": "gfx90c:xnack-"}, True),
        ({"sm": "sm_53"}, False),  # Jetson Nano
        ({"sm": "sm_35"}, False),
        ({"gfx": "gfx90a"}, False),
        ({}, False),
    ],
)
def test_a_newer_vulkan_driver_is_advised_only_where_there_is_one(
    manifest_data, gpu, there_is_one
):
    row = TARGETS["vulkan"]
    change = {"backend": row.backend, "target": row.to_json()}
    manifest_data["variants"][0] |= change
    manifest = Manifest(manifest_data)
    where = host(**vars(vulkan_host("1.2.255")) | gpu)
    (found,) = compat.check(manifest, manifest.variants["a"], where)
    assert found.advice.startswith("install a driver") == there_is_one
    assert "Vulkan 1.3" in found.advice


@pytest.mark.parametrize(
    ("built", "device", "runs"),
    [
        ("sm_80", "sm_90", True),
        ("sm_90", "sm_80", False),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100", False),
        ("sm_120f", "sm_121", True),
        ("sm_120f", "sm_130", False),
        ("sm_100f", "sm_103", True),
        ("sm_100f", "sm_101", False),
    ],
)
def test_knows_on_which_gpus_ptx_runs(manifest_data, built, device, runs):
    target = {"name": "g", "sm": built, "ptx_isa": "7.6"}
    change = {"backend": "cuda", "target": target}
    _, codes = judge(manifest_data, cuda_host(device), lambda v: v.update(change))
    assert codes == (set() if runs else {"compute-capability"})


def test_reads_the_description_of_a_device():
    device = {"arch": "arm64", "cpu": {"features": ["neon"]}, "cuda": CUDA}
    found = Host.from_device(device, "3.13.0", ["cuda"])
    assert found.arch == "aarch64"
    assert found.cpu_features == {"neon"}
    assert (found.sm, found.cuda_driver_api, found.vulkan_api) == ("sm_89", 12040, None)
    amd = {"rocm": {"devices": [{"gfx": "gfx942"}, {"gfx": "gfx1100"}]}}
    assert Host.from_device(amd, "3.13.0", ["hip"]).gfx == "gfx942"
    vulkan = {"api": "1.4.0", "devices": []}
    assert Host.from_device({"vulkan": vulkan}, "3.13.0", []).vulkan_api is None
    vulkan["devices"] = [
        {"name": "old", "api": "1.1.9", "features": []},
        {"name": "new", "api": "1.5.0", "features": list(VULKAN_FEATURES)},
    ]
    best = Host.from_device({"vulkan": vulkan}, "3.13.0", [])
    assert best.vulkan_api == "1.4.0"  # no more than the loader
    assert best.vulkan_features == set(VULKAN_FEATURES)
    assert Host.from_device({"arch": None}, "3.13.0", []).arch == ""
    bare = Host.from_device(
        {"cuda": {"driver_api": 12000, "devices": []}}, "3.13.0", []
    )
    assert (bare.arch, bare.sm) == ("", None)


def test_every_target_has_a_driver_and_a_known_ptx_version():
    for target in TARGETS.values():
        assert BACKENDS[target.backend].drivers
        if target.ptx_isa:
            assert ptx_driver_api(target.ptx_isa) == target.min_cuda_driver_api


def test_knows_the_installed_runtime():
    from aotc.runtime import engine

    assert iree_runtime(engine.iree_version())


def test_the_page_on_rollouts_lists_every_code_of_a_reason():
    folder = Path(compat.__file__).parent
    files = [folder / "compat.py", *(folder / "backends").glob("*.py")]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    page = Path(__file__).parents[2] / "docs/rollout.md"
    table = page.read_text(encoding="utf-8").split("| code |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", table, re.M)
    listed = {code for row in rows for code in re.findall("[a-z-]+", row)}
    codes = re.findall(
        r'(?:unsupported|unknown|slower|Mismatch)\(\s*"([a-z-]+)"', source
    )
    assert listed == {*codes, "memory"}
