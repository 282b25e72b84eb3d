"""States in files: to the bit and back, and nothing but a model's own states."""

import os
import stat
import subprocess
import sys

import iree.compiler.tools as compiler
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from aotc import runtime
from aotc.artifacts import vmfb, write_bundle
from aotc.core.dtypes import NAMES, to_numpy
from aotc.core.writing import atomic_write
from aotc.errors import InputError, SetupError
from aotc.machine.target import Target
from tests.refusals import refused

TARGET = Target.parse("cpu")
SHAPES = {"scalar": (), "row": (5,), "empty": (0, 3)}
LEAVES = [(f"{d}.{name}", d, s) for d in NAMES for name, s in SHAPES.items()]
OTHER = [("", "u32", (2,))]
STATES = {"all": LEAVES, "key": OTHER}


def _mlir_type(dtype, shape):
    element = "i1" if dtype == "bool" else dtype.replace("u", "i")
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def _state_code(state, leaves):
    types = [_mlir_type(dtype, shape) for _, dtype, shape in leaves]
    refs = [f"@{state}_{i}" for i in range(len(leaves))]
    zeros = [
        "false" if d == "bool" else "0.0" if d in ("f16", "bf16", "f32", "f64") else "0"
        for _, d, _ in leaves
    ]
    lines = [
        f"util.global private mutable {ref} = dense<{zero}> : {kind}"
        for ref, zero, kind in zip(refs, zeros, types, strict=True)
    ]
    results = ", ".join(f"%{i}" for i in range(len(leaves)))
    lines.append(f"func.func @{state}__read() -> ({', '.join(types)}) {{")
    lines += [
        f"  %{i} = util.global.load {ref} : {kind}"
        for i, (ref, kind) in enumerate(zip(refs, types, strict=True))
    ]
    lines.append(f"  return {results} : {', '.join(types)}\n}}")
    parameters = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(types))
    lines.append(f"func.func @{state}__write({parameters}) {{")
    lines += [
        f"  util.global.store %{i}, {ref} : {kind}"
        for i, (ref, kind) in enumerate(zip(refs, types, strict=True))
    ]
    return "\n".join([*lines, "  return\n}"])


CODE = "\n".join(
    [
        "module @aotc {",
        *(_state_code(name, leaves) for name, leaves in STATES.items()),
        "func.func @same(%x: tensor<2xf32>) -> tensor<2xf32> {",
        "  return %x : tensor<2xf32>\n}\n}",
    ]
)


def _state(name, leaves):
    tree = {"dict": {leaf: i for i, (leaf, _, _) in enumerate(leaves)}}
    return {
        "name": name,
        "read": f"{name}__read",
        "write": f"{name}__write",
        "leaves": [{"name": n, "dtype": d, "shape": [*s]} for n, d, s in leaves],
        "tree": tree if leaves[0][0] else 0,
    }


@pytest.fixture(scope="module")
def code():
    flags = [*TARGET.flags, "--iree-input-demote-f64-to-f32=false"]
    return compiler.compile_str(CODE, extra_args=flags)


@pytest.fixture
def make(code, signer, trust, tmp_path):
    """A model with these states, loaded."""

    def make(states=STATES, name="many", version="1.0.0"):
        x = {"name": "x", "dtype": "f32", "shape": [2]}
        data = {
            "schema": "aotc.manifest/1",
            "requires_features": [],
            "name": name,
            "version": version,
            "toolchain": {"iree_compiler": {"version": "3.13.0"}},
            "symbols": {},
            "entry_points": [
                {
                    "name": "same",
                    "kind": "infer",
                    "inputs": [x],
                    "arguments": {"dict": {"x": 0}},
                    "outputs": [x],
                    "result": 0,
                    "reads": [],
                    "updates": [],
                }
            ],
            "states": [_state(name, leaves) for name, leaves in states.items()],
            "weights": [],
            "variants": [
                {
                    "id": TARGET.id,
                    "file": "variants/cpu.vmfb",
                    "backend": TARGET.backend,
                    "target": TARGET.to_json(),
                    "runtime_abi": vmfb.runtime_abi(code),
                }
            ],
        }
        files = {"variants/cpu.vmfb": code}
        folder = tmp_path / f"{name}-{version}-{'-'.join(states)}.aotc"
        path = write_bundle(folder, data, files, signer, force=True)
        return runtime.load(path, trust=trust, threads=1)

    return make


