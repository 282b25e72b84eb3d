"""The operators that benchmarks/operators.py times are those of the networks."""

import pytest

from benchmarks.operator_tables.cases import all_cases, mobilenet_v2, resnet50


@pytest.mark.parametrize(
    ("network", "convolutions", "published"),
    # multiplications of convolutions: table 1 of the ResNet paper, with the stride in
    # the 3×3 convolutions as in PyTorch; table 3 of the MobileNetV2 paper
    [(resnet50, 53, 4.09e9), (mobilenet_v2, 52, 0.300e9)],
)
def test_convolutions_add_up_to_the_published_network(network, convolutions, published):
    cases = list(network())
    assert len(cases) == convolutions
    multiplications = sum(case.flops for case in cases) / 2
    assert multiplications == pytest.approx(published, rel=0.01)


def test_each_case_has_a_name_of_its_own():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert {case.family for case in cases} >= {"conv", "gemm", "batched", "softmax"}


def test_bytes_are_those_of_inputs_weights_and_outputs():
    found = {case.name: case.bytes for case in all_cases()}
    assert found["gemm_128_768_3072"] == 4 * (128 * 768 + 768 * 3072 + 128 * 3072)
    assert found["batched_12_128_64_128"] == 4 * 12 * (2 * 128 * 64 + 128 * 128)
    assert found["sum_1536_128"] == 4 * (1536 * 128 + 1536)
    assert found["conv_224_3_64_7x7_s2"] == 4 * (
        224 * 224 * 3 + 7 * 7 * 3 * 64 + 112 * 112 * 64
    )
