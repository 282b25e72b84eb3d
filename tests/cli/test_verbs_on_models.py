"""Every verb on every kind of model: examples, and a file of each importer.

Defects hide where a verb meets a model that nobody tried it on: gradients, states,
loops, symbolic sizes. CI crosses all verbs with two small models, and
`pytest -m slow tests/cli/test_verbs_on_models.py` with all others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.artifacts.manifest import EntryPoint, Leaf, Manifest
from aotc.artifacts.shapes import SizeExpression
from aotc.cli.main import main
from aotc.core import dtypes
from aotc.pipeline import IR_STAGES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/model.py"))


def write_onnx(file: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    weights = helper.make_tensor("w", real, [3, 2], [1, -1, 2, 0.5, 0, 3])
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", real, ["n", 3])],
        [helper.make_tensor_value_info("y", real, ["n", 2])],
        [weights],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), file)


def write_pt2(file: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
    batch = torch.export.Dim("batch", max=64)
    example = (torch.ones(4, 3),)
    shapes = {"input": {0: batch}}
    torch.export.save(
        torch.export.export(net.eval(), example, dynamic_shapes=shapes), file
    )


def write_jax(file: Path) -> None:
    jax = pytest.importorskip("jax")
    shape = jax.export.symbolic_shape("n, 3")
    taken = jax.ShapeDtypeStruct(shape, np.float32)
    made = jax.export.export(jax.jit(lambda x: jax.nn.softmax(x * 2)))(taken)
    file.write_bytes(made.serialize())


def write_stablehlo(file: Path) -> None:
    file.write_text("""\
