"""The pipeline in process: stages, IR in and out, and what a build reports."""

import re
from pathlib import Path

import numpy
import pytest

import aotc
from aotc import importers, pipeline
from aotc.artifacts import schema
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.passes import PASSES
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.pipeline import output
from aotc.pipeline.request import STOPS
from aotc.programs import program
from aotc.programs.program import GRAPH_STAGES
from aotc.tracing import title
from aotc.worker.rewrites import HardwareKind, rewrites_for

MODEL = """
import aotc
import aotc.numpy as np

scale = aotc.Weights({"by": np.full((4,), 2.0)})

@aotc.entry(x=aotc.Spec(("batch", 4)))
def f(scale, x):
    return np.exp(x) * scale["by"]
"""


@pytest.fixture
def model(tmp_path):
    """A small model file."""
    (tmp_path / "small.py").write_text(MODEL)
    return tmp_path / "small.py"


LOWERING = "simplify, lower-to-linalg, update-in-place"


def test_a_stage_is_printed_edited_and_fed_back(model):
    report = pipeline.build(model, stop_after="graph")
    assert report.bundle is None
    edited = report.ir.replace("graph.exp", "graph.tanh")
    records = []
    lowered = pipeline.optimize(edited, LOWERING, finished=records.append)
    assert "math.tanh" in lowered
    assert not re.search(r"= \"?graph\.", lowered)
    assert [record.name for record in records] == LOWERING.split(", ")


_FOR_GRAPHS = {
    "advance-collectives",
    "fuse-loops",
    "join-updates",
    "share-steps",
    "autodiff",
    "compose-ops",
    "cse",
    "decompose",
    "fold-parameters",
    "fold-scales",
    "split-products",
    "split-reductions",
    "fuse-regions",
    "hoist-invariants",
    "inline",
    "join-products",
    "join-steps",
    "gather-packed",
    "drop-general",
    "move-bytes",
    "delay-dequantization",
    "pad-entries",
    "prune",
    "record-devices",
    "record-intermediates",
    "recover-attention",
    "recover-ops",
    "integer-products",
    "integer-sums",
    "keep-quantized",
    "relax-order",
    "rotate-pairs",
    "round-rows",
    "scale-sums",
    "scale-weights",
    "mix-precision",
    "set-io-layout",
    "simplify",
    "sink-reshapes",
    "sink-transposes",
    "specialize",
    "tabulate-bytes",
    "widen-scales",
}


_OPTIONS = {
    "mix-precision": "{compute=bf16}",
    "rematerialize": "{entry=f,bytes=9}",
    "set-io-layout": "{layout=nhwc}",
}


@pytest.mark.parametrize("name", PASSES)
def test_passes_of_lowered_ir_are_refused_before_the_model_is_looked_at(name):
    """Those of the graph are not: the next to be refused is the model."""
    options = _OPTIONS.get(name, "")
    is_for_graphs = name in _FOR_GRAPHS
    with pytest.raises(InputError) as caught:
        pipeline.build("missing.py", passes=f"autodiff, {name}{options}")
    assert caught.value.code == ("no-such-file" if is_for_graphs else "bad-option")


def test_what_the_stages_of_a_graph_are_is_said_once():
    kept = [all(each.keeps_graph for each in stage.passes()) for stage in PASS_STAGES]
    pairs = zip(PASS_STAGES, kept, strict=True)
    assert ("graph", *(stage.name for stage, is_one in pairs if is_one)) == GRAPH_STAGES


def test_every_stage_before_the_compiler_can_be_the_last(model):
    for stage, word in (
        ("graph", "graph.exp"),
        ("optimized", "graph.exp"),
        ("linalg", "linalg.generic"),
    ):
        report = pipeline.build(model, stop_after=stage)
        assert word in report.ir
        assert stage in report.stages


def test_people_get_a_form_of_their_own_of_graph_ir(model):
    report = pipeline.build(model, stop_after="optimized", readable=True)
    assert "func f(" in report.ir
    assert "f32[batch, 4]" in report.ir
    assert "small.py:9" in report.ir
    with pytest.raises(InputError, match="only graph IR"):
        pipeline.build(model, stop_after="linalg", readable=True)


def test_the_dump_holds_every_stage_and_every_pass(model, tmp_path):
    on_vmvx = {"targets": [Target.parse("vmvx")], "dump": tmp_path / "ir"}
    pipeline.build(model, stop_after="variant", **on_vmvx)
    names = {file.name for file in (tmp_path / "ir").iterdir()}
    assert {"graph.mlir", "optimized.mlir"} <= names
    names = {file.name for file in (tmp_path / "ir" / "vmvx").iterdir()}
    assert {"regions.mlir", "linalg.mlir", "variant.mlir"} <= names
    passes = sorted(f.name for f in (tmp_path / "ir" / "optimized-passes").iterdir())
    assert passes[1:3] == ["02-autodiff.mlir", "03-inline.mlir"]


