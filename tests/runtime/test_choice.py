"""What is said where the variant that was asked for, or the best one, cannot be run."""

import warnings

import pytest

from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.selection import Judgement, Selection
from aotc.errors import AotcError, InputError, SetupError
from aotc.machine import gpus, processor
from aotc.machine.target import TARGETS, Target
from aotc.runtime import choice

CPU = frozenset({"local-sync", "local-task"})


def features(level):
    return frozenset(TARGETS[level].cpu_features_required)


def machine(level="x86_64-v3", arch="x86_64", drivers=(), **more):
    return Host(arch, features(level), "3.13.0", CPU | set(drivers), **more)


@pytest.fixture
def choose(manifest, monkeypatch):
    """A function: what is chosen of a bundle for these targets on this machine."""
    monkeypatch.setattr(choice, "_said", set())
    monkeypatch.setattr(choice.gpus, "is_present", lambda vendors: True)

    def of(targets, here, target=None, fallback=True):
        monkeypatch.setattr(choice.engine, "host", lambda backends: here)
        monkeypatch.setattr(processor, "arch", lambda: here.arch)
        monkeypatch.setattr(processor, "cpu_features", lambda: tuple(here.cpu_features))
        (example,) = manifest["variants"]
        rows = [TARGETS[name] for name in targets]
        variants = [
            example | {"id": row.id, "backend": row.backend, "target": row.to_json()}
            for row in rows
        ]
        file = {"role": "module", "media_type": "x/y", "size": 1, "sha256": "0" * 64}
        files = [file | {"path": example["file"]}, file | {"path": "weights.irpa"}]
        data = manifest | {"variants": variants, "files": files, "channel": "release"}
        return choice.choose(Manifest(data), target, fallback)

    return of


def refusal(call, *arguments, **named):
    with pytest.raises(AotcError) as caught:
        call(*arguments, **named)
    return caught.value


def test_native_without_a_variant_for_this_level_says_what_there_is(choose):
    targets = ("x86_64-v2", "x86_64-v3", "cuda:sm_89")
    error = refusal(choose, targets, machine("x86_64-v4"), "native")
    assert (type(error), error.code) == (InputError, "unknown-variant")
    assert "x86_64-v2, x86_64-v3, cuda-sm_89; got 'native' (x86_64-v4 here)" in str(
        error
    )
    assert "runs x86_64-v2, x86_64-v3: name one of them, or none" in error.hint
    assert "build it with `--target x86_64-v4`" in error.hint
    assert choose(targets, machine("x86_64-v3"), "native")[1].id == "x86_64-v3"


def test_native_on_a_machine_of_no_known_level_says_so(choose):
    error = refusal(choose, ("vmvx",), machine(arch="mips"), "native")
    assert (type(error), error.code) == (SetupError, "unknown-host")


@pytest.mark.parametrize(
    ("targets", "here", "target", "hint"),
    [
        (("x86_64-v4",), machine(), None, "build it with `--target x86_64-v3`"),
        (
            ("x86_64-v4", "x86_64-v3"),
            machine(),
            "x86_64-v4",
            "this machine runs x86_64-v3: name it, or none",
        ),
        (("x86_64-v3",), machine(), "warp", "this machine runs x86_64-v3: name it"),
        (("aarch64",), machine(), "x86_64-v2", "build it with `--target x86_64-v2`"),
        (
            ("x86_64-v3",),
            Host("x86_64", features("x86_64-v3"), "2.9.0", CPU),
            None,
            "rebuild with IREE 2.9, or install the IREE runtime 3.13 on the device",
        ),
    ],
)
def test_the_hint_is_what_would_help(choose, targets, here, target, hint):
    error = refusal(choose, targets, here, target)
    assert error.hint.startswith(hint)
    assert error.hint.count("; or ") <= 1


