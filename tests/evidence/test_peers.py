"""Peers: what they are given, what they have to compute, and what is said otherwise."""

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from aotc.artifacts.manifest import Leaf
from aotc.errors import CompileError, InputError, SetupError
from aotc.evidence import replay
from aotc.evidence.contenders import Contender
from aotc.evidence.messages import (
    LoadedContender,
    Outputs,
    OutputsOf,
    Replayed,
    ReplayOrder,
    Way,
)
from aotc.evidence.peers import PEERS, Peer, choosing
from aotc.evidence.peers.agreement import require_agreement
from aotc.evidence.peers.choosing import choose_peers
from aotc.evidence.peers.engine import PeerInput
from aotc.evidence.peers.matching import match_inputs, match_outputs
from aotc.evidence.requests import RequestSequence
from aotc.evidence.serve import answer, load_player
from aotc.evidence.signature import EntrySignature
from aotc.timing.messages import TimedBundle

X, K = Leaf("x", "f32", ("n", 8)), Leaf("k", "i32", ())


# ---- inputs and outputs -------------------------------------------------------------


def port(name, dtype="f32", *shape):
    return PeerInput(name, dtype, shape)


def test_inputs_are_matched_by_name_in_any_order():
    ports = [port("k", "i32"), port("x", "f32", None, 8)]
    assert match_inputs("torch", ports, [X, K]) == (K, X)


def test_inputs_of_other_names_are_matched_by_order():
    ports = [port("input.1", "f32", None, 8), port("input.2", "i32")]
    assert match_inputs("torch", ports, [X, K]) == (X, K)


def test_an_input_that_an_exporter_has_dropped_is_not_given():
    assert match_inputs("torch", [port("x", "f32", None, 8)], [K, X]) == (X,)


@pytest.mark.parametrize(
    "ports",
    [
        [port("a", "f32", None, 8)],
        [port("a", "i32"), port("b", "f32", None, 8)],
        [port("x", "f64", None, 8), port("k", "i32")],
        [port("x", "f32", None, 9), port("k", "i32")],
        [port("x", "f32", None), port("k", "i32")],
    ],
)
def test_inputs_of_other_types_are_refused(ports):
    with pytest.raises(InputError, match="x: f32") as caught:
        match_inputs("torch", ports, [X, K])
    assert caught.value.code == "peer-mismatch"


def test_outputs_are_matched_by_name_else_by_order():
    assert match_outputs("torch", ["b", "a"], ["a", "b"]) == (1, 0)
    assert match_outputs("torch", ["", ""], ["a", "b"]) == (0, 1)
    assert match_outputs("torch", ["c", "a", "b"], ["a"]) == (1,)
    with pytest.raises(InputError, match="the 2 outputs") as caught:
        match_outputs("torch", ["c"], ["a", "b"])
    assert caught.value.code == "peer-mismatch"


def outputs(*values, dtype="f4"):
    return (("y", np.array(values, dtype)),)


def test_outputs_within_the_tolerance_agree():
    found = require_agreement("torch", outputs(1.001, 4), "static", outputs(1, 4))
    assert found.reference == "static"
    assert found.error == pytest.approx(0.001 / 4, rel=1e-3)
    assert found.tolerance == 1e-3
    nan = outputs(float("nan"), float("inf"))
    assert require_agreement("torch", nan, "static", nan).error == 0
    few = outputs(3, dtype="i4")
    assert require_agreement("torch", few, "static", few).tolerance == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (outputs(1, 4.1), outputs(1, 4)),
        (outputs(1, float("nan")), outputs(1, 4)),
        (outputs(1, 4), outputs(1, float("nan"))),
        (outputs(1), outputs(1, 4)),
        (outputs(1, 4, dtype="f8"), outputs(1, 4)),
        (outputs(1, 4, dtype="i4"), outputs(1, 5, dtype="i4")),
    ],
)
def test_a_peer_that_computes_something_else_is_an_error(found, expected):
    with pytest.raises(InputError, match="torch computes something else") as caught:
        require_agreement("torch", found, "static", expected)
    assert caught.value.code == "peer-differs"


