"""A small manifest and bundle; nothing in it is code, as nothing here runs it."""

import pytest

from aotc.artifacts import keys, write_bundle
from aotc.artifacts.trust import Trust
from aotc.core import options

FILES = {
    "variants/a.vmfb": b"code for a",
    "variants/b.vmfb": b"code for b",
    "weights.irpa": bytes(range(256)) * 8,
    "notes.txt": b"",
}


def leaf(name, dtype, *shape):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def variant(name, priority, *features):
    return {
        "id": name,
        "file": f"variants/{name}.vmfb",
        "backend": "llvm-cpu",
        "priority": priority,
        "target": {
            "name": name,
            "arch": "x86_64",
            "cpu_features_required": list(features),
        },
        "flags": [],
        "runtime_abi": {
            "iree_vm_bytecode": [17, 0],
            "vm_feature_bits": 12,
            "module_deps": {"hal": 7},
            "executable_formats": ["embedded-elf-x86_64"],
            "runtime_tested": ["3.13.0"],
        },
    }


@pytest.fixture
def data():
    """The JSON of a manifest, without `files`."""
    return {
        "schema": "aotc.manifest/1",
        "requires_features": [],
        "name": "small",
        "version": "1.0.0",
        "channel": "release",
        "toolchain": {"iree_compiler": {"version": "3.13.0"}},
        "symbols": {"batch": {"min": 1, "max": None, "multiple_of": 1}},
        "entry_points": [
            {
                "name": "predict",
                "kind": "infer",
                "inputs": [leaf("x", "f32", "batch", 4)],
                "arguments": {"dict": {"x": 0}},
                "outputs": [leaf("y", "f32", "2*batch+1", 3)],
                "result": 0,
                "reads": ["weights"],
                "updates": [],
            }
        ],
        "states": [
            {
                "name": "state",
                "read": "state__read",
                "write": "state__write",
                "leaves": [leaf("a", "f32", 3)],
                "tree": {"dict": {"a": 0}},
            }
        ],
        "weights": [{"file": "weights.irpa", "format": "irpa", "scope": "model"}],
        "variants": [variant("a", 0), variant("b", 1, "avx2")],
    }


@pytest.fixture
def manifest_data(data):
    """The JSON of a whole manifest."""
    file = {"role": "module", "media_type": "x/y", "size": 1, "sha256": "0" * 64}
    return data | {"files": [file | {"path": path} for path in FILES]}


@pytest.fixture(scope="session")
def signer():
    return keys.generate()


@pytest.fixture(scope="session")
def trust(signer):
    return Trust.of(signer.public_pem)


@pytest.fixture
def bundle(data, signer, tmp_path):
    return write_bundle(tmp_path / "out", data, FILES, signer)


@pytest.fixture(autouse=True)
def home(tmp_path):
    with options.override("AOTC_HOME", str(tmp_path / "home")):
        yield tmp_path / "home"


@pytest.fixture
def contents():
    return dict(FILES)
