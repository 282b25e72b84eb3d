"""`aotc inspect --kernels`: what a manifest tells of kernels, with expected times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aotc.artifacts.manifest import Variant
from aotc.cli.bench_report import _kernel_cells
from aotc.cli.kernels import KernelTable, expected_figures
from aotc.cli.main import main
from aotc.machine.processor import NOMINAL_GHZ
from aotc.timing.dispatches import Dispatch

MACHINE = {"flops_per_cycle": 64, "bytes_per_cycle": 8}
REGION = {
    "name": "contraction.kernel",
    "family": "contraction",
    "schedule": "6 rows × 4 vectors of 16, block 2",
    "ops": ["conv_general", "add", "add", "relu"],
    "flops": 64_000_000,
    "bytes_read": 900_000,
    "bytes_written": 100_000,
    "cycles": 1_250_000,
    "entries": {
        "predict": {
            "calls": 3,
            "places": ["m.py:1 (a)", "m.py:2", "m.py:3"],
            "more": 1,
        },
        "embed": {"calls": 1, "places": ["m.py:9"], "more": 0},
    },
}
WITHOUT = {
    "entry": "predict", "op": "dot_general", "why": "it has batch axes", "count": 2,
    "places": ["m.py:7"], "more": 0,
}  # fmt: skip
KERNELS = {"machine": MACHINE, "regions": [REGION], "without": [WITHOUT]}


def variant(kernels: Any, dispatches: int | None = 10) -> Variant:
    return Variant("v", "v.vmfb", "llvm-cpu", {}, (), {}, {}, kernels, dispatches)


def test_tells_the_ops_the_work_and_the_expected_time() -> None:
    text = KernelTable(variant(KERNELS)).to_text()
    for shown in (
        "conv_general, add ×2, relu",
        "6 rows × 4 vectors of 16",
        "predict 3, embed 1",
        "m.py:1 (a), m.py:2, 3 more",
        "80%",
        "predict: 3 calls of kernels, 0.192 GFLOP",
        "IREE generates the code of 6 more dispatches",
        "predict: dot_general (2×): it has batch axes; at m.py:7",
    ):
        assert shown in text


def test_counts_are_of_named_entries_and_agree_with_their_nouns() -> None:
    entries = {"predict": {"calls": 1, "places": [], "more": 0}}
    shown = KernelTable(variant({"regions": [{**REGION, "entries": entries}]}, 2))
    text = shown.to_text()
    assert "predict 1" in text
    assert "predict: 1 call of a kernel," in text
    assert "code of 1 more dispatch (" in text


def test_expects_the_cycles_of_the_model_or_of_memory() -> None:
    found = expected_figures(REGION, MACHINE)
    assert found["roofline"] == pytest.approx(0.8)
    assert found["expected_ms"] == pytest.approx(1.25 / NOMINAL_GHZ)
    assert found["expected_gflops"] == pytest.approx(51.2 * NOMINAL_GHZ)
    assert found["intensity"] == 64
    moving = expected_figures({**REGION, "bytes_read": 79_900_000}, MACHINE)
    assert moving["roofline"] == 1
    assert moving["expected_ms"] == pytest.approx(10 / NOMINAL_GHZ)
    unknown = expected_figures(
        {k: v for k, v in REGION.items() if k != "cycles"}, MACHINE
    )
    assert unknown["expected_ms"] is unknown["roofline"] is None


def test_says_which_operations_of_winograd_kernels_are_counted() -> None:
    assert "direct convolution" not in KernelTable(variant(KERNELS)).to_text()
    fast = {**REGION, "family": "winograd", "cycles": 500_000}
    text = KernelTable(variant({**KERNELS, "regions": [REGION, fast]})).to_text()
    assert "200%" in text
    assert "counted as those of the direct convolution" in text


def test_an_entry_is_shown_with_its_own_calls_alone() -> None:
    document = KernelTable(variant(KERNELS), ["embed"]).to_json()
    assert [list(row["entries"]) for row in document["kernels"]] == [["embed"]]
    assert document["without_kernel"] == []
    assert KernelTable(variant(KERNELS), ["train"]).to_json()["kernels"] == []


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        (None, "does not tell of kernels"),
        ({"none": "there are no kernels for vmvx", "regions": []}, "kernels for vmvx"),
        ({"machine": MACHINE, "regions": [], "without": [WITHOUT]}, "see below"),
        ({"machine": MACHINE, "regions": [], "without": []}, "there is no product"),
    ],
)
def test_a_variant_without_kernels_says_why(kernels: Any, why: str) -> None:
    table = KernelTable(variant(kernels))
    assert why in table.to_text()
    assert why in table.to_json()["none"]


def test_a_profile_shows_what_a_kernel_computes_and_how_fast() -> None:
    dispatch = Dispatch("contraction.kernel", 3, 2.0, 2.0, REGION)
    speed, ops, where = _kernel_cells(dispatch, "predict")
    assert (speed, ops) == ("96", "conv_general, add ×2, relu")
    assert where == "m.py:1 (a), m.py:2, 2 more"
    assert _kernel_cells(Dispatch("predict$1", 3, 2.0, 2.0), "predict")[0] == "-"


def test_the_command_refuses_names_that_the_bundle_has_not(shelf: Any) -> None:
    path = shelf.bundle()
    assert main(["inspect", path, "--kernels", "--target", "v9"]) == 2
    assert main(["inspect", path, "--kernels", "--entry", "nothing"]) == 2
    assert main(["inspect", path, "--entry", "add"]) == 2


def test_the_command_tells_of_a_bundle_by_an_earlier_aotc(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", shelf.bundle(), "--kernels", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "aotc.inspect-kernels/1"
    (found,) = document["variants"]
    assert "does not tell of kernels" in found["none"]