# ---- what is asked for --------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "model.pt2", "other.onnx"):
        (tmp_path / name).touch()

    def install(*packages):
        found = {name: ModuleSpec(name, None) for name in packages}
        monkeypatch.setattr(choosing, "find_spec", found.get)

    install("onnxruntime", "openvino", "torch")
    return install


SIGNATURE = EntrySignature("f", {}, (), (X, K))


def test_peers_run_the_source_or_the_file_that_is_named(installed):
    asked = ["onnxruntime", "openvino:other.onnx", "torch:model.pt2"]
    found = choose_peers(asked, "model.onnx", SIGNATURE, 2)
    files = [each.subject.bundle for each in found]
    assert files == ["model.onnx", "other.onnx", "model.pt2"]
    assert [each.name for each in found] == ["onnxruntime", "openvino", "torch"]
    for each in found:
        assert each.is_peer
        assert (each.subject.threads, each.inputs) == (2, (X, K))
    assert not Contender("jit", TimedBundle("model.py", "f"), player="jit").is_peer


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (["jax"], "unknown-peer"),
        (["onnxruntime:model.pt2"], "peer-file"),
        (["torch"], "peer-file"),
        (["onnxruntime:none.onnx"], "no-such-file"),
        (["onnxruntime", "onnxruntime:other.onnx"], "bad-option"),
    ],
)
def test_what_no_peer_can_run_is_refused(installed, asked, code):
    with pytest.raises(InputError) as caught:
        choose_peers(asked, "model.onnx", SIGNATURE, 1)
    assert caught.value.code == code


def test_a_peer_that_is_not_installed_is_an_error_with_its_package(installed):
    installed("onnxruntime")
    with pytest.raises(SetupError, match="package 'torch'") as caught:
        choose_peers(["torch-compile:model.pt2"], "model.py", SIGNATURE, 1)
    assert (caught.value.code, caught.value.hint) == (
        "missing-peer",
        "pip install torch",
    )


def test_calls_that_change_a_state_have_no_peer(installed):
    changing = replace(SIGNATURE, updates=("cache",))
    assert choose_peers([], "model.onnx", changing, 1) == ()
    with pytest.raises(InputError, match="updates cache") as caught:
        choose_peers(["onnxruntime"], "model.onnx", changing, 1)
    assert caught.value.code == "peer-state"


