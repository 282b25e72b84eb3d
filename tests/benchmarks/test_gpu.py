"""`python -m benchmarks.gpu`: what `prepare` writes, `run` compares and reports."""

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from aotc.kernels.gpu.machines import MACHINES
from aotc.machine.target import Target
from benchmarks.gpu import model_error, networks, prepare, programs
from benchmarks.gpu.programs import Call
from benchmarks.gpu.there import seconds

MODEL = """
import aotc
import aotc.numpy as np

aotc.bundle(name="tiny", version="1.0.0")
state = aotc.State(np.zeros(3))


@aotc.entry(x=aotc.Spec((3,)))
def add(state, x):
    return state + x, state * 2


@aotc.entry(x=aotc.Spec(("n", 3), "f16"))
def flip(x):
    return np.flip(x, 0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of a model and of a program of the fuzzer, for processors."""
    made = tmp_path_factory.mktemp("gpu")
    source = made / "tiny.py"
    source.write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        timed = (Call("flip", {"n": 5}),)
        patch.setattr(programs, "_MODELS", {"tiny": (source, timed)})
        plan = prepare.Plan(("tiny",), 1, 31_000, ("x86_64-v3", "vulkan"), None)
        prepare.prepare(plan, made / "out")
    return made / "out"


def run(folder, out, *more):
    words = "--targets", "x86_64-v3", "--out", out, "--seconds", "120", *more
    command = [sys.executable, folder / "run.py", *words]
    environment = {k: v for k, v in os.environ.items() if k != "OUT"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    report = json.loads((out / "report.json").read_text())
    assert (out / "report.txt").read_text().strip() == done.stdout.strip()
    return done.returncode, report


def test_every_call_is_compared_and_timed(folder, tmp_path):
    code, report = run(folder, tmp_path)
    rows = {row["program"]: row for row in report["comparisons"]}
    assert {*rows} == {"tiny", "fuzz-0"}
    for row in rows.values():
        assert row["loads"]
        assert row["usable"]
        assert {case["outcome"] for case in row["cases"]} == {"right"}
    entries = [case["entry"] for case in rows["tiny"]["cases"]]
    assert entries.count("add") == 4
    assert entries.count("flip") >= 3
    (time,) = report["times"]
    assert time["call"]["p50_ms"] >= time["invocation"]["min_ms"] > 0
    assert report["machine"]["differ"] == []
    assert code == 0
    assert report["finished"]


def test_networks_and_steps_of_training_compute_what_pytorch_does(
    folder, tmp_path, monkeypatch
):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(networks.BENCHMARKS))
    training = importlib.import_module("models_zoo.training")
    small = importlib.import_module("models_zoo.small")
    monkeypatch.setitem(training.TRAININGS, "mlp", training.Training(small.mlp))
    made = tmp_path / "folder"
    shutil.copytree(folder, made)
    targets = [Target.parse("x86_64-v3")]
    names = networks.write_networks(
        made, ("train:mlp", "mlp"), ("f32", "bf16"), targets
    )
    assert names == ["mlp", "mlp", "train:mlp"]  # which learns in f32 alone
    _change(made / "folder.json", networks=names)
    code, report = run(made, tmp_path / "out", "--parts", "networks")
    rows = {row["name"]: row for row in report["networks"]["rows"]}
    assert [*rows] == ["mlp-bf16", "mlp-f32", "train-mlp-f32"]
    assert rows["mlp-f32"]["error"] < 1e-5
    assert rows["train-mlp-f32"]["error"] < 1e-5  # in the losses of three steps
    assert rows["train-mlp-f32"]["call"]["p50_ms"] > 0
    text = (tmp_path / "out/report.txt").read_text()
    assert "  train-mlp-f32 " in text
    assert "comparisons" not in report
    assert code == 0


def test_a_network_that_differs_or_fails_is_told(monkeypatch):
    monkeypatch.syspath_prepend(str(prepare.SCRIPTS))
    text = importlib.import_module("text")
    right = {"name": "a", "dtype": "f32", "error": 1e-6}
    wrong = {"name": "b", "dtype": "f32", "error": 0.1}
    failed = {"name": "c", "failed": "RuntimeError: no"}
    late = {"name": "d", "failed": text.NO_TIME}
    report = {"networks": {"rows": [right, wrong, failed, late]}}
    assert text.wrong_networks(report) == [wrong, failed]
    assert not text.is_clean(report)
    assert text.is_clean({"networks": {"rows": [right, late]}})
    assert not text.is_clean({"networks": {"rows": [late]}})


def _change(file, **parts):
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, **parts}))


