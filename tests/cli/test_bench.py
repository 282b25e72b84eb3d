"""`aotc bench`: figures that hold together for any entry, and errors in time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aotc.artifacts.manifest import Code, Manifest
from aotc.cli.main import main
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.processes import asking
from aotc.timing import dispatches, inputs, process
from aotc.timing.messages import TimedBundle
from aotc.timing.statistics import Latency, TimeRatio

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"  # an entry that trains
Bench = Callable[..., dict[str, Any]]


@pytest.fixture
def bundle(shelf: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that every call here begins with."""
    monkeypatch.chdir(shelf.folder)
    return ["bench", shelf.bundle(), "--trust", shelf.public_key]


@pytest.fixture
def golden(shelf: Any) -> list[str]:
    """The same for a bundle with a state; its two variants run here or everywhere."""
    signer = str(GOLDEN / "signer.pem")
    return ["bench", str(GOLDEN / "bundle"), "--trust", signer, "--target", "vmvx"]


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run the command, and give its document."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        assert main([*arguments, "--format", "json"]) == code
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert document["schema"] == "aotc.bench/1"
        return document

    return run


def is_ordered(latency: dict[str, Any]) -> bool:
    names = ("min", "p50", "p90", "p99", "max")
    times = [latency[name] for name in names]
    return times == sorted(times) and 0 < times[0] <= latency["mean"] <= times[-1]


def test_tells_times_in_order_and_what_they_belong_to(
    bundle: list[str], bench: Bench
) -> None:
    document = bench(*bundle, "scale", "--calls", "3", "--sizes", "batch=5")
    (found,) = document["bundles"]
    manifest = Manifest.read(Path(bundle[1], "manifest.json").read_bytes())
    assert found["manifest_sha256"] == manifest.identity
    assert (found["variant"], found["threads"]) == ("vmvx", 1)
    assert found["latency_ms"]["count"] == 3
    assert is_ordered(found["latency_ms"])
    assert found["calls_per_second"] > 0
    assert found["load_ms"] > 0
    assert found["first_call_ms"] > 0
    memory = found["memory_bytes"]
    assert 0 < memory["before_load"] <= memory["peak"]
    assert memory["after_calls"] <= memory["peak"]
    assert [leaf["shape"] for leaf in document["inputs"]] == [[5, 2], []]
    assert document["comparisons"] == []
    assert document["passed"] is True


def test_says_what_keeps_the_memory_that_calls_give_back(
    bundle: list[str], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*bundle, "scale", "--calls", "3", "--sizes", "batch=5")
    few = bench(*arguments)
    assert few["bundles"][0]["page_faults_per_call"] < 1000
    assert not [note for note in few["notes"] if "MALLOC" in note]
    many = property(lambda measured: 20_748.25)
    monkeypatch.setattr("aotc.timing.rounds.BundleMeasurement.page_faults", many)
    (note,) = (note for note in bench(*arguments)["notes"] if "MALLOC" in note)
    assert "takes 20748 pages" in note


def test_calls_for_as_long_as_it_is_told(bundle: list[str], bench: Bench) -> None:
    (found,) = bench(*bundle, "add", "--seconds", "0.1")["bundles"]
    calls = found["latency_ms"]
    assert calls["count"] * calls["mean"] >= 50  # the rest is spent between calls
    assert sum(each["count"] for each in found["rounds"]) == calls["count"]


def test_sizes_come_from_given_inputs(bundle: list[str], bench: Bench) -> None:
    np.save("x.npy", np.ones((7, 2), "f4"))
    given = bench(*bundle, "scale", "--calls", "1", "-i", "x=@x.npy")
    assert given["inputs"][0]["shape"] == [7, 2]
    least = bench(*bundle, "scale", "--calls", "1")
    assert least["inputs"][0]["shape"] == [1, 2]


