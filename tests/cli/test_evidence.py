"""`aotc bench --traffic`: figures that hold together, and errors in time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from aotc.cli.main import main

MODEL = """
import numpy
import aotc
import aotc.numpy as np

weights = aotc.Weights({"w": numpy.ones((8, 8), "f4")})
n = aotc.Dim("n", max=16, specialize=(2,))
state = aotc.State({"rows": np.zeros(())})


@aotc.entry(x=aotc.Spec((n, 8)))
def score(weights, state, x):
    rows = state["rows"] + x.shape[0]
    return {"rows": rows}, np.sum(np.tanh(x @ weights["w"]), axis=0) + rows


@aotc.entry(x=aotc.Spec(("m", 8)))
def other(weights, x):
    return x @ weights["w"]
"""
TRAFFIC = "n,count\n3,5\n5,3\n16,2\n"
SHARES = {"own", "padded", "any", "routed", "eager", "refused"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    Path("traffic.csv").write_text(TRAFFIC)
    return tmp_path


def require_whole(document: dict[str, Any]) -> None:
    """Figures that do not contradict each other."""
    assert document["schema"] == "aotc.evidence/1"
    for each in document["contenders"]:
        assert sum(each["shares"].values()) == pytest.approx(1)
        assert each["shares"].keys() == SHARES
        assert 0 <= each["hit_rate"] < 1
        assert each["load_ms"] > 0
        latency, least = each["latency_ms"], each["least_latency_ms"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]
        assert all(least[name] <= latency[name] for name in latency)
        assert 0 <= each["goodput_per_second"] <= each["capacity_per_second"]
        assert 0 < each["memory_bytes"]["before_load"] <= each["memory_bytes"]["peak"]
        p99s = [row["p99"] for row in each["latency_over_rate"]]
        assert p99s == sorted(p99s)


def test_models_of_a_source_are_built_and_replayed_side_by_side(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        *("bench", "model.py", "--traffic", "traffic.csv", "--models"),
        *("buckets,dynamic", "--max-variants", "2", "--requests", "20", "--threads"),
        *("1", "--seconds", "0.1", "--html", "page.html", "--format", "json"),
    ]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    require_whole(document)
    assert (document["entry"], document["requests"]) == ("score", 20)
    assert document["traffic"]["distinct_sizes"] == 3
    buckets, dynamic = document["contenders"]
    # code of 5 and 16: the model's own size, 2, is not among them
    assert [each["codes"] for each in (buckets, dynamic)] == [2, 1]
    assert (buckets["shares"]["own"], buckets["shares"]["padded"]) == (0.5, 0.5)
    assert dynamic["shares"]["any"] == 1
    assert buckets["hit_rate"] == pytest.approx(18 / 20)
    assert dynamic["hit_rate"] == pytest.approx(19 / 20)
    given, added = 10 * 3 + 6 * 5 + 4 * 16, 10 * 2
    assert buckets["padding_overhead"] == pytest.approx(added / given)
    assert dynamic["padding_overhead"] == 0
    assert document["baseline"] == "dynamic"
    assert dynamic["p50_over_baseline"] == 1
    for each in (buckets, dynamic):
        assert (each["partitions"], each["islands"], each["fallback_share"]) == (
            1,
            0,
            0,
        )
        assert each["recompiles"] == {"cold": 0, "warm": 0}
    assert all(each["build"]["seconds"] > 0 for each in (buckets, dynamic))
    ops = [each["build"]["ops_after"] for each in (dynamic, buckets)]
    assert 0 < ops[0] <= ops[1]
    require_page(Path("page.html").read_text(), document)


def test_functions_tell_recompilations_and_what_no_code_computes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        *("bench", "model.py:score", "--traffic", "traffic.csv", "--models"),
        *("jit,eager", "--requests", "10", "--seconds", "0.01", "--threads", "1"),
    ]
    assert main([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    require_whole(document)
    jit, eager = document["contenders"]
    # code for the first size, and then for any
    assert (jit["compiles"], jit["recompiles"]) == (2, {"cold": 1, "warm": 0})
    assert (jit["partitions"], jit["fallback_share"]) == (1, 0)
    assert (eager["partitions"], eager["fallback_share"]) == (0, 1)
    assert eager["shares"]["eager"] == 1
    assert jit["codes"] is eager["codes"] is None


@pytest.fixture
def double(folder: Path) -> Path:
    """Files of y = 2 x, for any number of rows, and a model.py of it."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper

    def value(name: str) -> Any:
        kind = onnx.TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, ["n", 8])

    def write(file: str, op: str, x: str, y: str) -> None:
        node = helper.make_node(op, [x, x], [y])
        graph = helper.make_graph([node], "double", [value(x)], [value(y)])
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        onnx.save(model, file)

    write("double.onnx", "Add", "x", "y")
    write("renamed.onnx", "Add", "input.1", "output.1")
    write("square.onnx", "Mul", "x", "y")
    Path("double.py").write_text(
        'import aotc\n\n\n@aotc.entry(x=aotc.Spec(("n", 8)))\n'
        "def double(x):\n    return x + x\n"
    )
    return folder


