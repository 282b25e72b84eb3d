"""`aotc compat --self` says of each variant what `load` then does with it.

The machine of the test is made out to be another: with fewer CPU features, another
runtime or memory, drivers that are gone or old. Code for its processor is real and is
loaded where the verdict allows it; the other variants hold portable code under their
names, and an accelerator that is made out to be there is the processor.
"""

import json
import warnings
from pathlib import Path

import pytest

from aotc import runtime
from aotc.artifacts import Signer, write_bundle
from aotc.artifacts.verdicts import USABLE, VERDICTS
from aotc.artifacts.vmfb import runtime_abi
from aotc.cli import doctor
from aotc.cli.main import main
from aotc.errors import SetupError
from aotc.machine import device, gpus, processor
from aotc.machine.target import TARGETS
from aotc.runtime import engine

HERE = frozenset(processor.cpu_features())
OURS = [t.name for t in TARGETS.values() if t.arch == processor.arch()]
FOREIGN = [t.name for t in TARGETS.values() if t.name not in (*OURS, "vmvx")]
CUDA = {"driver_api": 12040, "devices": [{"name": "gpu", "sm": "sm_89"}]}
VULKAN = {
    "api": "1.3.280",
    "devices": [
        {
            "name": "gpu",
            "api": "1.3.280",
            "features": ["scalarBlockLayout", "synchronization2", "timelineSemaphore"],
        }
    ],
}

# what the machine is made out to be
MACHINES = {
    "as it is": {},
    "without AVX-512": {"features": {f for f in HERE if "avx512" not in f}},
    "without AVX2": {"features": {f for f in HERE if "avx" not in f}},
    "without FMA": {"features": HERE - {"fma"}},
    "without any feature": {"features": frozenset()},
    "with little memory": {"memory": 1},
    "with a patch release": {"release": "3.13.99"},
    "with the release before": {"release": "3.12.0"},
    "with an old release": {"release": "2.9.0"},
    "with an unknown release": {"release": "9.9.9"},
    "with a runtime that is no package": {"packaged": False},
    "with a GPU": {"cuda": CUDA, "vulkan": VULKAN, "drivers": {"cuda", "vulkan"}},
    "with a GPU and no driver": {"cuda": CUDA, "vulkan": VULKAN},
    "with an old driver": {"cuda": CUDA | {"driver_api": 11080}, "drivers": {"cuda"}},
    "with an older GPU": {
        "cuda": CUDA | {"devices": [{"name": "gpu", "sm": "sm_80"}]},
        "drivers": {"cuda"},
    },
    "with an old Vulkan": {"vulkan": VULKAN | {"api": "1.1.0"}, "drivers": {"vulkan"}},
    "with a driver and no GPU": {"drivers": {"cuda", "vulkan", "hip"}},
    "with an AMD GPU": {
        "rocm": {"devices": [{"name": "gpu", "gfx": "gfx1100"}]},
        "drivers": {"hip"},
    },
}


@pytest.fixture(scope="module")
def codes(compile_module, module):
    """The code of each variant: real for this processor, else portable."""
    ours = {name: compile_module(name) for name in OURS}
    return ours | dict.fromkeys(("vmvx", *FOREIGN), module)


@pytest.fixture
def bundle(shelf, codes):
    """A bundle with a variant for each target that there is."""
    data = json.loads(Path(shelf.bundle(), "manifest.json").read_bytes())
    (example,) = data["variants"]
    variants = [
        example
        | {
            "id": TARGETS[name].id,
            "file": f"{TARGETS[name].id}.vmfb",
            "backend": TARGETS[name].backend,
            "target": TARGETS[name].to_json(),
            "runtime_abi": runtime_abi(code),
        }
        for name, code in codes.items()
    ]
    return write_bundle(
        shelf.folder / "all",
        data | {"files": [], "variants": variants},
        {f"{TARGETS[name].id}.vmfb": code for name, code in codes.items()},
        Signer.from_file(shelf.folder / "team.key"),
    )


@pytest.fixture(params=MACHINES.values(), ids=MACHINES)
def machine(request, monkeypatch):
    """Both who describe the machine and who load on it find it as it is made out."""
    said = request.param
    release = said.get("release", engine.iree_version())
    found = {name: said.get(name) for name in ("cuda", "vulkan", "rocm")}
    version = doctor.package_version

    def package_version(name):
        if name != "iree-base-runtime":
            return version(name)
        return release if said.get("packaged", True) else None

    def open_device(backend, threads, *, is_small=False):
        return engine._cpu_device(1, is_small)

    monkeypatch.setattr(gpus, "probe", lambda: found)
    monkeypatch.setattr(gpus, "is_present", lambda vendors: True)
    monkeypatch.setattr("aotc.runtime.choice._said", set())
    features = tuple(sorted(said.get("features", HERE)))
    monkeypatch.setattr(processor, "cpu_features", lambda: features)
    monkeypatch.setattr(device, "_memory_bytes", lambda: said.get("memory", 2**33))
    monkeypatch.setattr(doctor, "package_version", package_version)
    monkeypatch.setattr(engine, "iree_version", lambda: release)
    monkeypatch.setattr(engine, "_works", lambda name: name in said.get("drivers", ()))
    monkeypatch.setattr(engine, "device", open_device)


def verdicts(cell, ids):
    """The verdict of each variant: the worst of the reasons against it."""
    found = dict.fromkeys(ids, "optimal")
    for reason in cell["reasons"]:
        each = (found[reason["variant"]], reason["verdict"])
        found[reason["variant"]] = max(each, key=VERDICTS.index)
    return found


def load(path, trust, **named):
    """The model, or None and the error; and what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = runtime.load(path, trust=trust, threads=1, **named)
            return model, None, [str(each.message) for each in said]
        except SetupError as error:
            return None, error, []


@pytest.mark.usefixtures("machine")
def test_what_compat_says_of_this_machine_is_what_load_does(bundle, shelf, capsys):
    key = shelf.public_key
    main(["compat", str(bundle), "--self", "--trust", key, "--format", "json"])
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    for name, verdict in verdicts(cell, [t.id for t in TARGETS.values()]).items():
        model, error, said = load(bundle, key, target=name)
        messages = [r["message"] for r in cell["reasons"] if r["variant"] == name]
        if verdict in USABLE:
            assert model.variant.id == name
            assert all(any(m in line for line in said) for m in messages)
        else:
            assert error.code in ("incompatible", "no-driver")
            assert f"({verdict})" in error.message
            assert all(message in error.message for message in messages)
    model, error, said = load(bundle, key)
    if cell["variant"] is None:
        assert f"({cell['verdict']})" in error.message
        return
    assert model.variant.id == cell["variant"]
    assert model.selection.fallback == cell["fallback"]
    assert any("cpu-fallback" in line for line in said) == cell["fallback"]
    _, error, _ = load(bundle, key, fallback=False)
    assert (error is not None) == cell["fallback"]
    refused = ["compat", str(bundle), "--self", "--trust", key, "--no-fallback"]
    assert main(refused) == (1 if cell["fallback"] else 0)