def test_peers_are_imported_in_the_process_of_a_replay_alone():
    packages = sorted({peer.package for peer in PEERS.values()})
    code = (
        "import sys, aotc.cli.evidence, aotc.evidence.models, aotc.evidence.serve\n"
        f"print([name for name in {packages} if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


# ---- the replay ---------------------------------------------------------------------


class Doubling:
    """An engine without a package: 2 x + k, of files that do not end in `bad`."""

    version, path, compiles = "1.0", "any", 0
    inputs = (port("k", "i32"), port("x", "f32", None, 8))
    outputs = ("y",)

    def __init__(self, file, threads):
        if file.stem == "bad":
            raise OSError("this is\nno model")

    def prepare(self, arrays):
        return arrays

    def call(self, prepared):
        k, x = prepared
        return [2 * x + k]


@pytest.fixture
def double(monkeypatch, tmp_path):
    """The order of a replay on that engine."""
    module = type(sys)("doubling")
    module.Doubling = Doubling
    monkeypatch.setitem(sys.modules, "doubling", module)
    peer = Peer("doubling", (".onnx",), "doubling:Doubling")
    monkeypatch.setitem(PEERS, "onnxruntime", peer)

    def order(name="model", **asked):
        (tmp_path / f"{name}.onnx").write_bytes(b"12345678")
        (tmp_path / f"{name}.onnx.data").write_bytes(b"12")
        subject = TimedBundle(str(tmp_path / f"{name}.onnx"), "f", threads=3)
        requests = RequestSequence(({"n": 2}, {"n": 5}), (1, 0, 1))
        given = {"inputs": (X, K), "requests": requests, "seed": 4, **asked}
        return ReplayOrder("onnxruntime", subject, **given)

    return order


def test_a_peer_replays_the_requests_and_tells_what_it_loaded(double):
    player = load_player(double())
    played = answer(player, "play")
    assert len(played.times) == 3
    assert played.ways == (Way("any", "onnxruntime", 17), Way("any", "onnxruntime", 41))
    loaded = player.loaded
    assert (loaded.title, loaded.threads) == ("model.onnx, doubling 1.0", 3)
    assert (loaded.artifact_bytes, loaded.codes, loaded.partitions) == (10, None, None)
    ((name, first),) = answer(player, OutputsOf(1))
    assert (name, first.shape) == ("y", (5, 8))


def test_a_file_of_fixed_sizes_is_refused_if_the_traffic_has_others(
    double, monkeypatch
):
    fixed = (port("k", "i32"), port("x", "f32", 2, 8))
    monkeypatch.setattr(Doubling, "inputs", fixed)
    with pytest.raises(
        InputError, match=r"x: f32\[2, 8\], which calls of n=5"
    ) as found:
        load_player(double())
    assert found.value.code == "peer-mismatch"
    two = RequestSequence(({"n": 2},), (0, 0))
    assert load_player(double(requests=two)).play().ways[0].path == "own"


def test_what_a_peer_raises_is_an_error_of_the_peer(double, monkeypatch):
    with pytest.raises(InputError, match="onnxruntime: OSError: this is ") as caught:
        load_player(double("bad"))
    assert caught.value.code == "peer-failed"
    player = load_player(double())
    monkeypatch.setattr(Doubling, "call", lambda *_: 1 / 0)
    for question in ("play", OutputsOf(0)):
        with pytest.raises(InputError, match="ZeroDivisionError") as caught:
            answer(player, question)
        assert caught.value.code == "peer-failed"


MS = 10**6
NOTHING = LoadedContender("", "", 1, None, None, 0, MS, 0, ())


@pytest.fixture
def served(monkeypatch):
    """Servers by the names of bundles: their outputs, or the error of a start."""
    known: dict[str, Outputs | Exception] = {}

    @contextmanager
    def serve(subject, order, module):
        found = known[subject.bundle]
        if isinstance(found, Exception):
            raise found
        yield Server(found)

    class Server:
        loaded = NOTHING

        def __init__(self, found):
            self._found = found

        def ask(self, question):
            if isinstance(question, OutputsOf):
                assert question.place == 1  # the first call that is not refused
                return self._found
            ways = (Way("any", "f", 1),) * 2
            return Replayed((None, MS), ways, 0, 0)

    monkeypatch.setattr(replay, "Server", serve)
    return known


REQUESTS = RequestSequence(({"n": 2}, {"n": 5}), (0, 1))
DYNAMIC = Contender("dynamic", TimedBundle("dynamic", "f"))
TORCH = Contender("torch", TimedBundle("torch", "f"), player="torch")


def test_a_peer_is_compared_with_the_first_contender_of_aotc(served):
    served.update(dynamic=outputs(1, 4), torch=outputs(1, 4.001))
    (first, peer), _ = replay.measure([DYNAMIC, TORCH], REQUESTS, 0, 0.001)
    assert first.agreement is None
    assert peer.agreement.reference == "dynamic"
    served["torch"] = outputs(1, 5)
    with pytest.raises(InputError, match="than dynamic in the first call") as caught:
        replay.measure([DYNAMIC, TORCH], REQUESTS, 0, 0.001, may_leave_out=True)
    assert caught.value.code == "peer-differs"


def test_a_peer_that_dies_is_no_wrong_compilation_and_not_left_out(served):
    died = CompileError("compiled-code-died", "the process died of SIGSEGV")
    served.update(dynamic=outputs(1), torch=died)
    with pytest.raises(InputError, match="torch: the process died") as caught:
        replay.measure([DYNAMIC, TORCH], REQUESTS, 0, 0.001, may_leave_out=True)
    assert caught.value.code == "peer-failed"