def test_tells_that_calls_of_an_entry_that_trains_advance_its_state(
    golden: list[str], bench: Bench
) -> None:
    document = bench(*golden, "train_step", "--calls", "3")
    assert document["bundles"][0]["states"] == ["state"]
    assert "calls advance state; each round begins with" in document["notes"][0]


def test_each_round_begins_with_the_first_states() -> None:
    from aotc.timing.messages import Budget
    from aotc.timing.serve import Caller

    x = np.ones(3, "f4")
    keys = (str(GOLDEN / "signer.pem"),)
    subject = TimedBundle(
        str(GOLDEN / "bundle"), "train_step", {"x": x}, keys=keys, target="vmvx"
    )
    caller = Caller(subject)
    caller.times(Budget(calls=3))
    before = caller.model.read_state()["count"]
    caller.times(Budget(calls=3))
    assert caller.model.read_state()["count"] == before == 3


def test_bundles_take_turns_and_the_ratio_can_be_limited(
    bundle: list[str], bench: Bench
) -> None:
    pair = [*bundle, "add", "--calls", "6", "--compare", bundle[1]]
    document = bench(*pair, "--at-most", "1000")
    assert [each["latency_ms"]["count"] for each in document["bundles"]] == [6, 6]
    (found,) = document["comparisons"]
    assert 0 < found["low"] <= found["high"]
    assert found["rounds"] == 6
    assert document["passed"] is True
    assert bench(*pair, "--at-most", "0.001", code=1)["passed"] is False


def test_a_profile_tells_the_time_of_each_dispatch(
    golden: list[str], bench: Bench
) -> None:
    """Of an entry with a state, and one with weights and a symbolic size."""
    for entry in ("train_step", "predict"):
        found = bench(*golden, entry, "--calls", "2", "--profile")["profile"]
        assert found["calls"] > 0
        times = [each["ms"] for each in found["dispatches"]]
        assert times == sorted(times, reverse=True)
        assert 0 < found["ms"] == pytest.approx(sum(times))
        for each in found["dispatches"]:
            assert each["name"].startswith(entry)
            assert each["count"] >= 1
            assert each["processor_ms"] > 0


def test_dispatches_of_a_call_are_added_and_calls_are_not() -> None:
    def event(key: str, span: int, work: int, valid: bool = True) -> str:
        return json.dumps(
            {
                "type": "host_dispatch_event",
                "key": key,
                "valid": valid,
                "duration_ns": span * 10**6,
                "tile_duration_sum_ns": work * 10**6,
            }
        )

    calls = [(1, 2), (1, 2), (9, 50)]  # the last one was disturbed
    lines = [event("twice", span, 1) for call in calls for span in call]
    lines += [event("once", 5, 10)] * 3 + [event("once", 7, 7, valid=False)]
    told = "\n".join([*lines, '{"type": "dispatch_summary"}'])
    assert dispatches.dispatches_in(told, len(calls), {}) == [
        dispatches.Dispatch("once", 1, 5, 10),
        dispatches.Dispatch("twice", 2, 3, 2),
    ]


def test_a_profile_tells_of_dispatches_that_calls_do_not_make_equally_often() -> None:
    counts = {"lost": 0.98, "loop": 39.4, "whole": 2.0, "of_loading": 0.005}
    found = tuple(dispatches.Dispatch(name, n, 1, 1) for name, n in counts.items())
    assert dispatches.DispatchProfile("f", 200, found).uneven == ("lost", "loop")


def test_a_profile_of_no_processor_is_refused(shelf: Any) -> None:
    subject = TimedBundle(shelf.bundle(), "add", keys=(shelf.public_key,))
    loaded = SimpleNamespace(variant="vmvx", threads=None)  # as for a GPU
    measured: Any = SimpleNamespace(subject=subject, loaded=loaded, times=[1])
    with pytest.raises(InputError) as caught:
        dispatches.profile_of(measured)
    assert caught.value.code == "profile-unsupported"