def test_the_dump_holds_what_is_rewritten_on_the_side_of_iree(model, tmp_path):
    on_vmvx = {"targets": [Target.parse("vmvx")], "dump": tmp_path / "ir"}
    pipeline.build(model, stop_after="vmfb", cache=False, **on_vmvx)
    files = sorted((tmp_path / "ir" / "vmvx" / "vmfb-passes").iterdir())
    assert [file.name for file in files] == [
        f"{number:02d}-{each.name}.mlir"
        for number, each in enumerate(rewrites_for(HardwareKind.CPU), 1)
    ]
    phases = "util.func", "stream.", "vm.func"
    for file, expected in zip(files, phases, strict=True):
        assert expected in file.read_text()


def test_a_report_says_what_the_build_cost(model, tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    report = pipeline.build(model, targets=["vmvx"], output=tmp_path)
    document = report.to_json()
    assert set(document["seconds"]) == {
        "graph", "optimized", "regions", "linalg", "variant", "vmfb", "self-check",
        "bundle", "total",
    }  # fmt: skip
    assert document["peak_bytes"] > 0
    variant = document["variants"][0]
    assert variant["statistics"]["dispatches"] >= 1
    assert variant["peak_bytes"] > 0
    shared, (own,) = document["passes"], document["variant_passes"].values()
    passes = [
        *map(str, all_passes()),
        *(each.name for each in rewrites_for(HardwareKind.CPU)),
    ]
    assert [p["pass"] for p in [*shared, *own]] == passes
    assert report.bundle.name == "small-1.0.0.aotc"


@pytest.mark.parametrize(
    ("text", "code"),
    [("this is no IR", "bad-ir"), ("func.func @f() {", "bad-ir")],
)
def test_text_that_is_no_ir_is_refused(text, code):
    with pytest.raises(InputError) as caught:
        pipeline.optimize(text, "")
    assert caught.value.code == code


COUNTER = """
import aotc
import aotc.numpy as np
{declared}
count = aotc.State(np.zeros(3))

@aotc.entry(x=aotc.Spec(("n", 3)))
def add(count, x):
    return count + x.sum(0)
"""


def _title(folder, declared="", **given):
    folder.mkdir(exist_ok=True)
    (folder / "model.py").write_text(COUNTER.format(declared=declared))
    program = importers.load(folder / "model.py")
    given = {"name": None, "version": None, **given}
    return output.bundle_title(folder / "model.py", program, **given)


def test_a_bundle_has_the_name_that_is_given_else_declared_else_the_files(tmp_path):
    both = 'aotc.bundle(name="counter", version="2.1")'
    assert _title(tmp_path / "a", both) == ("counter", "2.1")
    assert _title(tmp_path / "a", both, version="3") == ("counter", "3")
    assert _title(tmp_path / "a", both, name="mine") == ("mine", "2.1")
    assert _title(tmp_path / "a", 'aotc.bundle(name="one")') == ("one", "1.0.0")
    assert _title(tmp_path / "a") == _title(tmp_path / "b") == ("model", "1.0.0")


@pytest.mark.parametrize(
    ("file", "name"),
    [("res net.py", "res-net"), ("größe.onnx", "gr--e"), (".py.mlir", "py")],
)
def test_every_file_name_makes_a_name_that_a_bundle_can_have(file, name):
    assert output.default_name(Path(file)) == name
    title.require_title("name", name)


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ('aotc.bundle(name="../x")', "bad-bundle-name"),
        ("aotc.bundle(name=3)", "bad-bundle-name"),
        ('aotc.bundle(version="1 beta")', "bad-bundle-name"),
        ('aotc.bundle(name="a"); aotc.bundle(version="2")', "name-clash"),
    ],
)
def test_a_name_that_no_bundle_can_have_is_refused_at_its_line(
    tmp_path, declared, code
):
    with pytest.raises(InputError) as caught:
        _title(tmp_path, declared)
    assert (caught.value.code, caught.value.where) == (code, "model.py:4")


def test_a_title_is_held_to_what_a_manifest_may_say():
    assert (program.NAME, program.VERSION) == (schema.NAME, schema.VERSION)


def test_the_name_of_an_imported_model_is_not_that_of_the_one_that_imports_it(
    tmp_path,
):
    (tmp_path / "parts.py").write_text('import aotc\naotc.bundle(name="parts")\n')
    assert _title(tmp_path, "import parts") == ("model", "1.0.0")


def test_a_name_given_to_a_build_is_checked_before_the_work(model, tmp_path):
    with pytest.raises(InputError) as caught:
        pipeline.build(model, name="a/b", output=tmp_path)
    assert caught.value.code == "bad-bundle-name"


