"""Targets: names, the table, and that the compiler accepts every row."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from aotc import backend
from aotc.core import options
from aotc.errors import InputError, SetupError
from aotc.machine.target import TARGETS, Target, for_bytes

MODULE = """
module @m {
  func.func @f(%x: tensor<?x64xf32>, %w: tensor<64x8xf32>)
      -> (tensor<?x8xf32>, tensor<?xf32>) {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %n = tensor.dim %x, %c0 : tensor<?x64xf32>
    %e = tensor.empty(%n) : tensor<?x8xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
    %m = linalg.matmul ins(%x, %w : tensor<?x64xf32>, tensor<64x8xf32>)
        outs(%z : tensor<?x8xf32>) -> tensor<?x8xf32>
    %s = linalg.softmax dimension(1) ins(%m : tensor<?x8xf32>)
        outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
    %v = tensor.empty(%n) : tensor<?xf32>
    %l = linalg.fill ins(%low : f32) outs(%v : tensor<?xf32>) -> tensor<?xf32>
    %r = linalg.reduce ins(%x : tensor<?x64xf32>) outs(%l : tensor<?xf32>)
        dimensions = [1] (%a: f32, %b: f32) {
      %q = arith.maximumf %a, %b : f32
      linalg.yield %q : f32
    }
    return %s, %r : tensor<?x8xf32>, tensor<?xf32>
  }
}
"""


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_parse_reads_back_what_str_printed(target: Target) -> None:
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_id_can_be_a_file_name(target: Target) -> None:
    assert set(target.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda", "cuda:sm_80"),
        ("x86-64-v3", "x86_64-v3"),
        (" X86_64-V3 ", "x86_64-v3"),
        ("arm64", "aarch64"),
    ],
)
def test_aliases_mean_a_row_of_the_table(text: str, name: str) -> None:
    assert str(Target.parse(text)) == name


@pytest.mark.parametrize(
    ("machine", "names"),
    [
        ("x86_64", ["x86_64-v3", "x86_64-v4"]),
        ("AMD64", ["x86_64-v3", "x86_64-v4"]),
        ("arm64", ["aarch64", "aarch64-v8.2"]),
        ("riscv64", ["riscv64"]),
    ],
)
def test_cpu_means_the_common_levels_of_the_build_machine(
    monkeypatch: pytest.MonkeyPatch, machine: str, names: list[str]
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert list(map(str, Target.named("cpu"))) == names
    assert str(Target.parse("cpu")) == names[0]


def test_native_means_the_level_of_this_machine_and_never_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aotc.machine.target.cpu_level", lambda: "x86_64-v2")
    assert list(map(str, Target.named("native"))) == ["x86_64-v2"]
    monkeypatch.setattr("aotc.machine.target.cpu_level", lambda: "sparc64")
    with pytest.raises(SetupError) as caught:
        Target.named("native")
    assert caught.value.code == "unknown-host"


def test_the_default_can_be_set_and_counts_each_target_once() -> None:
    with options.override("AOTC_TARGETS", "vmvx,x86_64-v3, cuda vmvx"):
        found = [*map(str, Target.default())]
        assert found == ["vmvx", "x86_64-v3", *map(str, Target.named("cuda"))]
    with options.override("AOTC_TARGETS", ""):
        assert Target.default() == Target.named("cpu")
    with options.override("AOTC_TARGETS", "x86"), pytest.raises(InputError) as caught:
        Target.default()
    assert caught.value.where == "AOTC_TARGETS"


def test_refuses_unknown_target_and_names_the_close_ones() -> None:
    with pytest.raises(InputError) as caught:
        Target.parse("cuda:sm_90")
    assert caught.value.code == "unknown-target"
    assert "cuda:sm_89" in (caught.value.hint or "")
    assert "vmvx" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "host", "cuda:", "powerpc64le", "x86_64-v3,cuda"])
def test_refuses_names_that_are_not_in_the_table(text: str) -> None:
    with pytest.raises(InputError):
        Target.parse(text)


def test_lists_targets_and_texts_each_once() -> None:
    v4 = Target.parse("x86_64-v4")
    assert Target.listed(["x86_64-v4", v4, "vmvx"]) == (v4, Target.parse("vmvx"))
    assert Target.listed("cpu") == Target.named("cpu")
    assert Target.listed(v4) == (v4,)
    assert Target.listed([]) == ()


@pytest.mark.parametrize("given", ["x86", ["x86"], [None], [3]])
def test_refuses_to_list_what_is_no_target(given: Any) -> None:
    with pytest.raises(InputError) as refused:
        Target.listed(given)
    assert refused.value.code == "unknown-target"
    assert refused.value.hint


def test_each_cpu_level_requires_what_the_one_below_requires() -> None:
    v2, v3, v4 = (
        set(TARGETS[f"x86_64-v{level}"].cpu_features_required) for level in (2, 3, 4)
    )
    assert v2 < v3 < v4


def test_cuda_rows_say_which_driver_reads_their_ptx() -> None:
    for target in TARGETS.values():
        if target.backend == "cuda":
            facts = target.to_json()
            assert {"sm", "ptx_isa", "min_cuda_driver_api"} <= facts.keys()


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_compiler_accepts_the_flags_of(target: Target, tmp_path: Path) -> None:
    """In a process of its own: a target that IREE does not know crashes it."""
    module = tmp_path / "f.vmfb"
    done = _compile(target, "-o", str(module))
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"warning" not in done.stderr.lower()
    if target.ptx_isa and not str(target.sm).endswith("a"):  # whose own kernels need it
        assert f".version {target.ptx_isa}\n".encode() in module.read_bytes()


@pytest.mark.parametrize(
    "target", [t for t in TARGETS.values() if t.cpu_features_required], ids=str
)
def test_compiled_code_uses_no_feature_beyond_those_required(target: Target) -> None:
    done = _compile(target, "--compile-to=executable-sources")
    listed = done.stdout.split(b'cpu_features = "')[1].split(b'"')[0].decode()
    used = {feature.lstrip("+") for feature in listed.split(",")}
    # What every x86-64 has, what SSE4.2 brings, and an ABI choice that is no ISA.
    free = {"cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87", "crc32", "reserve-x18"}
    assert used - free == set(target.cpu_features_required)


@pytest.mark.parametrize("level", ["x86_64-v3", "x86_64-v4"])
def test_what_does_not_fill_a_vector_is_peeled_off(level: str) -> None:
    """IREE masks it with AVX-512, for which wider vectors were slower than AVX2."""
    done = _compile(Target.parse(level), "--compile-to=executable-configurations")
    assert b"enable_loop_peeling" in done.stdout


def test_all_plugins_of_iree_are_known() -> None:
    done = _compile(Target.parse("vmvx"), "--iree-list-plugins")
    _, *names = done.stdout.decode().split("\n")
    assert sorted(name.strip() for name in names if name) == sorted(backend.PLUGINS)


@pytest.mark.parametrize("name", ["x86_64-v3", "vulkan"])
def test_code_is_the_same_without_the_plugins_that_a_target_does_not_use(
    name: str,
) -> None:
    target = Target.parse(name)
    without = [x for x in backend.target_flags(target) if "plugin" in x]
    assert len(without) >= 7
    code = [_compile(target, "-o", "-", *flags) for flags in ([], without)]
    assert code[0].stdout
    assert code[0].stdout == code[1].stdout


def _compile(target: Target, *flags: str) -> subprocess.CompletedProcess[bytes]:
    compiler = pytest.importorskip("iree.compiler")
    program = Path(compiler.__path__[0], "_mlir_libs/iree-compile")
    return subprocess.run(
        [program, "-", "--iree-opt-level=O2", *target.flags, *flags],
        input=MODULE.encode(),
        capture_output=True,
    )


def test_programs_with_weights_of_bytes_get_the_level_that_multiplies_them():
    names = [str(each) for each in map(Target.parse, ("x86_64-v3", "x86_64-v4"))]
    found = for_bytes([Target.parse(name) for name in names])
    assert [*map(str, found)] == [*names, "x86_64-v4-dot"]
    others = [Target.parse("x86_64-v3"), Target.parse("vmvx")]
    assert for_bytes(others) == tuple(others)


def test_no_flags_are_tried_twice_where_vectors_are_too_large() -> None:
    for name in ("x86_64-v3", "x86_64-v4"):
        flags = backend.target_flags(Target.parse(name))
        tried = [tuple(each) for each in backend.with_fewer_vectors(flags)]
        assert tried[0] == flags
        assert len({*tried}) == len(tried) == (2 if name == "x86_64-v3" else 3)