BRIEF = ["--traffic", "traffic.csv", "--requests", "6", "--seconds", "0.01"]
BRIEF += ["--threads", "1"]


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_peers_replay_an_onnx_file_beside_its_bundle(
    double: Path, peer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(peer)
    arguments = ["bench", "double.onnx", "--compare", "static, dynamic", *BRIEF]
    arguments += ["--against", peer, "--html", "page.html", "--format", "json"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    require_whole(document)
    require_page(Path("page.html").read_text(), document)
    static, dynamic, found = document["contenders"]
    assert [x["name"] for x in (static, dynamic, found)] == ["static", "dynamic", peer]
    assert len({each["rounds"] for each in document["contenders"]}) == 1
    assert found["agreement"] == {"reference": "static", "error": 0, "tolerance": 1e-3}
    assert static["agreement"] is dynamic["agreement"] is None
    assert (found["threads"], found["build"]) == (1, None)
    assert found["variant"].startswith(f"{peer} ")
    assert (found["shares"]["any"], found["fallback_share"]) == (1, 0)
    assert found["artifact_bytes"] == Path("double.onnx").stat().st_size
    assert any("peers compute what static does" in each for each in document["notes"])


def test_a_peer_has_a_file_of_its_own_where_the_source_is_python(
    double: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    arguments = ["bench", "double.py", "--models", "eager", *BRIEF, "--against"]
    assert main([*arguments, "onnxruntime:renamed.onnx"]) == 0
    assert re.search(r"eager +onnxruntime\n", capsys.readouterr().out)
    assert main([*arguments, "onnxruntime:square.onnx"]) == 2
    told = capsys.readouterr().err
    assert "onnxruntime computes something else than eager" in told
    assert "[peer-differs]" in told


@pytest.mark.parametrize(
    "peer", ["torch", pytest.param("torch-compile", marks=pytest.mark.slow)]
)
def test_pytorch_replays_a_file_of_torch_export(
    folder: Path, peer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, scale: float, options: dict[str, Any]) -> Any:
            return {"b": scale * x + options["k"], "a": x.sum(0)}

    example = (torch.ones(3, 8), 2.0, {"k": torch.ones(8)})
    sizes = ({0: torch.export.Dim("n", max=64)}, None, {"k": None})
    program = torch.export.export(Net(), example, dynamic_shapes=sizes)
    torch.export.save(program, "net.pt2")
    # the file has forgotten what its sizes are called
    Path("traffic.csv").write_text(TRAFFIC.replace("n", "x_0", 1))
    arguments = ["bench", "net.pt2", "--models", "dynamic", *BRIEF, "--against", peer]
    assert main([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    require_whole(document)
    dynamic, found = document["contenders"]
    assert found["agreement"]["error"] < 1e-6
    is_compiled = peer == "torch-compile"
    assert found["fallback_share"] == (not is_compiled)
    assert found["compiles"] == is_compiled
    assert found["recompiles"] == {"cold": 0, "warm": 0}


def require_page(page: str, document: dict[str, Any]) -> None:
    """One file with the table and two plots, and nothing from elsewhere."""
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
    plots = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(plots) == 2
    for plot in plots:
        lines = ElementTree.fromstring(plot).findall("polyline")
        assert len(lines) == len(document["contenders"])
        for line in lines:
            points = [pair.split(",") for pair in line.attrib["points"].split()]
            assert all(0 <= float(x) <= 720 for x, _ in points)
            assert all(0 <= float(y) <= 380 for _, y in points)
    names = [f'<th scope="col">{x["name"]}</th>' for x in document["contenders"]]
    assert all(name in page for name in names)


def test_bundles_are_replayed_as_they_are(
    shelf: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("batch.csv").write_text("batch\n1\n1\n4\n")
    bundle = shelf.bundle()
    arguments = ["bench", bundle, "--trust", shelf.public_key, "--compare", bundle]
    arguments += ["--traffic", "batch.csv", "--requests", "6", "--seconds", "0.1"]
    assert main([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    require_whole(document)
    assert document["entry"] == "scale"  # the only one that has a batch
    first, second = document["contenders"]
    assert first["build"] is second["build"] is None
    assert first["p50_over_baseline"] == 1
    assert main([*arguments, "--latency-bound", "100"]) == 0
    text = capsys.readouterr().out
    assert "6 requests of batch.csv (3 calls, 2 distinct batch), seed 0" in text
    assert "end within 100 ms (as asked for)" in text
    assert "arrivals are simulated" in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["model.py", "--models", "jitt"], "unknown-execution-model", "static, buck"),
        (["model.py", "--models", ""], "unknown-execution-model", "got ''"),
        (["model.py", "none"], "unknown-entry", "score, other"),
        (["model.py", "other"], "unknown-size", "other has m"),
        (["model.py:other"], "unknown-size", "other has m"),
        (["model.py", "--sizes", "n=3"], "unknown-size", "the traffic does not have"),
        (["model.py", "--traffic", "wide.csv"], "bad-traffic", "25.0% of the calls"),
        (["model.py", "--traffic", "empty.csv"], "bad-traffic", "at least one call"),
        (["model.py", "--traffic", "k.csv"], "unknown-size", "score has n; other has"),
        (["model.py", "--compare", "{bundle}"], "bad-option", "bundles alone"),
        (["model.py", "--compare", "static,b.aotc"], "bad-option", "--compare b.aotc"),
        (["model.py", "--compare", "statik"], "unknown-execution-model", "'statik'"),
        (
            ["model.py", "--compare", "jit", "--models", "static"],
            "bad-option",
            "got both, static and jit",
        ),
        (["{bundle}", "--compare", "static,jit"], "bad-option", "which is none"),
        (["model.py", "--against", "tvm"], "unknown-peer", "onnxruntime, openvino"),
        (["model.py", "--against", ""], "unknown-peer", "got ''"),
        (["model.py", "--against", "torch"], "peer-file", "(.pt2); got 'model.py'"),
        (["model.py", "--against", "torch:m.onnx"], "peer-file", "got 'm.onnx'"),
        (["model.py", "--against", "torch:m.pt2"], "no-such-file", "at 'm.pt2'"),
        (["model.py", "--against", f"torch:{'m' * 300}.pt2"], "no-such-file", "mmm"),
        (["{bundle}", "--compare", "b" * 300], "bad-option", "which is none"),
        (["{bundle}", "--compare", "model.py"], "bad-option", "got the model"),
        (["{bundle}", "--models", "dynamic"], "bad-option", "for; got the bundle"),
        (["{bundle}"], "unknown-size", "scale has batch"),
        (["none.aotc"], "bundle-missing", ""),
        (["model.py", "--calls", "3"], "usage", "--calls is of no use with --traffic"),
        (["model.py", "-i", "x=1"], "usage", "--input is of no use with --traffic"),
    ],
)
def test_wrong_use_exits_with_2_before_anything_is_built(
    shelf: Any,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
    said: str,
) -> None:
    Path("wide.csv").write_text("n,count\n3,3\n17,1\n")
    Path("empty.csv").write_text("n\n")
    Path("k.csv").write_text("k\n3\n")
    bundle = shelf.bundle()
    given = [each.format(bundle=bundle) for each in arguments]
    traffic = [] if "--traffic" in given else ["--traffic", "traffic.csv"]
    assert main(["bench", *given, *traffic, "--trust", shelf.public_key]) == 2
    told = capsys.readouterr().err
    assert f"[{code}]" in told
    assert said in told


def test_what_belongs_to_traffic_is_refused_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "b.aotc", "--requests", "3"]) == 2
    assert "--requests is of use with --traffic alone" in capsys.readouterr().err