def test_a_run_shares_its_time_among_the_parts_that_have_something_to_do():
    program = {"cases": 40, "timed": [{}], "bundles": [{"variants": ["a", "b"]}]}
    plan = {"programs": 8 * [program], "networks": [], "schedules": 100}
    plan["backends"] = {"a": "cuda", "b": "llvm-cpu"}
    on_gpu, on_cpu = (seconds.estimate(plan, [each], jobs=4) for each in "ab")
    assert on_gpu["compare"] == on_cpu["compare"] == pytest.approx(16)
    assert on_gpu["times"] > 1.5 * on_cpu["times"]  # a second time, as CUDA graphs
    assert on_gpu["schedules"] == pytest.approx(8)
    assert on_cpu["schedules"] == on_gpu["networks"] == 0
    plan["networks"] = 3 * ["bert"] + 4 * ["train:bert"]
    parts = seconds.estimate(plan, ["a"], jobs=4)
    assert parts["networks"] == pytest.approx(136)
    assert "cuts each part" not in seconds.told(on_gpu)
    plan["networks"] *= 3
    assert "cuts each part" in seconds.told(seconds.estimate(plan, ["a"]))


def test_flags_of_irees_runtime_reach_the_child_that_is_timed(tmp_path, monkeypatch):
    """So a call is timed with CUDA graphs, too."""
    monkeypatch.syspath_prepend(str(prepare.SCRIPTS))
    children = importlib.import_module("children")
    (tmp_path / "told.py").write_text(
        "import json, os, sys\n"
        "found = os.environ.get('IREE_PY_RUNTIME_FLAGS')\n"
        "open(sys.argv[1], 'w').write(json.dumps({'flags': found}))\n"
    )
    monkeypatch.setattr(children, "HERE", tmp_path)
    monkeypatch.delenv("IREE_PY_RUNTIME_FLAGS", raising=False)
    python, out = children.Python(sys.executable, None, tmp_path), tmp_path / "out.json"
    for flags in "--cuda_use_streams=false", "":
        found = children.timed(python, "told.py", [], out, [], 60, flags)
        assert found == {"flags": flags or None}


def test_what_differs_is_told_and_the_other_calls_are_still_made(folder, tmp_path):
    """One element of one expected result is another number."""
    changed = tmp_path / "folder"
    changed.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (changed / file.name).write_bytes(file.read_bytes())
    _spoil(changed / "programs.tar.xz")
    code, report = run(changed, tmp_path / "out")
    outcomes = [
        case["outcome"]
        for row in report["comparisons"]
        for case in row["cases"]
        if row["program"] == "tiny"
    ]
    assert outcomes.count("wrong") == 1
    assert outcomes.count("right") == len(outcomes) - 1
    text = (tmp_path / "out/report.txt").read_text()
    assert "wrong (alone: wrong): tiny.add" in text
    assert "1 of 3 elements wrong" in text
    assert code == 1


def _spoil(archive):
    with tarfile.open(archive) as opened:
        members = {m: opened.extractfile(m) for m in opened.getmembers()}
        files = {m: f.read() if f else None for m, f in members.items()}
    (cases,) = (data for m, data in files.items() if m.name == "./tiny/cases.json")
    number = str(json.loads(cases)["cases"][0]["calls"][0]["results"][0]["expected"])
    with tarfile.open(archive, "w:xz") as written:
        for member, data in files.items():
            content = data
            if member.name == "./tiny/arrays.npz":
                arrays = dict(np.load(io.BytesIO(data)))
                arrays[number] = arrays[number] + np.eye(1, 3, 1, "f4")[0]
                file = io.BytesIO()
                np.savez(file, **arrays)
                content = file.getvalue()
                member.size = len(content)
            written.addfile(member, io.BytesIO(content) if data is not None else None)


def test_a_child_that_dies_costs_its_call_alone(folder, tmp_path, monkeypatch):
    """What an entry does to its process is for that call to bear."""
    monkeypatch.syspath_prepend(folder)
    children = importlib.import_module("children")
    python = children.Python(sys.executable, None, tmp_path)
    script = tmp_path / "dying.py"
    script.write_text(
        "import json, os, sys\n"
        "out, _, *cases = sys.argv[1:]\n"
        "file = open(out, 'a')\n"
        "def say(**row): file.write(json.dumps(row) + '\\n'); file.flush()\n"
        "say(step='load', loads=True)\n"
        "for case in map(int, cases):\n"
        "    say(step='begin', case=case, entry='f', sizes={})\n"
        "    if case == 1: os.abort()\n"
        "    say(step='end', case=case, outcome='right')\n"
    )
    monkeypatch.setattr(children, "HERE", tmp_path)
    start = python.start
    monkeypatch.setattr(python, "start", lambda _, *w, log: start(script, *w, log=log))
    comparison = children.Comparison(
        python, "dying", [], "key", [0, 1, 2], children.Deadline(60)
    )
    comparison.run()
    outcomes = {n: each["outcome"] for n, each in comparison.outcomes.items()}
    assert outcomes == {0: "right", 1: "died: SIGABRT", 2: "right"}
    assert comparison.outcomes[1]["alone"] == "died: SIGABRT"


def test_schedules_that_the_model_chooses_were_fast_on_an_h200():
    rows, losses = model_error.read(model_error.MEASURED), []
    for kernel in {model_error.key(row) for row in rows}:
        own = [row for row in rows if model_error.key(row) == kernel]
        off, loss = model_error.errors(own, MACHINES["sm_90"])
        assert off < 1.2, kernel
        assert loss < 1.25, kernel
        losses.append(loss)
    assert len(losses) == 21
    assert sum(losses) / len(losses) < 1.06