def test_a_profiler_that_fails_says_why() -> None:
    with pytest.raises(SetupError, match="iree-profile of IREE's runtime") as caught:
        dispatches.run_program("iree-profile", "dispatch", GOLDEN / "model.py")
    assert caught.value.code == "profile-failed"


@pytest.mark.parametrize(
    ("threads", "readable", "made"),
    [(2, 12, [200, 50, 12]), (2, 0, [200, 50, 12, 3, 1]), (1, 12, [200])],
)
def test_notes_that_threads_have_spoiled_are_taken_again_of_fewer_calls(
    threads: int,
    readable: int,
    made: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to `readable` calls can be read; with one thread nothing is tried again."""
    tried: list[int] = []

    def run_program(program: str, *arguments: str | Path) -> str:
        if program == "iree-benchmark-module":
            tried.append(int(str(arguments[0]).removesuffix("x").split("=")[1]))
        elif tried[-1] > readable:
            raise SetupError("profile-failed", "DATA_LOSS")
        return "notes"

    monkeypatch.setattr(dispatches, "run_program", run_program)
    if made[-1] <= readable:
        assert dispatches._profile_calls((), 200, threads, tmp_path) == (
            made[-1],
            "notes",
        )
    else:
        with pytest.raises(SetupError, match="DATA_LOSS"):
            dispatches._profile_calls((), 200, threads, tmp_path)
    assert tried == made


def test_the_text_has_the_table_and_the_verdict(
    bundle: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pair = [*bundle, "add", "--calls", "1", "--compare", bundle[1], "--at-most", "1000"]
    assert main(pair) == 0
    text = capsys.readouterr().out
    assert text.startswith("add(a: u8[3], b: u8[3])\non ")
    assert "ms  calls  min" in text
    assert "1 takes " in text
    assert "in 1 pairs of rounds: no difference shown\nat most 1000: passed" in text
    assert "note: a, b: integers are 0 or 1" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "unknown-entry"),
        (["scail"], "unknown-entry"),
        (["scale", "--sizes", "batch"], "bad-option"),
        (["scale", "--sizes", "batch=1,batch=2"], "bad-option"),
        (["scale", "--sizes", "batch=²"], "bad-size"),
        (["scale", "--sizes", "batch=-1"], "bad-size"),
        (["scale", "--sizes", "batch=0"], "bad-size"),
        (["scale", "--sizes", "width=4"], "unknown-size"),
        (["scale", "-i", "z=1"], "unknown-input"),
        (["scale", "-i", "k=@f8.npy"], "dtype-mismatch"),
        (["scale", "-i", "x=[[1,2,3]]"], "shape-mismatch"),
        (["scale", "-i", "x=[[1,2]]", "--sizes", "batch=2"], "bad-size"),
        (["add", "--target", "cuda:sm_80"], "unknown-variant"),
        (["add", "--load-state", "none.safetensors"], "no-states"),
        (["add", "--calls", "3", "--seconds", "1"], "usage"),
        (["add", "--at-most", "1.1"], "usage"),
        (["add", "--at-most", "nan", "--compare", "b"], "usage"),
        (["add", "--seconds", "nan"], "usage"),
        (["add", "--compare", "b", "--profile"], "usage"),
        (["add", "--compare", "none.aotc"], "bundle-missing"),
        (["add", "--compare", "static,dynamic"], "usage"),
    ],
)
def test_wrong_use_exits_with_2(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
) -> None:
    np.save("f8.npy", np.float64(1))
    assert main([*bundle, *arguments]) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_a_bundle_that_is_not_trusted_is_not_called(shelf: Any) -> None:
    assert main(["bench", shelf.bundle(), "add"]) == 4


def test_a_process_that_dies_is_told_with_its_signal(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"]
    run = asking.subprocess.Popen

    def start(command: list[str], **options: Any) -> Any:
        return run([command[0], *died], **options)

    monkeypatch.setattr(asking.subprocess, "Popen", start)
    with pytest.raises(CompileError, match=r"runs 'add' died of SIGSEGV") as caught:
        process.TimingProcess(TimedBundle("b", "add"))
    assert caught.value.code == "compiled-code-died"


def test_an_error_in_the_process_that_times_names_its_bundle(
    bundle: list[str],
) -> None:
    _, path, _, key = bundle
    with pytest.raises(AotcError) as caught:
        process.TimingProcess(TimedBundle(path, "none", keys=(key,)))
    assert caught.value.where == path


def test_percentiles_of_known_times() -> None:
    found = Latency.of([million * 10**6 for million in range(1, 102)])
    assert (found.min, found.p50, found.p90, found.p99, found.max) == (
        1,
        51,
        91,
        100,
        101,
    )
    assert (found.count, found.mean) == (101, 51)
    assert found.std == pytest.approx(np.arange(101).std())


def test_a_difference_is_one_that_every_pair_of_rounds_shows() -> None:
    slower = [[30, 33, 36]] * 6
    found = TimeRatio.of(slower, [[10, 11, 12]] * 6)
    assert (found.ratio, found.ratio_of_minima, found.low, found.high) == (3, 3, 3, 3)
    assert not found.is_noise
    assert TimeRatio.of(slower, [[10, 11, 12]] * 5 + [[99]]).is_noise
    assert TimeRatio.of(slower[:5], [[10, 11, 12]] * 5).is_noise  # too few to tell


def manifest_of(*leaves: dict[str, Any], **symbols: Any) -> Any:
    data = json.loads((GOLDEN / "bundle" / "manifest.json").read_text())
    entry = {**data["entry_points"][0], "inputs": list(leaves)}
    entry["outputs"], entry["result"] = [], None
    entry["arguments"] = {"dict": {leaf["name"]: i for i, leaf in enumerate(leaves)}}
    return Manifest({**data, "entry_points": [entry], "symbols": symbols})


def test_random_inputs_are_within_the_contract_and_the_same_for_a_seed() -> None:
    manifest = manifest_of(
        {"name": "x", "dtype": "f16", "shape": ["2*n+m", "m"]},
        {"name": "i", "dtype": "u8", "shape": ["n"]},
        {"name": "b", "dtype": "bool", "shape": [64]},
        n={"min": 3, "max": 9, "multiple_of": 2},
        m={"min": 0, "max": None, "multiple_of": 1},
    )
    (point,) = manifest.entry_points.values()
    sizes = inputs.sizes_for(manifest, point, {"m": 5}, {})
    assert sizes == {"n": 4, "m": 5}
    arrays = inputs.arrays_for(point, sizes, {}, seed=1)
    assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == {
        "x": ((13, 5), "float16"),
        "i": ((4,), "uint8"),
        "b": ((64,), "bool"),
    }
    assert arrays["i"].max() <= 1
    assert arrays["b"].any()
    again = inputs.arrays_for(point, sizes, {}, seed=1)
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)
    from_given = inputs.sizes_for(manifest, point, {}, {"x": np.ones((16, 4), "f2")})
    assert from_given == {"n": 6, "m": 4}


def test_a_size_that_is_not_chosen_is_what_most_calls_have_if_that_has_code() -> None:
    leaf = {"name": "x", "dtype": "f32", "shape": ["n"]}
    manifest = manifest_of(leaf, n={"min": 1, "optimum": 48})
    (point,) = manifest.entry_points.values()
    assert inputs.sizes_for(manifest, point, {}, {}) == {"n": 48}
    assert inputs.sizes_for(manifest, point, {"n": 2}, {}) == {"n": 2}
    only = (Code("f__n_8", {"n": 8}),)
    point = replace(point, specializations=only, has_general_code=False)
    manifest = manifest_of(leaf, n={"min": 1, "optimum": 48, "policy": "error"})
    assert inputs.sizes_for(manifest, point, {}, {}) == {"n": 8}