@pytest.mark.parametrize(
    ("accelerator", "here", "remedy"),
    [
        ("cuda:sm_89", machine(), "install the driver that cuda-sm_89 needs"),
        (
            "cuda:sm_89",
            machine(drivers={"cuda"}, sm="sm_89", cuda_driver_api=11080),
            "for cuda-sm_89, install an NVIDIA driver with CUDA 12.4",
        ),
        (
            "cuda:sm_89",
            machine(drivers={"cuda"}, sm="sm_86", cuda_driver_api=13000),
            "build it with `--target cuda:sm_86` for this device",
        ),
        (
            "rocm:gfx942",
            machine(drivers={"hip"}, gfx="gfx900"),
            "no target of aotc with the backend rocm is for this device",
        ),
    ],
)
def test_a_fall_to_the_processor_says_how_to_avoid_it(
    choose, accelerator, here, remedy
):
    with pytest.warns(UserWarning, match="cpu-fallback") as said:
        assert choose(("x86_64-v3", accelerator), here)[0].fallback
    assert remedy in str(said[0].message)
    error = refusal(choose, ("x86_64-v3", accelerator), here, fallback=False)
    assert error.code == "fallback-refused"
    assert remedy in error.hint
    assert error.hint.endswith("; or allow the processor")


def test_a_fall_to_the_processor_is_said_once(choose):
    here = machine(drivers={"cuda"}, sm="sm_75", cuda_driver_api=13000)
    before = choice.fallback_count()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            choose(("x86_64-v3", "cuda:sm_89"), here)
    assert ["cpu-fallback" in str(each.message) for each in said] == [True]
    assert choice.fallback_count() == before + 3


def test_nothing_is_said_where_there_is_no_accelerator(choose, monkeypatch):
    asked = []

    def is_present(vendors):
        asked.append(vendors)
        return False

    monkeypatch.setattr(choice.gpus, "is_present", is_present)
    before = choice.fallback_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection, _ = choose(("x86_64-v3", "cuda:sm_89"), machine())
    assert selection.fallback
    assert choice.fallback_count() == before + 1
    assert asked == [frozenset({"0x10de"})]


def test_nothing_is_said_where_vulkan_is_the_processor(choose, monkeypatch):
    monkeypatch.setattr(choice.gpus, "is_present", lambda vendors: False)
    vulkan = machine(
        drivers={"vulkan"},
        vulkan_api="1.3.2",
        vulkan_features=frozenset(
            {"scalarBlockLayout", "synchronization2", "timelineSemaphore"}
        ),
        vulkan_is_software=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection, variant = choose(("vulkan", "x86_64-v3"), vulkan)
    assert (variant.id, selection.fallback) == ("x86_64-v3", True)
    with pytest.warns(UserWarning, match="software-device"):
        assert choose(("vulkan", "x86_64-v3"), vulkan, "vulkan")[1].id == "vulkan"


@pytest.mark.parametrize(
    ("vendor", "kind", "found"),
    [
        ("0x10de", "0x030200", True),  # a data centre's
        ("0x10de", "0x020000", False),  # a network card
        ("0x1002", "0x030000", False),  # another vendor's
        ("0x1234", "0x030000", False),  # of a virtual machine
    ],
)
def test_gpus_are_found_without_their_drivers(
    vendor, kind, found, tmp_path, monkeypatch
):
    (tmp_path / "0000:00:1e.0").mkdir()
    (tmp_path / "0000:00:1e.0/vendor").write_text(f"{vendor}\n")
    (tmp_path / "0000:00:1e.0/class").write_text(f"{kind}\n")
    monkeypatch.setattr(gpus, "_PCI", tmp_path)
    monkeypatch.setattr(gpus, "_NODES", {})
    assert gpus.is_present({"0x10de"}) == found


def test_an_accelerator_that_would_run_is_not_said_to_lack_a_driver(
    choose, monkeypatch
):
    def select(manifest, here, among=None):
        cpu, cuda = (Judgement(v, ()) for v in manifest.variants.values())
        monkeypatch.setitem(vars(cuda), "verdict", "supported_prefer_recompile")
        return Selection(cpu.variant, "optimal", (), (cuda,))

    monkeypatch.setattr(choice, "select", select)
    here = machine(drivers={"cuda"}, sm="sm_89", cuda_driver_api=13000)
    error = refusal(choose, ("x86_64-v3", "cuda:sm_89"), here, fallback=False)
    assert "cuda-sm_89 runs here too" in error.hint
    assert "driver" not in error.hint


def test_an_accelerator_in_use_warns_of_nothing(choose):
    here = machine(drivers={"cuda"}, sm="sm_90", cuda_driver_api=13000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(("x86_64-v3", "cuda:sm_89"), here)[1].id == "cuda-sm_89"
    assert Target.parse("cuda:sm_89").id == "cuda-sm_89"