def noise(seed=0):
    """Any bits at all, NaNs with payloads among them."""
    rng = np.random.default_rng(seed)

    def bits(dtype, shape):
        wanted = to_numpy(dtype)
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        raw = rng.bytes(wanted.itemsize * int(np.prod(shape)))
        return np.frombuffer(raw, wanted).reshape(shape).copy()

    return {name: bits(d, s) for name, d, s in LEAVES}, bits("u32", (2,))


def filled(model, seed=0):
    everything, key = noise(seed)
    model.write_state(everything, "all")
    model.write_state(key, "key")
    return model


def content(model):
    """The bytes of all states."""
    everything, key = model.read_state("all"), model.read_state("key")
    leaves = {**everything, "key": key}
    return {name: (a.dtype, a.shape, a.tobytes()) for name, a in leaves.items()}


def test_every_dtype_scalars_and_empty_arrays_come_back_to_the_bit(make, tmp_path):
    model = filled(make())
    before = content(model)
    model.save_state(tmp_path / "s.safetensors")
    other = make()
    assert content(other) != before
    other.load_state(str(tmp_path / "s.safetensors"))
    assert content(other) == before


def test_a_file_is_plain_safetensors_with_dotted_names_and_its_origin(make, tmp_path):
    model = filled(make())
    file = tmp_path / "s.safetensors"
    model.save_state(file, notes={"loop": "7"})
    arrays = load_file(file)
    assert set(arrays) == {"key", *(f"all.{name}" for name, _, _ in LEAVES)}
    np.testing.assert_array_equal(arrays["key"], model.read_state("key"))
    with safe_open(file, framework="np") as opened:
        notes = opened.metadata()
    assert {k: notes[k] for k in ("format", "model", "version", "loop")} == {
        "format": "aotc.state/1", "model": "many", "version": "1.0.0", "loop": "7"
    }  # fmt: skip
    assert len(notes["schema"]) == 64


def test_one_state_is_saved_and_loaded_alone(make, tmp_path):
    model = filled(make())
    before = content(model)
    one, both = tmp_path / "one.safetensors", tmp_path / "both.safetensors"
    model.save_state(one, name="key")
    model.save_state(both)
    for file in (one, both):
        other = filled(make(), seed=1)
        after = content(other)
        other.load_state(file, name="key")
        assert content(other) == {**after, "key": before["key"]}
    message = refused(InputError, "state-leaves", model.load_state, one)
    assert "holds key alone" in message
    refused(InputError, "unknown-state", model.save_state, one, name="keys")
    refused(InputError, "unknown-state", model.load_state, one, name="keys")


def test_a_later_version_of_the_model_takes_the_states(make, tmp_path):
    model = filled(make())
    model.save_state(tmp_path / "s.safetensors")
    later = make(version="2.0.0")
    later.load_state(tmp_path / "s.safetensors")
    assert content(later) == content(model)


