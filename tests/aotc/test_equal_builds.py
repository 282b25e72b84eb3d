"""A build that is equal to one before runs no pass, and gives the same bytes."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from aotc import importers
from aotc.checks import reuse as check_reuse
from aotc.core import options
from aotc.core.cache import Cache, arrays_digest
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.pipeline import build, reuse, stages
from aotc.pipeline.request import Request

ROOT = Path(__file__).parent.parent.parent
MODEL = """\
import aotc
import aotc.numpy as np
import numpy

values = numpy.arange(64 * 48, dtype=numpy.float32).reshape(64, 48) % 7
weights = aotc.Weights({"w": values, "v": values.T.copy()})
state = aotc.State({"count": numpy.int32(0)})


@aotc.entry(x=aotc.Spec((aotc.Dim("rows", max=64), 64), "f32"))
def predict(weights, x):
    return np.tanh(x @ (weights["w"] * 2)) @ weights["v"]


@aotc.entry(x=aotc.Spec((4, 48), "f32"))
def step(state, weights, x):
    return {"count": state["count"] + 1}, (x @ weights["v"]).sum()
"""
TARGETS = ("x86_64-v3", "x86_64-v4", "aarch64")


@pytest.fixture
def folder(tmp_path):
    """A folder with a model, and a cache and a key for the test alone."""
    (tmp_path / "model.py").write_text(MODEL)
    home = options.override("AOTC_HOME", str(tmp_path / "home"))
    with home, options.override("AOTC_CACHE", str(tmp_path / "cache")):
        yield tmp_path


def built(folder, **choices):
    """The report of a build, and the files of its bundle."""
    choices = {"targets": [Target.parse("cpu")], "self_check": "off", **choices}
    report = build(folder / "model.py", output=folder, force=True, **choices)
    return report, {
        str(path.relative_to(report.bundle)): path.read_bytes()
        for path in report.bundle.rglob("*")
        if path.is_file()
    }


def told(report):
    """What a report says but for times, and what the cache had."""
    passing = ("seconds", "peak_bytes", "cache", "self_check_cache")
    text = json.dumps(report.to_json())
    return json.loads(
        text,
        object_hook=lambda row: {k: x for k, x in row.items() if k not in passing},
    )


def with_example(array):
    """A network of another framework that brings an input along."""
    return SimpleNamespace(original=SimpleNamespace(example={"x": array}))


def refuse(*_, **__):
    raise AssertionError("passes are run")


def test_an_equal_build_runs_no_pass_and_gives_the_same_bundle(folder, monkeypatch):
    """With weights that passes change for each target, states and symbolic sizes."""
    choices = {"targets": [*map(Target.parse, TARGETS)], "self_check": "auto"}
    _, alone = built(folder, cache=False, **choices)
    first, files = built(folder, **choices)
    assert any("weights-x86_64-v4" in name for name in files), "no weights of its own"
    monkeypatch.setattr("aotc.pipeline.run.run_passes", refuse)
    monkeypatch.setattr("aotc.passes.run_passes", refuse)
    second, again = built(folder, **choices)
    assert alone == files == again
    assert told(first) == told(second)
    assert [each.reuse for each in second.variants] == ["hit"] * len(TARGETS)
    assert second.self_check_reuse == "hit"


def test_what_passes_read_is_in_the_key(folder, monkeypatch):
    file = folder / "model.py"
    cache = Cache(folder / "cache", 1 << 30)
    both = [*map(Target.parse, ("x86_64-v3", "x86_64-v4"))]

    def key(text=MODEL, targets=both, change=lambda program: None):
        file.write_text(text)
        program = importers.load(file)
        change(program)
        weights = arrays_digest(program.parameters)
        return reuse.KeptBuild.of(cache, program, targets, weights).recipe.key

    def set_attribute(name, value):
        return lambda program: setattr(program, name, value)

    def set_weight(array):
        return lambda program: program.parameters.update({name: array})

    name = next(iter(importers.load(file).parameters))
    array = importers.load(file).parameters[name]
    changed = array.copy()
    changed.flat[-1] = np.nextafter(changed.flat[-1], 9)
    first = key()
    assert key() == first == key(change=set_weight(array.copy()))
    others = [
        key(MODEL.replace("* 2", "* 3")),
        key(f"# all lines move\n{MODEL}"),  # errors of passes name lines
        key(targets=both[:1]),
        key(targets=both[::-1]),  # the first names weights that differ
        key(change=set_weight(changed)),
        key(change=set_weight(array.astype(np.float64))),
        key(change=set_attribute("level", 1)),
        key(change=set_attribute("without", ("cse",))),
        key(change=set_attribute("numerics", "relaxed")),
        key(change=set_attribute("networks", {"predict": with_example(array)})),
    ]
    for module, function, value in (
        (reuse, "code_digest", "other code"),
        (reuse, "stated_version", b"another compiler"),
        (reuse, "installed_version", "other bindings"),
        (processor, "cpu_features", ("avx2",)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, lambda *_, value=value: value)
            others.append(key())
    assert len({first, *others}) == 1 + len(others)


def test_the_code_digest_covers_sources_and_tables(monkeypatch, tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "limits.json").write_text("{}")
    monkeypatch.setattr(check_reuse, "_folder", lambda package: tmp_path)
    before = check_reuse.code_digest.__wrapped__()
    (tmp_path / "limits.json").write_text('{"exp": []}')
    assert check_reuse.code_digest.__wrapped__() != before


# Every field of `Request`, by how it gets to passes. What is stated is in the program
# before the key is made.
STATED = {"source", "entries", "name", "version", "level", "without", "io_layout"}
STATED |= {"specialize", "own_sizes", "policies", "optimum", "buckets_from"}
STATED |= {"max_variants", "numerics", "precision", "quantize", "quantize_data"}
KEYED = {"targets"}
REFUSED = {"dump": Path("dump"), "stop_after": "vmfb", "passes": "optimized"}
REFUSED |= {"peak_memory": 1, "tuning": Path("tuning.json")}
WITH = {"tune": {"tuning": Path("tuning.json")}}  # not without the other
LATER = {"output", "signing_key", "sign", "force", "self_check", "require_check"}
LATER |= {"readable", "certify_gradients", "parity", "cache"}  # no matter of passes


def test_every_request_is_keyed_or_makes_passes_run():
    known = {each.name for each in fields(Request)}
    classes = [STATED, KEYED, {*REFUSED}, {*WITH}, LATER]
    assert set().union(*classes) == known
    assert sum(map(len, classes)) == len(known)
    assert reuse.is_reusable(Request("m.py"), "graph")
    assert not reuse.is_reusable(Request("m.mlir"), "optimized")
    for name, value in REFUSED.items():
        assert not reuse.is_reusable(Request("m.py", **{name: value}), "graph"), name
    for name, others in WITH.items():
        assert not reuse.is_reusable(Request("m.py", **{name: 1.0}, **others), "graph")
    for name in ("AOTC_DUMP", "AOTC_PRINT_AFTER"):
        with options.override(name, "all"):
            assert not reuse.is_reusable(Request("m.py"), "graph"), name


# What passes, rules, kernels and the backend may ask the machine for.
ALLOWED = {
    "dialects/functions/function_table.py": {"AOTC_VERIFY_EACH"},
    "passes/__init__.py": {"AOTC_DUMP", "AOTC_PRINT_AFTER", "AOTC_VERIFY_EACH"},
    "aotc/backend/__init__.py": {
        *("AOTC_JOBS", "AOTC_VERIFY_EACH", "os.cpu_count", "os.environ"),
    },
}
_ASKS = re.compile(
    r"options\.get\(\"(\w+)\"\)|(os\.(?:environ|getenv|cpu_count|uname)|"
    r"(?<!\w)(?:processor|gpus|platform|socket)\.\w+)\b"
)


def test_passes_read_neither_options_nor_the_machine():
    """The key of an equal build has none of them."""
    for folder in ("passes", "dialects", "aotc/kernels", "aotc/backend"):
        for file in (ROOT / folder).rglob("*.py"):
            found = {a or b for a, b in _ASKS.findall(file.read_text())}
            path = str(file.relative_to(ROOT))
            assert found <= ALLOWED.get(path, set()), f"{path} reads {found}"


def test_without_a_module_or_with_large_weights_passes_are_run(folder, monkeypatch):
    runs = []
    run = stages.Lower.run
    monkeypatch.setattr(
        stages.Lower,
        "run",
        lambda stage, build: (runs.append(stage.name), run(stage, build)),
    )
    _, first = built(folder)
    assert len(runs) == 4
    assert built(folder)[1] == first
    assert len(runs) == 4
    cache = Cache.of_user()
    for each in cache.entries():
        if each.recipe.kind == "module":
            each.path.unlink()
    assert built(folder)[1] == first
    assert len(runs) == 8
    for each in cache.entries():
        if each.recipe.kind == "build":
            each.path.unlink()
    monkeypatch.setattr(reuse, "MOST_BYTES", 0)
    for _ in range(2):
        assert built(folder)[1] == first
    assert len(runs) == 16
    monkeypatch.setattr("aotc.passes.fold_parameters.MOST_BYTES_AT_ONCE", 0)
    for _ in range(2):  # what is computed when it is written may be large
        assert built(folder)[1] == first
    assert len(runs) == 20


def test_a_self_check_that_was_off_is_made_of_reused_code(folder):
    assert not built(folder)[0].self_checks
    report, _ = built(folder, self_check="auto")
    assert report.variants[0].reuse == "hit"
    assert report.self_check_reuse.startswith("miss")
    assert all(row.checked for row in report.self_checks)


def test_an_equal_build_imports_neither_passes_nor_kernels(folder):
    """They take as long to import as an equal build takes in all."""
    built(folder)
    program = (
        "import sys; from aotc.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*(n for n in sys.modules if n.startswith('aotc.')))\n"
        "sys.exit(code)"
    )
    words = ["build", folder / "model.py", "-o", folder, "--force", "--self-check=off"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--target", str(Target.parse("cpu"))],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "aotc.pipeline.reuse" in imported
    few = {"", ".base", ".stages", ".pass_options"}
    heavy = {n for n in imported if re.match(r"aotc\.(kernels|passes|tuning)\b", n)}
    assert heavy <= {f"aotc.passes{name}" for name in few}
    assert not imported & {"aotc.checks.self_check", "aotc.reference"}
