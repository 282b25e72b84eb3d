"""A real bundle, compiled and signed once, for the verbs that read bundles."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.machine.target import Target

MODULE = """
module @aotc {
  func.func @scale(%x: tensor<?x2xf32>, %k: tensor<f32>)
      -> (tensor<?x2xf32>, tensor<f32>) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x2xf32>
    %e = tensor.empty(%n) : tensor<?x2xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>,
                       affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%x, %k : tensor<?x2xf32>, tensor<f32>) outs(%e : tensor<?x2xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      linalg.yield %p : f32
    } -> tensor<?x2xf32>
    return %y, %k : tensor<?x2xf32>, tensor<f32>
  }
  func.func @add(%a: tensor<3xi8>, %b: tensor<3xi8>) -> tensor<3xi8> {
    %s = arith.addi %a, %b : tensor<3xi8>
    return %s : tensor<3xi8>
  }
}
"""


def leaf(name: str, dtype: str, *shape: int | str) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


ENTRIES = [
    {
        "name": "scale",
        "kind": "infer",
        "inputs": [leaf("x", "f32", "batch", 2), leaf("k", "f32")],
        "arguments": {"dict": {"x": 0, "options": {"dict": {"k": 1}}}},
        "outputs": [leaf("y", "f32", "batch", 2), leaf("file", "f32")],
        "result": {"dict": {"scaled": {"tuple": [0, 1]}}},
        "reads": [],
        "updates": [],
    },
    {
        "name": "add",
        "kind": "infer",
        "inputs": [leaf("a", "u8", 3), leaf("b", "u8", 3)],
        "arguments": {"dict": {"a": 0, "b": 1}},
        "outputs": [leaf("sum", "u8", 3)],
        "result": 0,
        "reads": [],
        "updates": [],
    },
]


@pytest.fixture(scope="session")
def compile_module() -> Callable[[str], bytes]:
    """A function: the code of a bundle with the two entries, for a target."""
    compiler = pytest.importorskip("iree.compiler")
    tool = Path(compiler.__path__[0], "_mlir_libs/iree-compile")

    def compile_for(target: str) -> bytes:
        command = [tool, "-", *Target.parse(target).flags]
        return subprocess.run(
            command, input=MODULE.encode(), capture_output=True, check=True
        ).stdout

    return compile_for


@pytest.fixture(scope="session")
def module(compile_module: Callable[[str], bytes]) -> bytes:
    """The code of a bundle with the two entries, for any CPU."""
    return compile_module("vmvx")


class Shelf:
    """A folder with keys and bundles."""

    entries = ENTRIES

    def __init__(self, folder: Path, module: bytes) -> None:
        self.folder = folder
        self._module = module

    @property
    def public_key(self) -> str:
        return str(self.folder / "team.pub")

    def bundle(
        self,
        entries: list[dict[str, Any]] = ENTRIES,
        signer: Any = "team",
        self_check: list[dict[str, Any]] | None = None,
        largest_batch: int | None = None,
    ) -> str:
        """Write a bundle, signed by the team's key unless told otherwise."""
        from aotc.artifacts import Signer, write_bundle, write_key_pair
        from aotc.artifacts.vmfb import runtime_abi

        key = self.folder / "team.key"
        if not key.exists():
            write_key_pair(key)
        target = Target.parse("vmvx")
        manifest = {
            "schema": "aotc.manifest/1",
            "requires_features": [],
            "name": "toy",
            "version": "1.0",
            "source": {"kind": "mlir", "file": "toy.mlir", "sha256": "0" * 64},
            "toolchain": {"aotc": "0.1.0", "iree_compiler": {"version": "3.13.0"}},
            "precision": {},
            "symbols": {"batch": {"min": 1, "max": largest_batch, "multiple_of": 1}},
            "entry_points": entries,
            "states": [],
            "weights": [],
            "variants": [
                {
                    "id": target.id,
                    "file": "variants/vmvx.vmfb",
                    "backend": target.backend,
                    "priority": 0,
                    "target": target.to_json(),
                    "flags": list(target.flags),
                    "runtime_abi": runtime_abi(self._module),
                    "statistics": {},
                }
            ],
        }
        if self_check is not None:
            manifest["self_check"] = self_check
        signer = Signer.from_file(key) if signer == "team" else signer
        files: dict[str, bytes | Path] = {"variants/vmvx.vmfb": self._module}
        return str(write_bundle(self.folder, manifest, files, signer))


@pytest.fixture
def shelf(tmp_path: Path, module: bytes, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AOTC_THREADS", "1")
    return Shelf(tmp_path, module)