def test_what_does_not_fit_changes_nothing(make, tmp_path):
    model = filled(make())
    file = tmp_path / "s.safetensors"
    model.save_state(file)
    with safe_open(file, framework="np") as opened:
        notes = opened.metadata()
    good = load_file(file)
    renamed = dict(good)
    renamed["all.f32.Row"] = renamed.pop("all.f32.row")
    missing = {k: v for k, v in good.items() if k != "all.f32.row"}
    cases = [
        (renamed, notes, "state-leaves", ["all.f32.Row", "did you mean 'all.f32.row'"]),
        (missing, notes, "state-leaves", ["all.f32.row missing"]),
        (good | {"new": good["key"]}, notes, "state-leaves", ["new not in the model"]),
        (good | {"key": good["key"].view("f4")}, notes, "state-dtype", ["u32", "f32"]),
        (good | {"key": good["key"][:1]}, notes, "state-shape", ["u32[2]", "u32[1]"]),
        (good, notes | {"schema": "0" * 64}, "bad-state-file", ["written with"]),
        (good, notes | {"format": "aotc.state/2"}, "bad-state-file", ["state/2"]),
        (good, notes | {"model": "x"}, "other-model", ["'many'", "'x'"]),
        (good, None, "bad-state-file", ["another kind"]),
    ]
    other = filled(make(), seed=1)
    before = content(other)
    for arrays, metadata, code, words in cases:
        save_file(arrays, file, metadata)
        message = refused(InputError, code, other.load_state, file)
        for word in [*words, str(file)]:
            assert word in message
    assert content(other) == before


def test_damaged_files_are_refused(make, tmp_path):
    model = filled(make())
    file = tmp_path / "s.safetensors"
    model.save_state(file)
    whole = file.read_bytes()
    before = content(model)
    for data in (b"", whole[:7], whole[:200], whole[:-1], whole + b"x", b"\0" * 99):
        file.write_bytes(data)
        refused(InputError, "bad-state-file", model.load_state, file)
    refused(InputError, "no-such-file", model.load_state, tmp_path / "none")
    refused(InputError, "no-such-file", model.load_state, tmp_path)
    assert content(model) == before


def test_a_failed_save_leaves_the_old_file(make, tmp_path, monkeypatch):
    model = filled(make())
    file = tmp_path / "s.safetensors"
    model.save_state(file)
    whole, entries = file.read_bytes(), sorted(tmp_path.iterdir())
    refused(
        SetupError, "cannot-write", model.save_state, tmp_path / "no" / "s.safetensors"
    )
    refused(SetupError, "cannot-write", model.save_state, file / "s.safetensors")
    (tmp_path / "folder").mkdir()
    refused(SetupError, "cannot-write", model.save_state, tmp_path / "folder")
    (tmp_path / "folder").rmdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space" in refused(SetupError, "cannot-write", model.save_state, file)
    assert file.read_bytes() == whole
    assert sorted(tmp_path.iterdir()) == entries


def test_files_get_the_usual_permissions(make, tmp_path):
    filled(make()).save_state(tmp_path / "s.safetensors")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(f.stat().st_mode) for f in tmp_path.glob("[sp]*")}
    assert len(modes) == 1


def test_a_model_without_states_says_so(make, tmp_path):
    model = make(states={})
    refused(InputError, "no-states", model.save_state, tmp_path / "s.safetensors")
    refused(InputError, "no-states", model.load_state, tmp_path / "s.safetensors")


def test_interrupted_writing_leaves_nothing(tmp_path):
    (tmp_path / "f").write_text("old")

    def interrupted():
        with atomic_write(tmp_path / "f") as aside:
            aside.write_text("half")
            raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, interrupted)
    assert [f.read_text() for f in tmp_path.iterdir()] == ["old"]


def test_equal_states_give_equal_bytes_in_every_process(bundle, signer, tmp_path):
    (tmp_path / "signer.pem").write_bytes(signer.public_pem)
    code = (
        "import sys; from aotc import runtime; "
        "model = runtime.load(sys.argv[1], trust=sys.argv[2], threads=1); "
        "model.save_state(sys.argv[3], notes={'a': '1', 'b': '2', 'c': '3'})"
    )
    for name in "xyz":
        arguments = [bundle, tmp_path / "signer.pem", tmp_path / name]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert len({(tmp_path / name).read_bytes() for name in "xyz"}) == 1


def test_refuses_a_file_whose_content_was_changed(model, tmp_path):
    path = tmp_path / "s.safetensors"
    model.save_state(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="changed or damaged") as caught:
        model.load_state(path)
    assert caught.value.code == "bad-state-file"
