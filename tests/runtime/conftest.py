"""A small model in MLIR, compiled once, and bundles made of it."""

import iree.compiler.tools as compiler
import iree.runtime as iree
import numpy as np
import pytest

from aotc.artifacts import vmfb, write_bundle
from aotc.artifacts.keys import generate
from aotc.artifacts.trust import Trust
from aotc.core import options
from aotc.machine.target import Target

MODULE = """
module @aotc {
  util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4x3xf32>
  util.global private mutable @a = #flow.parameter.named<"model"::"a"> : tensor<3xf32>
  util.global private mutable @n = #flow.parameter.named<"model"::"n"> : tensor<i32>

  func.func @predict(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %x, %c0 : tensor<?x4xf32>
    %w = util.global.load @w : tensor<4x3xf32>
    %z = arith.constant 0.0 : f32
    %e = tensor.empty(%d) : tensor<?x3xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
    %r = linalg.matmul ins(%x, %w : tensor<?x4xf32>, tensor<4x3xf32>)
      outs(%f : tensor<?x3xf32>) -> tensor<?x3xf32>
    return %r : tensor<?x3xf32>
  }
  func.func @train(%x: tensor<3xf32>, %scale: tensor<f32>) -> tensor<3xf32> {
    %a = util.global.load @a : tensor<3xf32>
    %n = util.global.load @n : tensor<i32>
    %one = arith.constant dense<1> : tensor<i32>
    %m = arith.addi %n, %one : tensor<i32>
    %s = tensor.extract %scale[] : tensor<f32>
    %e = tensor.empty() : tensor<3xf32>
    %y = linalg.fill ins(%s : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
    %xs = arith.mulf %x, %y : tensor<3xf32>
    %r = arith.addf %a, %xs : tensor<3xf32>
    util.global.store %r, @a : tensor<3xf32>
    util.global.store %m, @n : tensor<i32>
    return %r : tensor<3xf32>
  }
  func.func @state__read() -> (tensor<3xf32>, tensor<i32>) {
    %a = util.global.load @a : tensor<3xf32>
    %n = util.global.load @n : tensor<i32>
    return %a, %n : tensor<3xf32>, tensor<i32>
  }
  func.func @state__write(%a: tensor<3xf32>, %n: tensor<i32>) {
    util.global.store %a, @a : tensor<3xf32>
    util.global.store %n, @n : tensor<i32>
    return
  }
  func.func @same(%b: tensor<?xi1>, %u: tensor<?xi8>, %h: tensor<?xf16>,
      %g: tensor<?xbf16>, %l: tensor<i64>)
      -> (tensor<?xi1>, tensor<?xi8>, tensor<?xf16>, tensor<?xbf16>, tensor<i64>) {
    return %b, %u, %h, %g, %l
      : tensor<?xi1>, tensor<?xi8>, tensor<?xf16>, tensor<?xbf16>, tensor<i64>
  }
  func.func @echo(%x: tensor<?xf32>) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
  func.func @echo__k_4(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = arith.addf %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""
TARGET = Target.parse("cpu")
FLAGS = [
    *TARGET.flags,
    "--iree-opt-level=O2",
    "--iree-opt-strip-assertions=false",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-llvmcpu-debug-symbols=false",
]
MODULE_FILE = "variants/cpu.vmfb"
WEIGHTS = {
    "w": np.arange(12, dtype=np.float32).reshape(4, 3),
    "a": np.array([1, 2, 3], np.float32),
    "n": np.array(0, np.int32),
}


def leaf(name, dtype, *shape):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def entry(name, inputs, outputs, **more):
    arguments = {"dict": {i["name"]: index for index, i in enumerate(inputs)}}
    return {
        "name": name,
        "kind": "infer",
        "inputs": inputs,
        "arguments": arguments,
        "outputs": outputs,
        "result": 0,
        "reads": ["weights"],
        "updates": [],
    } | more


SAME = [
    leaf("b", "bool", "n"),
    leaf("u", "u8", "n"),
    leaf("h", "f16", "n"),
    leaf("g", "bf16", "m"),
    leaf("l", "i64"),
]
PARTS = {"dict": {"bits": {"list": [0, 1]}, "halves": {"tuple": [2, 3]}, "l": 4}}
STATE = [leaf("a", "f32", 3), leaf("n", "i32")]


def manifest_data(module):
    return {
        "schema": "aotc.manifest/1",
        "requires_features": [],
        "name": "small",
        "version": "1.0.0",
        "toolchain": {"aotc": "0.1.0", "iree_compiler": {"version": "3.13.0"}},
        "symbols": {
            "batch": {"min": 0, "max": 64, "multiple_of": 1},
            "n": {"min": 2, "max": None, "multiple_of": 2},
            "m": {"min": 1},
            "k": {"min": 0, "max": None},
        },
        "entry_points": [
            entry(
                "predict",
                [leaf("x", "f32", "batch", 4)],
                [leaf("y", "f32", "batch", 3)],
            ),
            entry(
                "train",
                [leaf("x", "f32", 3), leaf("scale", "f32")],
                [leaf("y", "f32", 3)],
                kind="train-step",
                reads=["state"],
                updates=["state"],
            ),
            entry(
                "same",
                SAME,
                SAME,
                arguments={"dict": {"parts": PARTS}},
                result=PARTS,
            ),
            entry("echo", [leaf("x", "f32", "k")], [leaf("y", "f32", "k")]),
        ],
        "states": [
            {
                "name": "state",
                "read": "state__read",
                "write": "state__write",
                "leaves": STATE,
                "tree": {"dict": {"params": {"dict": {"a": 0}}, "step": 1}},
            }
        ],
        "weights": [{"file": "weights.irpa", "format": "irpa", "scope": "model"}],
        "variants": [
            {
                "id": TARGET.id,
                "file": MODULE_FILE,
                "backend": TARGET.backend,
                "priority": 0,
                "target": TARGET.to_json(),
                "flags": FLAGS,
                "runtime_abi": vmfb.runtime_abi(module),
            }
        ],
    }


@pytest.fixture(scope="session")
def module():
    return compiler.compile_str(MODULE, extra_args=FLAGS)


@pytest.fixture
def manifest(module):
    """The JSON of a manifest, for tests that change something in it."""
    return manifest_data(module)


@pytest.fixture(scope="session")
def w():
    return WEIGHTS["w"]


@pytest.fixture(scope="session")
def files(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "weights.irpa"
    iree.save_archive_file(WEIGHTS, path)
    return {MODULE_FILE: module, "weights.irpa": path}


@pytest.fixture(scope="session")
def signer():
    return generate()


@pytest.fixture(scope="session")
def trust(signer):
    return Trust.of(signer.public_pem)


@pytest.fixture(scope="session")
def bundle(module, files, signer, tmp_path_factory):
    return write_bundle(
        tmp_path_factory.mktemp("out"), manifest_data(module), files, signer
    )


@pytest.fixture
def model(bundle, trust):
    from aotc.runtime import load

    return load(bundle, trust=trust, threads=1)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory):
    with options.override("AOTC_HOME", str(tmp_path_factory.mktemp("home"))):
        yield
