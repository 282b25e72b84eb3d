"""Regions of programs for GPUs, and what has none."""

from __future__ import annotations

import pytest

from aotc.cli.main import main
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.refusal import refusals_in
from aotc.kernels.verifier import impossible_regions
from aotc.machine.target import Target

from .building import HERE, kernels_by_name, unit_at

pytestmark = pytest.mark.usefixtures("with_triton")


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_kernels_take_all_products_and_rows_of_layers(target: str) -> None:
    """A layer of BERT, a block of ResNet, a step of a decoder and one of training."""
    unit = unit_at("regions", "layers.py", target)
    known = capabilities_of(Target.parse(target))
    assert not [*impossible_regions(unit.module, known)]
    refused = refusals_in(unit.module, known)
    assert refused.keys() == {"bert_layer", "resnet_block", "decode", "train_mlp"}
    assert not any(refused.values())
    families = {name.partition(".")[0].partition("_")[0] for name in
                kernels_by_name("layers.py", target)}  # fmt: skip
    assert families == {"contraction", "attention", "rows", "updates"}


def test_why_calls_make_floats_of_weights_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(HERE / "dequantised.py")
    assert main(["explain", file, "--target", "cuda:sm_80"]) == 0
    said = (
        "graph.dequantize (1×): cuda:sm_80 has no kernel for it: something else than a "
        "product reads it"
    )
    assert said in capsys.readouterr().out


def test_relaxed_products_of_f32_have_kernels_of_their_own() -> None:
    def families(target: str) -> set[str]:
        unit = unit_at("regions", "dispatched.py", target, numerics="relaxed")
        found = map(fused_of, functions_of(unit.module).values())
        return {fused.kernel for fused in found if fused is not None}

    relaxed = {"contraction-tf32x3", "attention-tf32x3", "rows"}
    assert families("cuda:sm_80") == relaxed
    assert families("rocm:gfx1100") == {"contraction", "attention", "rows"}