def test_an_output_that_is_named_as_a_bundle_is_the_bundle(model, tmp_path):
    """And is refused before any work where something is there, as others are."""
    named, folder = tmp_path / "new" / "mine.aotc", tmp_path / "folder"
    choices = {"targets": [Target.parse("vmvx")], "self_check": "off"}
    for place, bundle in ((named, named), (folder, folder / "small-1.0.0.aotc")):
        report = pipeline.build(model, output=place, **choices)
        assert report.bundle == bundle
        assert (bundle / "manifest.json").is_file()
        with pytest.raises(InputError, match="already something at") as caught:
            pipeline.build(model, output=place, **choices)
        assert caught.value.code == "output-exists"
        assert [*bundle.parent.iterdir()] == [bundle]


@pytest.mark.usefixtures("compile_anew")
def test_a_source_gives_the_same_bytes_and_states_in_a_folder_of_any_name(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    bundles = []
    for name in ("first", "the second"):
        _title(tmp_path / name)
        report = pipeline.build(
            tmp_path / name / "model.py",
            targets=[Target.parse("vmvx")],
            output=tmp_path / name / "out",
        )
        bundles.append(report.bundle)
    first, second = (
        {f.relative_to(b).as_posix(): f.read_bytes() for f in b.rglob("*.*")}
        for b in bundles
    )
    assert first == second
    source, other = map(aotc.load, bundles)
    source.add(x=numpy.ones((2, 3), "f4"))
    source.save_state(tmp_path / "state.safetensors")
    other.load_state(tmp_path / "state.safetensors")
    assert other.read_state("count").tolist() == [2, 2, 2]
    assert other.read_state().tolist() == [2, 2, 2]  # the only state


def test_the_name_of_a_stage_stands_for_its_passes(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {"targets": [Target.parse("vmvx")], "stop_after": "variant"}
    lowered = pipeline.build(model, dump=tmp_path / "ir", **asked).ir
    graph = tmp_path / "ir" / "graph.mlir"
    text = pipeline.optimize(graph.read_text(), "optimized, regions, linalg")
    graph.write_text(text)
    assert pipeline.build(graph, **asked).ir == lowered
    report = pipeline.build(model, passes="optimized,cse", stop_after="optimized")
    assert [record.name for record in report.passes][-2:] == ["record-devices", "cse"]
    with pytest.raises(InputError, match="does not need a target; got 'variant'"):
        pipeline.optimize(text, "variant")


def test_lowered_ir_that_is_said_to_be_a_graph_is_refused(model, tmp_path):
    pipeline.build(model, dump=tmp_path / "ir", stop_after="graph")
    graph = tmp_path / "ir" / "graph.mlir"
    passes = "autodiff,inline,decompose,lower-to-linalg"
    graph.write_text(pipeline.optimize(graph.read_text(), passes))
    with pytest.raises(InputError, match="expected a graph at the stage 'graph'"):
        pipeline.build(graph)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"stop_after": "foo"}, "expected a stage to stop after of graph"),
        ({"stop_after": "parity"}, "expected a stage to stop after of graph"),
        ({"level": 3}, "expected a level of optimisation of 0, 1, 2; got 3"),
        ({"self_check": "fully"}, "expected a self-check of auto, full, off"),
        (
            {"stop_after": "graph", "certify_gradients": True},
            "no use before; got 'graph'",
        ),
        ({"stop_after": "graph", "passes": "cse"}, "--passes is of no use before"),
        (
            {"stop_after": "linalg", "peak_memory": 1},
            "--peak-memory is of no use before",
        ),
        (
            {"stop_after": "vmfb", "self_check": "full"},
            "--self-check=full is of no use",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused_before_any_work(choices, said):
    with pytest.raises(InputError) as caught:
        pipeline.build("missing.py", **choices)
    assert caught.value.code == "bad-option"
    assert said in caught.value.message


def test_the_command_stops_where_a_build_may_end():
    from aotc.cli.build import build

    (option,) = (each for each in build.params if each.name == "stop_after")
    assert (*option.type.choices, "bundle") == STOPS


@pytest.mark.parametrize(
    "passes", ["optimized,regions,linalg,inline", "optimized,linalg,lower-to-linalg"]
)
def test_passes_of_graphs_refuse_lowered_ir(model, passes):
    model.write_text(
        "import aotc\nimport aotc.numpy as np\n"
        "@aotc.entry(x=aotc.Spec((5, 3)))\ndef f(x):\n"
        "    return aotc.control.scan(lambda c, y: (np.tanh(c + y), c), x[0], x)\n"
    )
    graph = pipeline.build(model, stop_after="graph").ir
    with pytest.raises(InputError, match="expected IR that is a graph for the pass"):
        pipeline.optimize(graph, passes)


def test_a_constant_that_no_memory_can_hold_is_refused():
    text = (
        "func.func @f() -> tensor<9223372036854775807xf32> {\n"
        '  %0 = "graph.constant"() {value = dense<1.0> : '
        "tensor<9223372036854775807xf32>} : () -> tensor<9223372036854775807xf32>\n"
        "  return %0 : tensor<9223372036854775807xf32>\n}\n"
    )
    with pytest.raises(InputError, match="expected a constant of at most"):
        pipeline.optimize(text, "")