module {
  func.func public @main(%x: tensor<4x3xf32>, %w: tensor<3x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.tanh %0 : tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}
""")


WRITERS: dict[str, Callable[[Path], None]] = {
    "net.onnx": write_onnx,
    "net.pt2": write_pt2,
    "net.jax": write_jax,
    "net.mlir": write_stablehlo,
}
# a training step with a scan, and a file of an importer
IN_CI = ("lstm", "net.onnx")


@dataclass
class Built:
    """A model, its bundle and the IR of its stages."""

    source: str
    bundle: Path
    stages: Path

    @property
    def manifest(self) -> Manifest:
        """What the bundle says of itself."""
        return Manifest.read((self.bundle / "manifest.json").read_bytes())

    @property
    def has_gradients(self) -> bool:
        """Whether an entry takes a derivative."""
        return "graph.vjp" in (self.stages / "graph.mlir").read_text()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a development key of its own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("AOTC_HOME", str(folder))
        patch.setenv("AOTC_THREADS", "1")
        yield folder


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow)
        for name in (*EXAMPLES, *WRITERS)
    ],
)
def built(
    request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    """One of the models, built with all its IR dumped."""
    folder = tmp_path_factory.mktemp("built")
    source = ROOT / "examples" / request.param / "model.py"
    if request.param in WRITERS:
        source = folder / request.param
        WRITERS[request.param](source)
    arguments = ["-o", str(folder), "--dump", str(folder / "ir"), "--quiet"]
    assert main(["build", str(source), *arguments]) == 0
    (bundle,) = folder.glob("*.aotc")
    return Built(str(source), bundle, folder / "ir")


@pytest.fixture(autouse=True)
def _checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build of `built` compares its code with the reference; others need not."""
    monkeypatch.setenv("AOTC_SELF_CHECK", "off")


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run a verb that succeeds; its JSON."""

    def ask(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        code = main([*arguments, "--format", "json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        document: dict[str, Any] = json.loads(printed.out)
        return document

    return ask


Ask = Callable[..., dict[str, Any]]


def test_a_model_that_builds_is_explained_so(built: Built, answer: Ask) -> None:
    assert answer("explain", built.source)["builds"]


def test_a_bundle_is_shown_and_verified(built: Built, answer: Ask) -> None:
    assert answer("inspect", str(built.bundle))["verification"]["verified"]
    assert answer("verify", str(built.bundle))["verified"]


def test_every_entry_runs_and_its_states_are_kept(
    built: Built, answer: Ask, tmp_path: Path
) -> None:
    manifest = built.manifest
    states = ["--save-state", str(tmp_path / "s.safetensors")] * bool(manifest.states)
    for name, point in manifest.entry_points.items():
        given = inputs_of(manifest, point, tmp_path)
        out = tmp_path / f"{name}.npz"
        answer(
            "run", str(built.bundle), "--entry", name, *given, "-o", str(out), *states
        )
        with np.load(out) as outputs:
            assert sorted(outputs) == sorted(leaf.name for leaf in point.outputs)
        if states:
            load = ["--load-state", states[1]]
            answer("run", str(built.bundle), "--entry", name, *given, *load)


def test_every_entry_can_be_measured(built: Built, answer: Ask) -> None:
    for name in built.manifest.entry_points:
        found = answer("bench", str(built.bundle), name, "--calls", "1")
        assert found["bundles"][0]["latency_ms"]["count"] == 1


def test_every_entry_runs_in_a_loop(built: Built, answer: Ask, tmp_path: Path) -> None:
    manifest = built.manifest
    for name, point in manifest.entry_points.items():
        sizes = [leaf.shape[0] for leaf in point.inputs if leaf.shape]
        if not sizes:
            continue
        looped = [x for x in point.inputs if x.shape and x.shape[0] == sizes[0]]
        rest = [x for x in point.inputs if x not in looped]
        rows = {x.name: rows_of(manifest, x, sizes[0]) for x in looped}
        np.savez(tmp_path / "data.npz", **rows)
        loop = ["--loop", str(tmp_path / "data.npz"), "--steps", "2"]
        if isinstance(sizes[0], str):
            size = symbols(manifest)[sizes[0]]
            loop += ["--batch-size", str(size)]
        if not point.updates:
            loop += ["--output", str(tmp_path / f"{name}.npz")]
        given = save_inputs(manifest, rest, tmp_path)
        done = answer("run", str(built.bundle), "--entry", name, *given, *loop)
        assert done["steps"] == 2


def test_every_stage_can_be_printed_checked_and_continued(
    built: Built, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stop = ["--stop-after", "variant", "--quiet"]

    def end_of(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["build", *arguments, *stop]) == 0
        return capsys.readouterr().out

    end = end_of(built.source, "--dump", str(tmp_path))
    for stage in IR_STAGES:
        (file,) = tmp_path.rglob(f"{stage}.mlir")
        assert main(["opt", str(file), "--verify-only"]) == 0
        assert end_of(str(file)) == end


def test_a_build_can_stop_after_the_compiler(
    built: Built, answer: Ask, tmp_path: Path
) -> None:
    arguments = ["-o", str(tmp_path), "--stop-after", "vmfb"]
    document = answer("build", built.source, *arguments)
    assert document["bundle"] is None
    assert document["variants"][0]["bytes"] > 0
    assert not list(tmp_path.iterdir())


def test_gradients_are_certified(
    built: Built, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["build", built.source, "--certify-gradients", "-o", str(tmp_path)]
    expected = 0 if built.has_gradients else 2
    assert main(arguments) == expected, capsys.readouterr().err
    if expected:
        assert "[no-gradients]" in capsys.readouterr().err


def test_a_budget_of_memory_is_kept_or_refused_with_a_reason(
    built: Built, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["build", built.source, "--peak-memory", "64GiB", "-o", str(tmp_path)]
    code = main(arguments)
    said = capsys.readouterr().err
    assert code == 0 or any(
        f"[{c}]" in said for c in ("symbolic-memory", "unknown-memory")
    )
    assert code in (0, 2)


@pytest.mark.parametrize("more", [[], ["--bisect"]])
def test_the_compiled_model_agrees_with_its_source(
    built: Built, answer: Ask, more: list[str]
) -> None:
    assert answer("parity", built.source, *more)["passed"]


def test_a_bundle_states_its_parity(built: Built, answer: Ask, tmp_path: Path) -> None:
    document = answer("build", built.source, "--parity", "-o", str(tmp_path))
    entries = {row["entry"] for row in document["parity"]}
    assert entries == set(built.manifest.entry_points)


@pytest.mark.parametrize("verb", ["doctor", "ops", "targets"])
def test_what_needs_no_model_answers(home: Path, answer: Ask, verb: str) -> None:
    assert answer(verb)["schema"] == f"aotc.{verb}/1"


# ---- inputs -------------------------------------------------------------------------


def symbols(manifest: Manifest) -> dict[str, int]:
    """A small size for each symbol, as its contract allows."""
    return {
        name: -(-max(symbol.min, 2) // symbol.multiple_of) * symbol.multiple_of
        for name, symbol in manifest.symbols.items()
    }


def array(manifest: Manifest, leaf: Leaf, shape: tuple[int, ...]) -> np.ndarray:
    """Small floats; zeros for what may be an index, a key or a mask."""
    dtype = dtypes.to_numpy(leaf.dtype)
    if not dtypes.is_float(leaf.dtype):
        return np.zeros(shape, dtype)
    return np.random.default_rng(0).normal(scale=0.1, size=shape).astype(dtype)


def shape_of(manifest: Manifest, leaf: Leaf) -> tuple[int, ...]:
    sizes = symbols(manifest)
    return tuple(
        size if isinstance(size, int) else SizeExpression.parse(size).value(sizes)
        for size in leaf.shape
    )


def rows_of(manifest: Manifest, leaf: Leaf, size: int | str) -> np.ndarray:
    """Rows for two batches."""
    first, *rest = shape_of(manifest, leaf)
    return array(manifest, leaf, (2 * first, *rest))


def save_inputs(manifest: Manifest, leaves: list[Leaf], folder: Path) -> list[str]:
    """Options that give these inputs."""
    given = []
    for number, leaf in enumerate(leaves):
        file = folder / f"input-{number}.npy"
        np.save(file, array(manifest, leaf, shape_of(manifest, leaf)))
        given += ["-i", f"{leaf.name}=@{file}"]
    return given


def inputs_of(manifest: Manifest, point: EntryPoint, folder: Path) -> list[str]:
    """Options that give all inputs of an entry."""
    return save_inputs(manifest, list(point.inputs), folder)
